#include "run.cuh"
#include "squares.cuh"

KERNEL __launch_bounds__(threads) norm_ghost(const Run *run, int first, int capacity, GHOSTS(double *, norm2)) {
	__shared__ double scratch[2][threads];
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	const float *x, *dy;
	double *norm2;
	int in, out, bias;
	CHOOSE_GHOST(blockY(), norm2)
	double n = ghostNorm(b, x, dy, in, out, bias, scratch);
	if (threadX() == 0)
		norm2[b] += n;
}
