// Standardized weights of convolutions, and the way back to the weights that are trained.
#include "combine.cuh"
#include "lanes.cuh"

static const int threads = 256, gradThreads = 512; // standardize.go has the same
static const double least = 1e-4;                  // sum of squares that a channel is divided by

// Moments of a channel.
struct Moments {
	double mean, scale, squares;
};

// A block has a channel. hat may be 0.
KERNEL __launch_bounds__(threads) standardize(const float *w, const float *gain, float *made, Moments *moments, float *hat, int k) {
	__shared__ double scratch[2][threads];
	int o = blockX();
	w += (int64)o * k, made += (int64)o * k;
	float *unit = hat ? hat + (int64)o * k : 0;
	double sum = 0, squares = 0;
	for (int j = threadX(); j < k; j += threads)
		sum += (double)w[j];
	double mean = blockSum<threads>(sum, scratch[0]) / (double)k;
	for (int j = threadX(); j < k; j += threads) {
		double d = (double)w[j] - mean;
		squares = fma(d, d, squares);
	}
	squares = blockSum<threads>(squares, scratch[1]);
	double scale = 1 / sqrt(squares < least ? least : squares); // NaN stays
	for (int j = threadX(); j < k; j += threads) {
		double x = ((double)w[j] - mean) * scale;
		made[j] = (float)((double)gain[o] * x);
		if (unit)
			unit[j] = (float)x;
	}
	if (threadX() == 0)
		moments[o] = {mean, scale, squares};
}

// A block has an example, and its warps take turns with the channels.
KERNEL __launch_bounds__(gradThreads) standardize_grad(const Run *run, int first, int capacity, const float *w, const float *gain,
                                                       const Moments *moments, float *kept, int stride, double *norm2, int out, int k, int bias) {
	__shared__ double scratch[gradThreads];
	int b = blockX(), lane = ownLane();
	if (b >= liveRows(run, first, capacity))
		return;
	kept += (int64)b * stride;
	float *behind = kept + (int64)out * k;
	double total = 0;
#pragma unroll 1
	for (int o = threadX() / 32; o < out; o += gradThreads / 32) {
		Moments m = moments[o];
		float *g = kept + (int64)o * k;
		const float *v = w + (int64)o * k;
		double sum = 0, slope = 0;
		for (int j = lane; j < k; j += 32) {
			double d = (double)g[j];
			sum += d;
			slope = fma(d, (double)v[j] - m.mean, slope);
		}
		double mean = laneSum(sum) / (double)k, factor = (double)gain[o] * m.scale;
		slope = laneSum(slope) * m.scale;
		double along = m.squares > least ? slope * m.scale : 0;
		for (int j = lane; j < k; j += 32) {
			float x = (float)(factor * ((double)g[j] - mean - along * ((double)v[j] - m.mean)));
			g[j] = x;
			total = fma((double)x, (double)x, total);
		}
		if (lane == 0) {
			float x = (float)slope;
			behind[bias + o] = x;
			total = fma((double)x, (double)x, total);
		}
	}
	if (!norm2)
		return;
	for (int j = threadX(); j < bias; j += gradThreads)
		total = fma((double)behind[j], (double)behind[j], total);
	total = blockSum<gradThreads>(total, scratch);
	if (threadX() == 0)
		norm2[b] += total;
}

// Turn is what takes a record's gradient at a filter's W back to w: its mean, and its product with ŵ, 0 below the floor.
struct Turn {
	float mean, along;
};

static __device__ __forceinline__ float turnedBy(float gain, const Moments &m) { return (float)((double)gain * m.scale); }

// turned is a value at w. What is measured and what is summed both come from here, of the same float32 numbers: every operation rounds as it is
// written, so they have the same bits.
static __device__ __forceinline__ float turned(float g, float hat, Turn t, float by) { return by * fmaf(-t.along, hat, g - t.mean); }

extern __shared__ __attribute__((aligned(16))) float rows[];

// A warp has a record, and every so many a filter; warps of a block have the same filters, so that ŵ comes from the first cache. A lane reads
// no more of a row of shared memory than it copies there: nobody waits for others.
template <int WIDE>
static __device__ __forceinline__ void measure(int live, int capacity, const float *gain, const Moments *moments, const float *hat, float *kept, int stride,
                                               Turn *turns, double *norm2, int out, int k, int bias) {
	typedef float Some __attribute__((ext_vector_type(WIDE)));
	int lane = ownLane(), warp = threadX() / 32, b = blockX() * (threadsX() / 32) + warp;
	if (b >= live)
		return;
	float *row = rows + warp * ((k + 3) & ~3);
	kept += (int64)b * stride, turns += (int64)b * out;
	float *behind = kept + (int64)out * k;
	double total = 0, share = 1 / (double)k;
#pragma unroll 1
	for (int o = blockY(); o < out; o += blocksY()) {
		const float *g = kept + (int64)o * k, *h = hat + (int64)o * k;
		for (int j = lane * WIDE; j < k; j += 32 * WIDE)
			if (WIDE == 4)
				copyFour(row + j, g + j, true);
			else
				copyAsync(row + j, g, j, true);
		Moments m = moments[o];
		float by = turnedBy(gain[o], m);
		arrived();
		double sum = 0, slope = 0;
#pragma unroll 2
		for (int j = lane * WIDE; j < k; j += 32 * WIDE) {
			Some x = *(const Some *)(row + j), y = *(const Some *)(h + j);
			float s = x[0], d = x[0] * y[0];
#pragma unroll
			for (int i = 1; i < WIDE; i++)
				s += x[i], d = fmaf(x[i], y[i], d);
			sum += (double)s, slope += (double)d;
		}
		float gains = (float)laneSum(slope);
		Turn t = {(float)(laneSum(sum) * share), m.squares > least ? gains : 0};
#pragma unroll 2
		for (int j = lane * WIDE; j < k; j += 32 * WIDE) {
			Some x = *(const Some *)(row + j), y = *(const Some *)(h + j);
#pragma unroll
			for (int i = 0; i < WIDE; i++) {
				double v = (double)turned(x[i], y[i], t, by);
				total = fma(v, v, total);
			}
		}
		if (lane == 0) {
			turns[o] = t;
			behind[bias + o] = gains;
			total = fma((double)gains, (double)gains, total);
		}
	}
	if (blockY() == 0)
		for (int j = lane; j < bias; j += 32)
			total = fma((double)behind[j], (double)behind[j], total);
	total = laneSum(total);
	if (lane == 0)
		norm2[(int64)blockY() * capacity + b] += total;
}

#define MEASURE(NAME, WIDE)                                                                                                                          \
	KERNEL __launch_bounds__(256) NAME(const Run *run, int first, int capacity, const float *gain, const Moments *moments, const float *hat, float *kept,    \
	                                   int stride, Turn *turns, double *norm2, int out, int k, int bias) {                                              \
		measure<WIDE>(liveRows(run, first, capacity), capacity, gain, moments, hat, kept, stride, turns, norm2, out, k, bias);                              \
	}
MEASURE(standardize_measure, 1)
MEASURE(standardize_measure_fours, 4)

// Turned is of gradients that are turned as they are read. Columns behind the weights are summed as they were kept.
template <int WIDE> struct Turned {
	typedef Turn More;
	typedef float Some __attribute__((ext_vector_type(WIDE)));
	const Turn *turns;
	int out;
	bool weight;
	float by;
	Some hat;
	__device__ __forceinline__ Turn more(int row) const { return turns[(int64)row * out]; }
	__device__ __forceinline__ float value(const Some &x, int i, Turn t) const { return weight ? turned(x[i], hat[i], t, by) : x[i]; }
};

// turnedOf is of the columns of a thread, which are of one filter.
template <int WIDE>
static __device__ __forceinline__ Turned<WIDE> turnedOf(const float *gain, const Moments *moments, const float *hat, const Turn *turns, int out, int k) {
	int j = (blockX() * 32 + threadX() % 32) * WIDE, o = 0;
	bool weight = j < out * k;
	if (weight)
		o = (int)((uint32)j / (uint32)k);
	else
		j = 0;
	return {turns + o, out, weight, turnedBy(gain[o], moments[o]), *(const typename Turned<WIDE>::Some *)(hat + j)};
}

#define COMBINE(NAME, THREADS, WIDE, AT_ONCE)                                                                                                          \
	KERNEL __launch_bounds__(THREADS) NAME(const Run *run, int first, int capacity, const float *gain, const Moments *moments, const float *hat,             \
	                                       const Turn *turns, int out, int k, const float *factors, const float *kept, int stride, int n, double *sum) {    \
		combineAll<WIDE, THREADS / 32, AT_ONCE>(liveRows(run, first, capacity), factors, kept, stride, n, sum,                                              \
		                                        turnedOf<WIDE>(gain, moments, hat, turns, out, k));                                                         \
	}
COMBINE(standardize_combine, 512, 1, 16)
COMBINE(standardize_combine_fours, 256, 4, 8)

// A block has a channel of a sum of gradients.
KERNEL __launch_bounds__(threads) standardize_sum(const float *w, const float *gain, const Moments *moments, const double *g, double *sumW,
                                                  double *sumGain, int k) {
	__shared__ double scratch[2][threads];
	int o = blockX();
	w += (int64)o * k, g += (int64)o * k, sumW += (int64)o * k;
	Moments m = moments[o];
	double sum = 0, slope = 0;
	for (int j = threadX(); j < k; j += threads) {
		sum += g[j];
		slope = fma(g[j], (double)w[j] - m.mean, slope);
	}
	double mean = blockSum<threads>(sum, scratch[0]) / (double)k, by = (double)gain[o] * m.scale;
	slope = blockSum<threads>(slope, scratch[1]) * m.scale;
	double along = m.squares > least ? slope * m.scale : 0;
	for (int j = threadX(); j < k; j += threads)
		sumW[j] += by * (g[j] - mean - along * ((double)w[j] - m.mean));
	if (threadX() == 0)
		sumGain[o] += slope;
}
