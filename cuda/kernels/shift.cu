#include "run.cuh"

KERNEL shift(const Run *run, int i, const float *at, const float *dir, int n, float *dst) {
	int64 j = index();
	if (j >= n)
		return;
	float eta = run->candidates[i];
	dst[j] = eta == 0 ? at[j] : fmaf(-eta, dir[j], at[j]);
}
