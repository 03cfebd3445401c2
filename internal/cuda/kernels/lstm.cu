// A learned update rule: device.LSTM.Apply for every parameter. A block has a tile of 128 parameters and takes them through all layers,
// which are products, of the weights of four gates a unit by what the layer reads, and cells.
#include "run.cuh"
#include "tile.cuh"

// device.Slot
using namespace slot;

// lstm.go has the same. A thread has the four gates of UNITS units, for COUNT parameters that are COLUMNS apart.
static constexpr int UNITS = 2, COUNT = 8, COLUMNS = 16, TILE = COUNT * COLUMNS;
static constexpr float LARGEST = 0x1.fffffep127f;

extern __shared__ __attribute__((aligned(16))) float memory[];

// Power is exp(x) = scale·(1 + more) of x <= 0, within 1.5 units in the last place of exp(x) as of exp(x) − 1. Below −87 it is
// that of −87; NaN stays.
struct Power {
	float scale, more;
	// As exp of activation.cuh; a scale of 2^-126 or more is normal.
	__device__ __forceinline__ Power(float x) {
		x = x < -87 ? -87 : x;
		const float shift = 0x1.8p23f;
		float shifted = fmaf(x, 0x1.715476p0f, shift), k = shifted - shift;
		float r = fmaf(-k, 0x1.62e4p-1f, x);
		r = fmaf(-k, 0x1.7f7d1cp-20f, r);
		float y = 1.f / 5040;
		y = fmaf(y, r, 1.f / 720);
		y = fmaf(y, r, 1.f / 120);
		y = fmaf(y, r, 1.f / 24);
		y = fmaf(y, r, 1.f / 6);
		y = fmaf(y, r, 0.5f);
		more = fmaf(r * r, y, r);
		scale = fromBits((bits(shifted) << 23) + (127 << 23));
	}
	__device__ __forceinline__ float exp() const { return fmaf(scale, more, scale); }
	__device__ __forceinline__ float expm1() const { return fmaf(scale, more, scale - 1); }
};

// quotient is over/under, within a unit in the last place, for 1 <= under <= 8. It has no branches, unlike the operator, so that the
// divisions of several cells go on at once.
static __device__ __forceinline__ float quotient(float over, float under) {
	float r = fromBits(0x7ef311c3 - bits(under)); // 1/under but for 5.1 %
	float e = fmaf(-under, r, 1);
	r = fmaf(fmaf(e, e, e), r, r); // but for e^3, which the correction squares
	float q = over * r;
	return fmaf(fmaf(-q, under, over), r, q);
}

// A gate's value as a fraction, so that what is multiplied and added is divided once. Denominators are 1 to 2.
struct Fraction {
	float over, under;
};

static __device__ __forceinline__ Fraction sigmoid(float x) {
	float e = Power(-fabsf(x)).exp();
	return {x >= 0 ? 1 : e, 1 + e};
}

static __device__ __forceinline__ Fraction tanh(float x) {
	float e = Power(-2 * fabsf(x)).expm1();
	return {__builtin_copysignf(e, x), 2 + e};
}

// log of a number above 2^-126, within 2 units in the last place.
static __device__ __forceinline__ float log(float x) {
	const uint32 root = 0x3f3504f3; // of 1/2
	int e = (int)(bits(x) - root) >> 23;
	float m = fromBits(bits(x) - ((uint32)e << 23)); // in [0.7, 1.42)
	// 2·artanh(s), of which the series leaves 5e-9
	float s = (m - 1) / (m + 1), z = s * s, y = 2.f / 9;
	y = fmaf(y, z, 2.f / 7);
	y = fmaf(y, z, 2.f / 5);
	y = fmaf(y, z, 2.f / 3);
	float l = fmaf(s * z, y, 2 * s), k = (float)e;
	return fmaf(k, 0x1.62e4p-1f, fmaf(k, 0x1.7f7d1cp-20f, l));
}

// features writes what the first layer reads of a gradient x, a row of the tile each, and gives the row behind.
static __device__ __forceinline__ float *features(float *to, float x, int logSign) {
	if (logSign) {
		float a = fabsf(x);
		bool large = a >= 4.539993e-5f; // exp(-10)
		*to = large ? log(a) / 10 : -1;
		to += TILE;
		x = large ? __builtin_copysignf(1, x) : 22026.4658f * x;
	}
	*to = x;
	return to + TILE;
}

// Place says what of a tile a thread has.
struct Place {
	int column, unit; // the first of each
	__device__ __forceinline__ Place() {
		int t = hidden(threadX());
		column = t % COLUMNS, unit = t / COLUMNS * UNITS;
	}
};

// Shared memory has the rows that a layer reads, [value][parameter], and a slab of weights: those of depth values, [value][unit][gate],
// with a gap of 16 bytes against bank conflicts. Warps that have no units only load and store.
template <int THREADS>
static __device__ __forceinline__ void project(const Run *run, int n, float *p, const float *g, const float *weights, float *state,
                                               int layers, int units, int context, int logSign, int slabAt, int depth) {
	constexpr int ROOM = THREADS / COLUMNS * UNITS, STRIDE = 4 * ROOM + 4; // room for units
	int t = threadX(), first = blockX() * TILE;
	const float *s = run->scalars;
	float *slab = memory + slabAt;
	for (int m = t; m < TILE; m += THREADS) {
		int i = first + m;
		float x = i < n ? fmaf(s[Scale], g[i], s[L2] * p[i]) * s[Gain] : 0;
		// A gate whose weight is 0 does not see infinity as no number; NaN stays.
		x = x > LARGEST ? LARGEST : x < -LARGEST ? -LARGEST : x;
		float *to = features(memory + m, x, logSign);
		for (int k = 0; k < context; k++, to += TILE)
			*to = s[Context + k];
	}
	int in = (logSign ? 2 : 1) + context;
#pragma unroll 1
	for (int layer = 0; layer < layers; layer++) {
		for (int e = t; e < units * TILE; e += THREADS) {
			int i = first + e % TILE;
			memory[in * TILE + e] = i < n ? state[(int64)(e / TILE) * n + i] : 0;
		}
		const float *last = weights + 4 * units * in, *bias = last + 4 * units * units;
		float acc[COUNT][UNITS][4];
		Place at;
#pragma unroll
		for (int v = 0; v < UNITS; v++)
#pragma unroll
			for (int gate = 0; gate < 4; gate++) {
				float b = at.unit + v < units ? bias[gate * units + at.unit + v] : 0;
#pragma unroll
				for (int i = 0; i < COUNT; i++)
					acc[i][v][gate] = b;
			}
#pragma unroll 1
		for (int begin = 0; begin < in + units; begin += depth) {
			if (begin > 0)
				barrier(); // the slab before is used up
			int terms = min(depth, in + units - begin);
			// Neighbouring threads take eight values, of one row of a matrix, then the gates.
#pragma unroll 1
			for (int d = t % 8; d < terms; d += 8) {
				int k = begin + d, gate = t / 8 % 4, width = k < in ? in : units;
				const float *from = k < in ? weights + k : last + (k - in);
#pragma unroll 1
				for (int u = t / 32; u / 4 * 4 < units; u += THREADS / 32)
					slab[d * STRIDE + 4 * u + gate] = u < units ? from[(gate * units + u) * width] : 0;
			}
			barrier();
			if (at.unit >= units)
				continue;
			const float *x = memory + begin * TILE + at.column, *w = slab + 4 * at.unit;
#pragma unroll 2
			for (int d = 0; d < terms; d++, x += TILE, w += STRIDE) {
				float4 a[UNITS];
				float b[COUNT];
#pragma unroll
				for (int v = 0; v < UNITS; v++)
					a[v] = four(w + 4 * v);
#pragma unroll
				for (int i = 0; i < COUNT; i++)
					b[i] = x[COLUMNS * i];
#pragma unroll
				for (int i = 0; i < COUNT; i++)
#pragma unroll
					for (int v = 0; v < UNITS; v++)
#pragma unroll
						for (int gate = 0; gate < 4; gate++)
							acc[i][v][gate] = fmaf(a[v][gate], b[i], acc[i][v][gate]);
			}
		}
		Place here;
		int left = n - first - here.column;
		float cell[UNITS][COUNT], *cells = state + (int64)(units + here.unit) * n + first + here.column;
#pragma unroll
		for (int v = 0; v < UNITS; v++)
#pragma unroll
			for (int j = 0; j < COUNT; j++)
				cell[v][j] = here.unit + v < units && COLUMNS * j < left ? cells[(int64)v * n + COLUMNS * j] : 0;
		barrier(); // what the layer read is used up
#pragma unroll
		for (int v = 0; v < UNITS; v++) {
			if (here.unit + v >= units)
				break;
			float *outputs = cells - (int64)units * n, *next = memory + (here.unit + v) * TILE + here.column;
#pragma unroll
			for (int j = 0; j < COUNT; j++) {
				Fraction i = sigmoid(acc[j][v][0]), f = sigmoid(acc[j][v][1]), x = tanh(acc[j][v][2]), o = sigmoid(acc[j][v][3]);
				i.over *= x.over, i.under *= x.under;
				float c = quotient(fmaf(f.over * cell[v][j], i.under, i.over * f.under), f.under * i.under);
				x = tanh(c);
				float h = quotient(o.over * x.over, o.under * x.under);
				next[COLUMNS * j] = h;
				if (COLUMNS * j < left) {
					cells[COLUMNS * j] = c;
					outputs[COLUMNS * j] = h;
				}
			}
			cells += n;
		}
		weights = bias + 4 * units;
		state += (int64)(2 * units) * n;
		in = units;
	}
	barrier();
	for (int m = t; m < TILE && first + m < n; m += THREADS) {
		float y = weights[units];
		for (int u = 0; u < units; u++)
			y = fmaf(weights[u], memory[u * TILE + m], y);
		p[first + m] = fmaf(s[Rate], y, p[first + m]);
	}
}

#define PROJECT(THREADS, BLOCKS)                                                                                                           \
	KERNEL __launch_bounds__(THREADS, BLOCKS)                                                                                              \
	project_##THREADS(const Run *run, int n, float *p, const float *g, const float *weights, float *state, int layers, int units,          \
	                  int context, int logSign, int slabAt, int depth) {                                                                   \
		project<THREADS>(run, n, p, g, weights, state, layers, units, context, logSign, slabAt, depth);                                    \
	}
PROJECT(160, 3)
PROJECT(256, 2)
PROJECT(512, 1)
