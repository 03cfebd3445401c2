#include "run.cuh"

typedef uint32 Quad __attribute__((ext_vector_type(4)));

// One block for all steps: nobody reads the counter after it grew. The way to host memory is long, so a thread asks for all
// that it may have to copy, and for the live counts, before it waits for any of it.
static __device__ __forceinline__ void advanceAll(const uint32 *ring, int slots, int stride, uint64 *counter, uint32 *run, int runStride,
                                                  int steps, int capacity, int each) {
	const int header = __builtin_offsetof(Run, rows) / 4, together = 4;
	int turn = (int)*counter;
	barrier(); // all have read it
	if (threadX() == 0)
		*counter = (uint64)(uint32)(turn + steps < slots ? turn + steps : turn + steps - slots);
	int quads = (header + capacity * each + 3) / 4;
#pragma unroll 1
	for (int begin = 0; begin < steps * quads; begin += together * threadsX()) {
		Quad x[together];
		int live[together], at[together];
		uint32 *to[together];
#pragma unroll
		for (int i = 0; i < together; i++) {
			int n = min(begin + i * threadsX() + threadX(), steps * quads - 1), step = (int)((uint32)n / (uint32)quads);
			int place = turn + step < slots ? turn + step : turn + step - slots;
			const uint32 *slot = ring + (int64)place * (stride / 4);
			at[i] = 4 * (n - step * quads);
			to[i] = run + (int64)step * (runStride / 4) + at[i];
			x[i] = *(const Quad *)(slot + at[i]);
			live[i] = (int)slot[0];
		}
#pragma unroll
		for (int i = 0; i < together; i++) {
			live[i] = max(0, min(live[i], capacity));
			if (at[i] == 0)
				x[i].x = (uint32)live[i];
			int left = begin + i * threadsX() + threadX() < steps * quads ? header + live[i] * each - at[i] : 0;
			if (left >= 4) {
				*(Quad *)to[i] = x[i];
				continue;
			}
#pragma unroll
			for (int j = 0; j < 3; j++)
				if (j < left)
					to[i][j] = x[i][j];
		}
	}
}

KERNEL __launch_bounds__(512) advance(const uint32 *ring, int slots, int stride, uint64 *counter, uint32 *run, int runStride, int steps,
                                      int capacity) {
	advanceAll(ring, slots, stride, counter, run, runStride, steps, capacity, 1);
}

KERNEL __launch_bounds__(512) advance_words(const uint32 *ring, int slots, int stride, uint64 *counter, uint32 *run, int runStride, int steps,
                                            int capacity, int each) {
	advanceAll(ring, slots, stride, counter, run, runStride, steps, capacity, each);
}
