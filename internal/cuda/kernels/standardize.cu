// Standardized weights of convolutions, and the way back to the weights that are trained.
#include "lanes.cuh"
#include "run.cuh"

static const int threads = 256, gradThreads = 512; // standardize.go has the same
static const double least = 1e-4;                  // sum of squares that a channel is divided by

// Moments of a channel.
struct Moments {
	double mean, scale, squares;
};

// A block has a channel.
KERNEL __launch_bounds__(threads) standardize(const float *w, const float *gain, float *made, Moments *moments, int k) {
	__shared__ double scratch[2][threads];
	int o = blockX();
	w += (int64)o * k, made += (int64)o * k;
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
	for (int j = threadX(); j < k; j += threads)
		made[j] = (float)((double)gain[o] * (((double)w[j] - mean) * scale));
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
