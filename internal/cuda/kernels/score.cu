#include "run.cuh"
#include "target.cuh"

static const int threads = 128, exampleBlock = 32;

struct Score {
	double loss;
	int count, correct, confusion[1];
};

KERNEL __launch_bounds__(threads) score(const Run *run, int first, int capacity, int loss, int outputs, int classes,
              const float *targets, const double *losses, const int *predicted, Score *score) {
	__shared__ double parts[threads];
	__shared__ int counts[threads], corrects[threads];
	int t = threadX(), live = liveRows(run, first, capacity), count = 0, correct = 0;
	double total = 0;
	for (int begin = 0; begin < live; begin += threads * exampleBlock) {
		int lo = begin + t * exampleBlock;
		double part = 0;
		for (int b = lo; b < min(lo + exampleBlock, live); b++)
			if (accepted(loss, outputs, targets[b])) {
				part += losses[b];
				count++;
			}
		parts[t] = part;
		barrier();
		if (t == 0)
			for (int i = 0; i < threads; i++)
				total += parts[i];
		barrier();
	}
	// A thread keeps every threads-th row of the confusion matrix, so that no two write one count.
	for (int b = 0; classes > 0 && b < live; b++)
		if (accepted(loss, outputs, targets[b])) {
			int truth = loss == SoftmaxCrossEntropy ? (int)targets[b] : targets[b] > 0;
			if (truth % threads == t) {
				score->confusion[truth * classes + predicted[b]]++;
				correct += predicted[b] == truth;
			}
		}
	counts[t] = count, corrects[t] = correct;
	barrier();
	if (t > 0)
		return;
	for (int i = 1; i < threads; i++)
		count += counts[i], correct += corrects[i];
	score->loss += total;
	score->count += count;
	score->correct += correct;
}
