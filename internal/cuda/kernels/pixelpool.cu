// Pools of values in pixels. A thread has a unit: channels of one output or input pixel, which neighbouring threads read beside it. A pool over the whole
// image has many pixels and one output: there a block has some units of an example, and its threads share the pixels.
#include "activation.cuh"
#include "run.cuh"
#include "units.cuh"
#include "window.cuh"

static constexpr int threads = 256; // pixelpool.go has the same

// Spot is a thread's unit of a value: channels from c on of pixel y, x of example b.
struct Spot {
	int b, y, x, c, at; // and its first element
	bool live;
	__device__ __forceinline__ Spot(const Run *run, int first, int capacity, int unit, int channels, int rows, int cols) {
		uint32 n = (uint32)index(), units = (uint32)(channels / unit), pixel = n / units, line = pixel / (uint32)cols, example = line / (uint32)rows;
		b = (int)example, y = (int)(line - example * (uint32)rows), x = (int)(pixel - line * (uint32)cols);
		c = (int)(n - pixel * units) * unit, at = (int)n * unit;
		live = b < liveRows(run, first, capacity);
	}
};

// Most is the largest value of each channel that no later one exceeds, and where it is: the first counts even if it is no number.
template <int N> struct Most {
	float value[N];
	int at[N];
	__device__ __forceinline__ Most() {
#pragma unroll
		for (int k = 0; k < N; k++)
			value[k] = 0, at[k] = -1;
	}
	__device__ __forceinline__ void take(const float (&v)[N], int place) {
#pragma unroll
		for (int k = 0; k < N; k++)
			if (at[k] < 0 || v[k] > value[k])
				value[k] = v[k], at[k] = place;
	}
};

template <class E> static __device__ __forceinline__ void maxPool(const Run *run, int first, int capacity, const typename E::Element *x, typename E::Element *y, Geometry g) {
	g.channels = padded(g.channels);
	Spot s(run, first, capacity, E::UNIT, g.channels, g.outRows, g.outCols);
	if (!s.live)
		return;
	x += s.b * g.image() + s.c;
	Most<E::UNIT> most;
	window(g, s.y, s.x, [&](int pixel) INLINE {
		float v[E::UNIT];
		load<E>(x + pixel * g.channels, v);
		most.take(v, pixel);
	});
	store<E>(y + s.at, most.value);
}

template <class E> static __device__ __forceinline__ void avgPool(const Run *run, int first, int capacity, const typename E::Element *x, typename E::Element *y, Geometry g) {
	g.channels = padded(g.channels);
	Spot s(run, first, capacity, E::UNIT, g.channels, g.outRows, g.outCols);
	if (!s.live)
		return;
	x += s.b * g.image() + s.c;
	float sum[E::UNIT];
	clear(sum);
	window(g, s.y, s.x, [&](int pixel) INLINE {
		float v[E::UNIT];
		load<E>(x + pixel * g.channels, v);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			sum[k] += v[k];
	});
#pragma unroll
	for (int k = 0; k < E::UNIT; k++)
		sum[k] /= (float)(g.windowRows * g.windowCols);
	store<E>(y + s.at, sum);
}

// passOn writes a gradient, through the activation that gave the pool's input v.
template <class E>
static __device__ __forceinline__ void passOn(typename E::Element *dx, float (&d)[E::UNIT], int act, const float (&v)[E::UNIT]) {
	if (act)
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			d[k] = passBack(act, v[k], d[k]);
	store<E>(dx, d);
}

// Of any geometry. A thread has an input's unit, and looks into all windows that read it.
template <class E>
static __device__ __forceinline__ void maxGrad(const Run *run, int first, int capacity, const typename E::Element *x, const typename E::Element *dy,
                                               typename E::Element *dx, int add, int act, Geometry g) {
	g.channels = padded(g.channels);
	Spot s(run, first, capacity, E::UNIT, g.channels, g.rows, g.cols);
	if (!s.live)
		return;
	float sum[E::UNIT], own[E::UNIT];
	clear(sum);
	if (add)
		load<E>(dx + s.at, sum);
	load<E>(x + s.at, own);
	x += s.b * g.image() + s.c, dy += s.b * g.positions() * g.channels + s.c;
	readersOf(g, s.y, s.x, [&](int i, int j) INLINE {
		Most<E::UNIT> most;
		window(g, i, j, [&](int pixel) INLINE {
			float v[E::UNIT];
			load<E>(x + pixel * g.channels, v);
			most.take(v, pixel);
		});
		float d[E::UNIT];
		load<E>(dy + (i * g.outCols + j) * g.channels, d);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			if (most.at[k] == s.y * g.cols + s.x)
				sum[k] += d[k];
	});
	passOn<E>(dx + s.at, sum, act, own);
}

// Of square windows a stride apart, both constant, without padding. A pixel has a window's maximum if no later one exceeds it and no earlier one reaches it; numbers that
// are none neither exceed nor reach, but the first of a window stays the maximum.
template <class E, int WINDOW, int STRIDE>
static __device__ __forceinline__ void maxGradSquare(const Run *run, int first, int capacity, const typename E::Element *x, const typename E::Element *dy,
                                                     typename E::Element *dx, int add, int act, Geometry g) {
	constexpr int COUNT = (WINDOW + STRIDE - 1) / STRIDE; // of the windows that read a pixel, in each direction
	g.channels = padded(g.channels);
	Spot s(run, first, capacity, E::UNIT, g.channels, g.rows, g.cols);
	if (!s.live)
		return;
	float sum[E::UNIT], own[E::UNIT];
	clear(sum);
	if (add)
		load<E>(dx + s.at, sum);
	load<E>(x + s.at, own);
	dy += s.b * g.positions() * g.channels + s.c;
#pragma unroll
	for (int n = 0; n < COUNT * COUNT; n++) {
		int i = s.y / STRIDE - (COUNT - 1) + n / COUNT, j = s.x / STRIDE - (COUNT - 1) + n % COUNT, down = s.y - i * STRIDE, right = s.x - j * STRIDE;
		if ((unsigned)i >= (unsigned)g.outRows || (unsigned)j >= (unsigned)g.outCols || down >= WINDOW || right >= WINDOW)
			continue;
		const typename E::Element *corner = x + s.at - (down * g.cols + right) * g.channels;
		int place = STRIDE == 1 ? (COUNT - 1 - n / COUNT) * WINDOW + COUNT - 1 - n % COUNT : down * WINDOW + right;
		bool lost[E::UNIT];
		float v[E::UNIT], d[E::UNIT];
#pragma unroll
		for (int k = 0; k < WINDOW * WINDOW; k++) {
			load<E>(corner + (k / WINDOW * g.cols + k % WINDOW) * g.channels, v);
#pragma unroll
			for (int e = 0; e < E::UNIT; e++) {
				if (k == 0)
					lost[e] = place > 0 && (v[e] != v[e] || own[e] != own[e]);
				lost[e] |= v[e] > own[e] || (k < place && v[e] == own[e]);
			}
		}
		load<E>(dy + (i * g.outCols + j) * g.channels, d);
#pragma unroll
		for (int e = 0; e < E::UNIT; e++)
			sum[e] = lost[e] ? sum[e] : sum[e] + d[e];
	}
	passOn<E>(dx + s.at, sum, act, own);
}

template <class E>
static __device__ __forceinline__ void avgGrad(const Run *run, int first, int capacity, const typename E::Element *x, const typename E::Element *dy,
                                               typename E::Element *dx, int add, int act, Geometry g) {
	g.channels = padded(g.channels);
	Spot s(run, first, capacity, E::UNIT, g.channels, g.rows, g.cols);
	if (!s.live)
		return;
	float sum[E::UNIT], own[E::UNIT];
	clear(sum), clear(own);
	if (act)
		load<E>(x + s.at, own);
	dy += s.b * g.positions() * g.channels + s.c;
	readersOf(g, s.y, s.x, [&](int i, int j) INLINE {
		float d[E::UNIT];
		load<E>(dy + (i * g.outCols + j) * g.channels, d);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			sum[k] += d[k];
	});
	float before[E::UNIT];
	clear(before);
	if (add)
		load<E>(dx + s.at, before);
#pragma unroll
	for (int k = 0; k < E::UNIT; k++) {
		sum[k] /= (float)(g.windowRows * g.windowCols);
		sum[k] = add ? before[k] + sum[k] : sum[k];
	}
	passOn<E>(dx + s.at, sum, act, own);
}

// Of 2×2 windows that lie side by side and fill the image: a thread has an output's unit, and writes its window.
template <class E>
static __device__ __forceinline__ void maxGradTwo(const Run *run, int first, int capacity, const typename E::Element *x, const typename E::Element *dy,
                                                  typename E::Element *dx, int add, int act, Geometry g) {
	g.channels = padded(g.channels);
	Spot s(run, first, capacity, E::UNIT, g.channels, g.outRows, g.outCols);
	if (!s.live)
		return;
	int corner = (s.b * g.rows * g.cols + 2 * s.y * g.cols + 2 * s.x) * g.channels + s.c;
	float v[4][E::UNIT], sum[4][E::UNIT], d[E::UNIT];
	load<E>(dy + s.at, d);
	Most<E::UNIT> most;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int at = corner + (i / 2 * g.cols + i % 2) * g.channels;
		load<E>(x + at, v[i]);
		clear(sum[i]);
		if (add)
			load<E>(dx + at, sum[i]);
	}
#pragma unroll
	for (int i = 0; i < 4; i++)
		most.take(v[i], i);
#pragma unroll
	for (int i = 0; i < 4; i++) {
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			sum[i][k] = most.at[k] == i ? sum[i][k] + d[k] : sum[i][k];
		passOn<E>(dx + corner + (i / 2 * g.cols + i % 2) * g.channels, sum[i], act, v[i]);
	}
}

// Whole is a thread's part of an example, in pools over the whole image: unit c of every so many pixels.
template <class E> struct Whole {
	int wide, lane, row, rows, channels, area, c; // units of a block, a thread's place, and what there is
	bool live, has;
	__device__ __forceinline__ Whole(const Run *run, int first, int capacity, int channels, int area) : channels(padded(channels)), area(area) {
		int units = this->channels / E::UNIT;
		wide = 32;
		while (wide / 2 >= units)
			wide /= 2;
		lane = threadX() % wide, row = threadX() / wide, rows = threads / wide, c = (blockY() * wide + lane) * E::UNIT;
		live = blockX() < liveRows(run, first, capacity), has = c < this->channels;
	}
	__device__ __forceinline__ int at(int pixel) const { return (blockX() * area + pixel) * channels + c; }
	template <class F> __device__ __forceinline__ void each(F f) const {
		for (int p = row; p < area && has; p += rows)
			f(at(p), p);
	}
};

// largestOf is the first of each channel's largest pixels, which all threads get, as Most would find it.
template <class E>
static __device__ __forceinline__ void largestOf(const Whole<E> &w, const typename E::Element *x, float (*values)[threads], int (*places)[threads],
                                                 float (&most)[E::UNIT], int (&best)[E::UNIT]) {
	float start[E::UNIT];
	clear(start);
	if (w.has)
		load<E>(x + w.at(0), start);
#pragma unroll
	for (int k = 0; k < E::UNIT; k++)
		most[k] = -__builtin_inff(), best[k] = 0;
	w.each([&](int at, int p) INLINE {
		float v[E::UNIT];
		load<E>(x + at, v);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			if (v[k] > most[k])
				most[k] = v[k], best[k] = p;
	});
#pragma unroll
	for (int k = 0; k < E::UNIT; k++)
		values[k][threadX()] = most[k], places[k][threadX()] = best[k];
	for (int half = w.rows / 2; half > 0; half /= 2) {
		barrier();
		if (w.row < half)
#pragma unroll
			for (int k = 0; k < E::UNIT; k++) {
				int own = threadX(), other = own + half * w.wide;
				float v = values[k][other];
				if (v > values[k][own] || (v == values[k][own] && places[k][other] < places[k][own]))
					values[k][own] = v, places[k][own] = places[k][other];
			}
	}
	barrier();
#pragma unroll
	for (int k = 0; k < E::UNIT; k++) {
		bool later = values[k][w.lane] > start[k]; // else the first pixel stays, also one that is no number
		most[k] = later ? values[k][w.lane] : start[k], best[k] = later ? places[k][w.lane] : 0;
	}
}

template <class E> static __device__ __forceinline__ void maxWhole(const Run *run, int first, int capacity, const typename E::Element *x, typename E::Element *y, Geometry g) {
	__shared__ float values[E::UNIT][threads];
	__shared__ int places[E::UNIT][threads];
	Whole<E> w(run, first, capacity, g.channels, g.rows * g.cols);
	if (!w.live)
		return;
	float most[E::UNIT];
	int best[E::UNIT];
	largestOf<E>(w, x, values, places, most, best);
	if (w.row == 0 && w.has)
		store<E>(y + blockX() * w.channels + w.c, most);
}

template <class E>
static __device__ __forceinline__ void maxGradWhole(const Run *run, int first, int capacity, const typename E::Element *x, const typename E::Element *dy,
                                                    typename E::Element *dx, int add, int act, Geometry g) {
	__shared__ float values[E::UNIT][threads];
	__shared__ int places[E::UNIT][threads];
	Whole<E> w(run, first, capacity, g.channels, g.rows * g.cols);
	if (!w.live)
		return;
	float most[E::UNIT], d[E::UNIT];
	int best[E::UNIT];
	largestOf<E>(w, x, values, places, most, best);
	clear(d);
	if (w.has)
		load<E>(dy + blockX() * w.channels + w.c, d);
	w.each([&](int at, int p) INLINE {
		float sum[E::UNIT], own[E::UNIT];
		clear(sum), clear(own);
		if (add)
			load<E>(dx + at, sum);
		if (act)
			load<E>(x + at, own);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			sum[k] = p == best[k] ? sum[k] + d[k] : sum[k];
		passOn<E>(dx + at, sum, act, own);
	});
}

template <class E> static __device__ __forceinline__ void avgWhole(const Run *run, int first, int capacity, const typename E::Element *x, typename E::Element *y, Geometry g) {
	__shared__ float sums[E::UNIT][threads];
	Whole<E> w(run, first, capacity, g.channels, g.rows * g.cols);
	if (!w.live)
		return;
	float sum[E::UNIT];
	clear(sum);
	w.each([&](int at, int) INLINE {
		float v[E::UNIT];
		load<E>(x + at, v);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			sum[k] += v[k];
	});
#pragma unroll
	for (int k = 0; k < E::UNIT; k++)
		sums[k][threadX()] = sum[k];
	for (int half = w.rows / 2; half > 0; half /= 2) {
		barrier();
		if (w.row < half)
#pragma unroll
			for (int k = 0; k < E::UNIT; k++)
				sums[k][threadX()] += sums[k][threadX() + half * w.wide];
	}
	if (w.row > 0 || !w.has)
		return;
#pragma unroll
	for (int k = 0; k < E::UNIT; k++)
		sum[k] = sums[k][threadX()] / (float)w.area;
	store<E>(y + blockX() * w.channels + w.c, sum);
}

#define FORWARD(NAME, F, E, SUFFIX)                                                                                                        \
	KERNEL __launch_bounds__(threads) NAME##_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x, E::Element *y, GEOMETRY) { \
		F<E>(run, first, capacity, x, y, GEOMETRY_VALUES);                                                                                 \
	}
// With the second bound registers are given rather than spilled.
#define BACKWARD(NAME, E, SUFFIX, ...)                                                                                                      \
	KERNEL __launch_bounds__(threads, 2) NAME##_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x, const E::Element *dy,   \
	                                                  E::Element *dx, int add, int act, GEOMETRY) {                                        \
		__VA_ARGS__(run, first, capacity, x, dy, dx, add, act, GEOMETRY_VALUES);                                                                  \
	}
#define POOLS(E, SUFFIX)                                                                                                                   \
	FORWARD(max_pool, maxPool, E, SUFFIX)                                                                                                  \
	FORWARD(avg_pool, avgPool, E, SUFFIX)                                                                                                  \
	FORWARD(max_pool_whole, maxWhole, E, SUFFIX)                                                                                           \
	FORWARD(avg_pool_whole, avgWhole, E, SUFFIX)                                                                                           \
	BACKWARD(max_pool_grad, E, SUFFIX, maxGrad<E>)                                                                                            \
	BACKWARD(avg_pool_grad, E, SUFFIX, avgGrad<E>)                                                                                            \
	BACKWARD(max_pool_grad_2_1, E, SUFFIX, maxGradSquare<E, 2, 1>)                                                                      \
	BACKWARD(max_pool_grad_3_2, E, SUFFIX, maxGradSquare<E, 3, 2>)                                                                      \
	BACKWARD(max_pool_grad_two, E, SUFFIX, maxGradTwo<E>)                                                                                     \
	BACKWARD(max_pool_grad_whole, E, SUFFIX, maxGradWhole<E>)
POOLS(TF32, tf32)
POOLS(BF16, bf16)
