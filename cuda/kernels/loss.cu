#include "real.cuh"
#include "run.cuh"
#include "target.cuh"

static const int lanes = 32, sumThreads = 128, exampleBlock = 32;

enum Form { Sum, Decrease, Curve };

// A softmax over z, with the share of the target apart from the rest: where the network is sure, 1 minus a probability
// that is almost 1 would cancel.
struct Softmax {
	double top, rest, at; // the largest logit; the sum of exp(z-top) without the target's; the target's
};

static __device__ Softmax softmax(const float *z, int outputs, int target) {
	__shared__ double tops[lanes], sums[lanes];
	int t = threadX();
	double top = -__builtin_inf(); // a NaN shows below
	for (int i = t; i < outputs; i += lanes)
		top = (double)z[i] > top ? (double)z[i] : top;
	tops[t] = top;
	barrier();
	for (int half = lanes / 2; half > 0; half /= 2) {
		if (t < half && tops[t + half] > tops[t])
			tops[t] = tops[t + half];
		barrier();
	}
	top = tops[0];
	double rest = 0;
	for (int i = t; i < outputs; i += lanes)
		if (i != target)
			rest += exp((double)z[i] - top);
	return {top, blockSum<lanes>(rest, sums), exp((double)z[target] - top)};
}

// scalarLoss is the loss of one logit, and its slope.
static __device__ double scalarLoss(int loss, double z, double t, double *slope) {
	if (z != z) // a piece that is constant in z would hide it
		return *slope = z;
	double m;
	switch (loss) {
	case Logistic:
		m = t * z; // log(1+exp(-m)), without overflow on either side
		*slope = -t / (1 + exp(m));
		return (m < 0 ? -m : 0) + log1p(exp(-fabs(m)));
	case Hinge:
		m = 1 - t * z;
		*slope = m > 0 ? -t : 0;
		return m > 0 ? m : 0;
	case HuberHinge: {
		const double h = 0.5;
		m = 1 - t * z;
		if (m <= -h) {
			*slope = 0;
			return 0;
		}
		if (m < h) {
			*slope = -t * (m + h) / (2 * h);
			return (m + h) * (m + h) / (4 * h);
		}
		*slope = -t;
		return m;
	}
	default: { // Huber
		double r = z - t;
		if (fabs(r) <= 1) {
			*slope = r;
			return r * r / 2;
		}
		*slope = r / fabs(r);
		return fabs(r) - 0.5;
	}
	}
}

KERNEL __launch_bounds__(lanes) loss_grad(const Run *run, int first, int capacity, int loss, int outputs, const float *logits,
              const float *targets, float *delta) {
	int b = blockX(), t = threadX();
	if (b >= liveRows(run, first, capacity))
		return;
	const float *z = logits + (int64)b * outputs;
	float target = targets[b];
	delta += (int64)b * outputs;
	if (!accepted(loss, outputs, target)) {
		for (int i = t; i < outputs; i += lanes)
			delta[i] = 0;
		return;
	}
	if (loss != SoftmaxCrossEntropy) {
		double slope;
		if (t == 0) {
			scalarLoss(loss, z[0], target, &slope);
			delta[0] = (float)slope;
		}
		return;
	}
	Softmax s = softmax(z, outputs, (int)target);
	double sum = s.rest + s.at;
	barrier(); // delta may lie where the logits do
	for (int i = t; i < outputs; i += lanes)
		delta[i] = (float)(i == (int)target ? -s.rest / sum : exp((double)z[i] - s.top) / sum);
}

// predict is the first class with the largest logit; all threads of the block take part, the first has it. NaN is never larger,
// and nothing is larger than it.
static __device__ int predict(const float *z, int outputs) {
	__shared__ float values[lanes];
	__shared__ int classes[lanes];
	int t = threadX(), best = 0;
	float value = -__builtin_inff();
	for (int i = t; i < outputs; i += lanes)
		if (z[i] > value)
			value = z[i], best = i;
	values[t] = value, classes[t] = best;
	barrier();
	if (t > 0 || z[0] != z[0])
		return 0;
	for (int i = 1; i < lanes; i++)
		if (values[i] > value || (values[i] == value && classes[i] < best))
			value = values[i], best = classes[i];
	return best;
}

KERNEL __launch_bounds__(lanes) losses(const Run *run, int first, int capacity, int loss, int outputs, const float *logits,
              const float *targets, double *out, int *predicted) {
	int b = blockX(), t = threadX();
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
	if (t == 0) {
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
