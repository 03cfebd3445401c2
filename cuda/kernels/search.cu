#include "run.cuh"

// A thread has a query.
KERNEL __launch_bounds__(32) first_above(const Run *run, double *sum, int queries, int baseline, int *first) {
	__shared__ int above[32];
	int i = threadX();
	if (i < queries) {
		double query = baseline ? sum[0] - sum[1 + i] : sum[i];
		above[i] = query >= run->thresholds[i];
	}
	barrier();
	if (i == 0) {
		int found = -1;
		for (int j = queries - 1; j >= 0; j--)
			if (above[j])
				found = j;
		*first = found;
	}
	for (int j = i; j < queries + baseline; j += 32)
		sum[j] = 0;
}
