// What patches have in common with atoms, shrunk and averaged over cells. docs/internals/gpu.md, "Features", says why it is one kernel.
#include "activation.cuh"
#include "lanes.cuh"
#include "run.cuh"
#include "tile.cuh"

static constexpr int CELLS = 4, SIGNS = 2, TOGETHER = 4, WARPS = 8, THREADS = 32 * WARPS;
static_assert(CELLS * SIGNS * TOGETHER == 32);

extern __shared__ __attribute__((aligned(16))) float memory[];

// A block has an image and EACH atoms, a warp some TOGETHER. Of each it adds, over the places that its lanes have, 32 sums: of atoms, signs and cells.
static constexpr int EACH = 2 * WARPS * TOGETHER;

// fold adds the lanes' sums I, I+1 … below HALF and those HALF behind them, and keeps the half that has the lane's number: in the end lane l has sum l,
// as sums[0]. Indices are constants, or the sums would lie in memory.
template <int HALF, int I = 0> static __device__ __forceinline__ void fold(float (&sums)[32]) {
	bool upper = ownLane() & HALF;
	float one = sums[I], other = sums[I + HALF];
	sums[I] = (upper ? other : one) + from(HALF, upper ? one : other);
	if constexpr (I + 1 < HALF)
		fold<HALF, I + 1>(sums);
	else if constexpr (HALF > 1)
		fold<HALF / 2>(sums);
}

KERNEL __launch_bounds__(THREADS) cells(const Run *run, int first, int capacity, const float *x, const float *by, const float *share,
                                        float weight0, float bias0, float weight1, float bias1, float *y, int atoms, int places) {
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	float4 *shares = (float4 *)memory;
	float *inverse = memory + CELLS * places;
	for (int i = threadX(); i < places; i += THREADS) {
		shares[i] = float4{share[i], share[places + i], share[2 * places + i], share[3 * places + i]};
		inverse[i] = 1 / by[b * places + i];
	}
	float weight[SIGNS] = {weight0, weight1}, bias[SIGNS] = {bias0, bias1};
	barrier();
	int end = min((blockY() + 1) * EACH, atoms);
#pragma unroll 1
	for (int atom = blockY() * EACH + threadX() / 32 * TOGETHER; atom < end; atom += WARPS * TOGETHER) {
		const float *of[TOGETHER];
#pragma unroll
		for (int k = 0; k < TOGETHER; k++)
			of[k] = x + (b * atoms + min(atom + k, atoms - 1)) * places;
		float4 acc[TOGETHER][SIGNS] = {};
#pragma unroll 1
		for (int i = ownLane(); i < places; i += 32) {
			float4 to = shares[i];
			float factor = inverse[i];
#pragma unroll
			for (int k = 0; k < TOGETHER; k++) {
				float v = of[k][i] * factor;
#pragma unroll
				for (int s = 0; s < SIGNS; s++) {
					float excess = relu(fmaf(v, weight[s], bias[s]));
					acc[k][s] = __builtin_elementwise_fma(float4{excess, excess, excess, excess}, to, acc[k][s]);
				}
			}
		}
		float sums[32];
#pragma unroll
		for (int i = 0; i < 32; i++)
			sums[i] = acc[i / CELLS / SIGNS][i / CELLS % SIGNS][i % CELLS];
		fold<16>(sums);
		int k = atom + ownLane() / (SIGNS * CELLS), s = ownLane() / CELLS % SIGNS, c = ownLane() % CELLS;
		if (k < end)
			y[((b * SIGNS + s) * atoms + k) * CELLS + c] = sums[0];
	}
}
