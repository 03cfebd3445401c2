#include "run.cuh"

// A thread has a query. Thresholds are added to values whose least is asked for.
KERNEL __launch_bounds__(32) first_above(const Run *run, double *sum, int queries, int baseline, int least, int *first) {
	__shared__ double over[32];
	int i = threadX();
	if (i < queries) {
		double query = baseline ? sum[0] - sum[1 + i] : sum[i];
		over[i] = least ? query + run->thresholds[i] : query - run->thresholds[i];
	}
	barrier();
	if (i == 0) {
		int found = least ? 0 : -1;
		for (int j = queries - 1; j >= 0; j--)
			if (least ? over[j] <= over[found] : over[j] >= 0)
				found = j;
		*first = found;
	}
	for (int j = i; j < queries + baseline; j += 32)
		sum[j] = 0;
}
