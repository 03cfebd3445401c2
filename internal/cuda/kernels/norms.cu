#include "run.cuh"
#include "squares.cuh"

// One warp measures what goes in, the other one what comes back.
KERNEL __launch_bounds__(64) norm_ghost(const Run *run, int first, int capacity, GHOSTS(double *, norm2)) {
	__shared__ double back;
	int b = blockX(), warp = threadX() / 32;
	if (b >= liveRows(run, first, capacity))
		return;
	const float *x, *dy;
	double *norm2;
	int in, out, kind;
	CHOOSE_GHOST(blockY(), norm2)
	int n = warp ? out : in;
	double sum = rowSquares(warp ? dy : x, b, n, kind);
	if (threadX() == 32)
		back = sum;
	barrier();
	if (threadX() == 0)
		norm2[b] += ghostNorm(sum, back, kind);
}
