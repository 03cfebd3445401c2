#include "run.cuh"

// A counter a block: no block waits for another one that reads.
KERNEL __launch_bounds__(256) advance(const uint32 *ring, int slots, int stride, uint64 *counters, uint32 *runs, int runStride, int steps, int capacity) {
	int t = threadX(), block = blockX();
	uint64 turn = counters[block];
	if (block < steps) {
		const uint32 *slot = ring + (turn + block) % (uint64)slots * (uint64)(stride / 4);
		uint32 *run = runs + (uint64)block * (uint64)(runStride / 4);
		const int header = __builtin_offsetof(Run, rows) / 4;
		int live = max(0, min((int)slot[0], capacity));
		for (int i = t; i < header + live; i += threadsX())
			run[i] = slot[i];
		if (t == 0)
			run[0] = (uint32)live;
	}
	barrier(); // all have read the counter
	if (t == 0)
		counters[block] = turn + (uint64)steps;
}
