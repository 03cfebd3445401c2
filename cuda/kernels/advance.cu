#include "run.cuh"

KERNEL __launch_bounds__(256) advance(const uint32 *ring, int slots, int stride, uint64 *counter, uint32 *run, int capacity) {
	int t = threadX();
	uint64 turn = *counter;
	const uint32 *slot = ring + turn % (uint64)slots * (uint64)(stride / 4);
	const int header = __builtin_offsetof(Run, rows) / 4;
	int live = max(0, min((int)slot[0], capacity));
	for (int i = t; i < header + live; i += threadsX())
		run[i] = i == 0 ? (uint32)live : slot[i];
	barrier(); // all have read the counter
	if (t == 0)
		*counter = turn + 1;
}
