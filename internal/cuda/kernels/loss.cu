#include "loss.cuh"
#include "run.cuh"

static const int lanes = 32, rowThreads = 128, sumThreads = 128, exampleBlock = 32;

enum Form { Sum, Decrease, Curve };

// rowOf is the example of a warp.
static __device__ __forceinline__ int rowOf() { return (blockX() * rowThreads + threadX()) / 32; }

KERNEL __launch_bounds__(rowThreads) loss_grad(const Run *run, int first, int capacity, int loss, int outputs, const float *logits,
                                               const float *targets, float *delta) {
	int b = rowOf();
	if (b < liveRows(run, first, capacity))
		lossGrad(loss, outputs, logits + (int64)b * outputs, targets[b], delta + (int64)b * outputs);
}

// predict is the first class with the largest logit. NaN is never larger,
// and nothing is larger than it.
static __device__ int predict(const float *z, int outputs) {
	int best = 0;
	float value = -__builtin_inff();
	for (int i = ownLane(); i < outputs; i += 32)
		if (z[i] > value)
			value = z[i], best = i;
#pragma unroll
	for (int half = 16; half > 0; half /= 2) {
		float v = from(half, value);
		int c = (int)from(half, (uint32)best);
		if (v > value || (v == value && c < best))
			value = v, best = c;
	}
	return z[0] == z[0] ? best : 0;
}

KERNEL __launch_bounds__(rowThreads) losses(const Run *run, int first, int capacity, int loss, int outputs, const float *logits,
                                            const float *targets, double *out, int *predicted) {
	int b = rowOf();
	if (b >= liveRows(run, first, capacity))
		return;
	const float *z = logits + (int64)b * outputs;
	float target = targets[b];
	double value = 0, slope;
	int named = 0;
	if (accepted(loss, outputs, target)) {
		if (loss == SoftmaxCrossEntropy) {
			Softmax s = softmax(z, outputs, (int)target);
			value = log(s.rest + s.at) + s.top - (double)z[(int)target];
			named = predict(z, outputs);
		} else {
			value = scalarLoss(loss, z[0], target, &slope);
			named = loss != Huber && z[0] >= 0;
		}
	}
	if (ownLane() == 0) {
		out[b] = value;
		if (predicted)
			predicted[b] = named;
	}
}

// decrease is from - to, where what is not finite counts as infinite and the difference of two of them as 0.
static __device__ double decrease(double from, double to) {
	bool f = finite(from), t = finite(to);
	return f && t ? from - to : f ? -__builtin_inf() : t ? __builtin_inf() : 0;
}

KERNEL __launch_bounds__(lanes) loss_shares(const Run *run, int first, int capacity, int form, int k, double *rows, int loss,
              int outputs, const float *targets) {
	int b = (int)index();
	if (b >= liveRows(run, first, capacity))
		return;
	double bound = run->scalars[slot::Clip], step = run->scalars[slot::NoiseStep], base = rows[b];
	if (form != Sum)
		rows += capacity;
	bool counts = accepted(loss, outputs, targets[b]);
	double factor = 1;
	if (form == Curve) {
		double squares = 0;
		counts = counts && finite(base);
		for (int i = 0; i < k; i++) {
			double x = rows[(int64)i * capacity + b];
			counts = counts && finite(x);
			squares += (base - x) * (base - x);
		}
		double most = bound * (1 - 0x1p-40) / sqrt(squares); // the margin is for roundings
		factor = most < 1 ? most : 1;
	}
	for (int i = 0; i < k; i++) {
		double *share = rows + (int64)i * capacity + b, x = *share;
		switch (form) {
		case Sum:
			x = x < bound ? x : bound; // for NaN too
			x = x > 0 ? x : 0;
			break;
		case Decrease:
			x = decrease(base, x);
			x = x < bound ? x : bound;
			x = x > -bound ? x : -bound;
			break;
		case Curve:
			x = factor * (base - x);
		}
		if (step != 0)
			x = __builtin_trunc(x / step) * step;
		*share = counts ? x : 0;
	}
}

// sumRow adds x of the live examples; the first thread of the block has the sum.
static __device__ double sumRow(const double *x, int live) {
	__shared__ double parts[sumThreads];
	int t = threadX();
	double total = 0;
	for (int begin = 0; begin < live; begin += sumThreads * exampleBlock) {
		int lo = begin + t * exampleBlock;
		double part = 0;
		for (int b = lo; b < min(lo + exampleBlock, live); b++)
			part += x[b];
		parts[t] = part;
		barrier();
		if (t == 0)
			for (int i = 0; i < sumThreads; i++)
				total += parts[i];
		barrier();
	}
	return total;
}

KERNEL __launch_bounds__(sumThreads) loss_sums(const Run *run, int first, int capacity, const double *shares, double *dst) {
	double total = sumRow(shares + (int64)blockX() * capacity, liveRows(run, first, capacity));
	if (threadX() == 0)
		dst[blockX()] += total;
}
