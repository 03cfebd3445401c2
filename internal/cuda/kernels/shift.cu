#include "run.cuh"

KERNEL __launch_bounds__(256) shift(const Run *run, int i, const float *at, const float *dir, int n, float *dst) {
	int j = index();
	if (j >= n)
		return;
	float eta = run->candidates[i];
	dst[j] = eta == 0 ? at[j] : fmaf(-eta, dir[j], at[j]);
}
