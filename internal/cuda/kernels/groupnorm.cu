// Group normalization, of values in planes and in pixels. A block has a slab of one example: whole groups of it, and in pixels whole sectors of
// memory. It reads the slab twice, first for sums and then to write, so that the second time finds it in a cache.
//
// Threads add up to RUN numbers of a channel in float32, and such sums in float64. Squares are of differences from the first number of a thread's run: how
// large numbers are does not matter, only how far apart they lie.
#include "activation.cuh"
#include "lanes.cuh"
#include "run.cuh"
#include "units.cuh"

static constexpr int threads = 256, warps = threads / 32, RUN = 16; // groupnorm.go has the same number of threads

// Units of a thread that are on their way at once: registers have no room for more.
static constexpr int FORWARD = 4;

extern __shared__ __attribute__((aligned(16))) char memory[];

template <class E> struct Lies {
	static constexpr bool IN_PLANES = false;
};
template <> struct Lies<Plain> {
	static constexpr bool IN_PLANES = true;
};
template <> struct Lies<Single> {
	static constexpr bool IN_PLANES = true;
};

template <class E> static constexpr int BACK = Lies<E>::IN_PLANES ? 4 : 2;

struct Two {
	double a, b;
};

// Notes is what a block knows of its channels: two sums, and what takes x to y = (x - high)·scale + shift and a gradient d to d·scale + (x - high)·slope + level.
// Each has a list of its own, and of pixels the channels of a unit are apart, so that lanes find theirs in different banks.
template <class E> struct Notes {
	int apart;
	double *a, *b;
	float *high, *scale, *shift, *slope, *level;
	__device__ __forceinline__ Notes(int channels) {
		apart = Lies<E>::IN_PLANES ? 1 : padded(channels) / E::UNIT + 1;
		int n = Lies<E>::IN_PLANES ? channels : apart * E::UNIT;
		a = (double *)memory, b = a + n;
		high = (float *)(b + n), scale = high + n, shift = scale + n, slope = shift + n, level = slope + n;
	}
	__device__ __forceinline__ int place(int c) const { return Lies<E>::IN_PLANES ? c : c % E::UNIT * apart + c / E::UNIT; }
};

// Slab is what a block has: some channels of example b.
struct Slab {
	int b, first, channels, all; // channels from first on, of all
	int group, groups, size;     // the first group of how many of the slab, and their channels
	int area;
	bool live;
	__device__ __forceinline__ Slab(const Run *run, int firstRow, int capacity, int slab, int all, int size, int area) : all(all), size(size), area(area) {
		b = blockX(), first = blockY() * slab, channels = min(slab, all - first);
		group = first / size, groups = channels / size;
		live = b < liveRows(run, firstRow, capacity);
	}
	__device__ __forceinline__ int64 moments(int g) const { return 2 * (int64)(b * (all / size) + group + g); } // where those of a group are
};

// Lanes is how threads share a slab, in rounds. In pixels, a thread has a unit, whose channels it has alone, of every so many pixels. In planes, some lanes have a
// channel, of which a thread has every so many units. Of its round it has numbers at(start), at(start + step), … before end.
template <class E> struct Lanes {
	static constexpr bool IN_PLANES = Lies<E>::IN_PLANES;
	static constexpr int W = E::UNIT;
	int wide, lane, row, rows, step, end, rounds, exist, area, c;
	bool has;
	__device__ __forceinline__ Lanes(const Slab &s) : exist(IN_PLANES ? s.all : padded(s.all)), area(s.area) {
		int units = IN_PLANES ? s.area / W : padded(s.channels) / W;
		int places = 5; // of 2: lanes side by side
		while ((1 << places) / 2 >= units || (IN_PLANES && places > 3 && (2 << places) > units)) // in planes a few units make up for exchanges
			places--;
		wide = 1 << places, lane = threadX() & (wide - 1), row = threadX() >> places, rows = threads >> places;
		if (IN_PLANES)
			step = wide, end = units, rounds = (s.channels + rows - 1) * wide / threads;
		else
			step = rows, end = s.area, rounds = (units + wide - 1) >> places;
	}
	__device__ __forceinline__ void begin(const Slab &s, int round) {
		if (IN_PLANES)
			c = round * rows + row, has = c < s.channels;
		else
			c = (round * wide + lane) * W, has = c < padded(s.channels);
	}
	__device__ __forceinline__ int start() const { return IN_PLANES ? lane : row; }
	__device__ __forceinline__ int stop() const { return has ? end : 0; }
	__device__ __forceinline__ int at(int p) const { return IN_PLANES ? c * area + p * W : p * exist + c; }
	__device__ __forceinline__ int channel(int k) const { return IN_PLANES ? c : c + k; }
	__device__ __forceinline__ int numberOf(int c) const { return IN_PLANES ? c * area : c; } // the first of a channel
	// origin is the slab's first number.
	__device__ __forceinline__ int origin(const Slab &s) const { return IN_PLANES ? (s.b * exist + s.first) * area : s.b * exist * area + s.first; }

	// keep adds a run's two sums of each of the thread's numbers to what it has of this round; gather adds what all threads have, in a fixed order, to
	// sums. In pixels a thread's sums are in shared memory, where registers would not have room for them.
	typedef double Scratch[IN_PLANES ? 1 : 2 * W][threads];
	__device__ __forceinline__ void keep(bool begins, int k, double a, double b, Two &own, Scratch &scratch) const {
		if constexpr (IN_PLANES) {
			own.a += a, own.b += b;
			return;
		}
		double *x = &scratch[2 * k][threadX()], *y = &scratch[2 * k + 1][threadX()];
		asm volatile("" : : : "memory"); // they stay there
		if (!begins)
			a += *x, b += *y;
		*x = a, *y = b;
	}
	// none is of a thread that has no number.
	__device__ __forceinline__ void none(Two &own, Scratch &scratch) const {
		own = {0, 0};
		if constexpr (!IN_PLANES) {
			barrier(); // the last round's were read
			if (start() >= stop())
#pragma unroll
				for (int j = 0; j < 2 * W; j++)
					scratch[j][threadX()] = 0;
		}
	}
	__device__ __forceinline__ void gather(const Slab &s, const Two &own, const Scratch &scratch, const Notes<E> &notes) const {
		if constexpr (IN_PLANES) {
			double x = own.a, y = own.b;
			for (int half = wide / 2; half > 0; half /= 2)
				x += from(half, x), y += from(half, y);
			if (has && lane == 0)
				notes.a[c] = x, notes.b[c] = y;
		} else {
			barrier();
			int base = c - lane * W; // of the round
#pragma unroll
			for (int i = 0; i < 2 * W / warps; i++) {
				int j = threadX() / 32 + i * warps;
				double x = 0;
#pragma unroll
				for (int t = 0; t < threads; t += 32)
					x += scratch[j][t + ownLane()];
				for (int half = wide; half < 32; half *= 2)
					x += from(half, x);
				int channel = base + ownLane() * W + j / 2;
				if (ownLane() < wide && channel < s.channels)
					(j % 2 ? notes.b : notes.a)[notes.place(channel)] = x;
			}
		}
	}
};

// some reads up to N units of a thread from p on; those that it does not have get the values of other.
template <class E, int N>
static __device__ __forceinline__ void some(const Lanes<E> &l, const typename E::Element *x, int p, float (&v)[N][E::UNIT], const float (&other)[E::UNIT]) {
#pragma unroll
	for (int i = 0; i < N; i++) {
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			v[i][k] = other[k];
		if (p + i * l.step < l.stop())
			load<E>(x + l.at(p + i * l.step), v[i]);
	}
}

// spread sums up x − r and its square of each channel, r being the channel's first number.
template <class E> static __device__ __forceinline__ void spread(const Slab &s, Lanes<E> &l, const typename E::Element *x, const Notes<E> &notes) {
	__shared__ typename Lanes<E>::Scratch scratch;
	Two own;
#pragma unroll 1
	for (int round = 0; round < l.rounds; round++) {
		l.begin(s, round);
		l.none(own, scratch);
#pragma unroll 1
		for (int p = l.start(); p < l.stop(); p += RUN * l.step) {
			float sum[E::UNIT], squares[E::UNIT], origin[E::UNIT];
			clear(sum), clear(squares);
			load<E>(x + l.at(p), origin);
			int n = min((l.stop() - p + l.step - 1) / l.step, RUN);
#pragma unroll 1
			for (int i = 0; i < n; i += FORWARD) {
				float v[FORWARD][E::UNIT];
				some(l, x, p + i * l.step, v, origin);
#pragma unroll
				for (int j = 0; j < FORWARD; j++)
#pragma unroll
					for (int k = 0; k < E::UNIT; k++) {
						float d = v[j][k] - origin[k];
						sum[k] += d, squares[k] = fmaf(d, d, squares[k]);
					}
			}
#pragma unroll
			for (int k = 0; k < E::UNIT; k++) {
				double shift = (double)origin[k] - (double)E::get(x + l.numberOf(l.channel(k))), moved = n * shift, t = (double)sum[k];
				l.keep(p == l.start(), k, t + moved, fma(shift, t + t + moved, (double)squares[k]), own, scratch);
			}
		}
		l.gather(s, own, scratch, notes);
	}
	barrier();
}

// statistics makes of these sums the moments of each group, which it keeps, and what is to be done to x.
template <class E>
static __device__ __forceinline__ void statistics(const Slab &s, const Lanes<E> &l, const typename E::Element *x, const float *weight, const float *bias,
                                                  double *moments, double epsilon, const Notes<E> &notes) {
	double share = 1 / (double)s.area;
	for (int c = s.channels + threadX(); c < padded(s.channels) && !Lies<E>::IN_PLANES; c += threads) {
		int at = notes.place(c);
		notes.high[at] = notes.scale[at] = notes.shift[at] = 0;
	}
#pragma unroll 1
	for (int g = threadX() / 32; g < s.groups; g += warps) {
		double mean = 0, squares = 0;
		for (int c = g * s.size + ownLane(); c < (g + 1) * s.size; c += 32) {
			int at = notes.place(c);
			double sum = notes.a[at], own = fma(sum, share, (double)E::get(x + l.numberOf(c)));
			notes.a[at] = own, notes.b[at] = fma(-sum * share, sum, notes.b[at]);
			mean += own;
		}
		mean = laneSum(mean) / (double)s.size;
		for (int c = g * s.size + ownLane(); c < (g + 1) * s.size; c += 32) {
			double d = notes.a[notes.place(c)] - mean;
			squares += fma(d * (double)s.area, d, notes.b[notes.place(c)]);
		}
		squares = laneSum(squares) * share / (double)s.size;
		double scale = 1 / sqrt((squares < 0 ? 0 : squares) + epsilon); // NaN stays
		float high = (float)mean;
		for (int c = g * s.size + ownLane(); c < (g + 1) * s.size; c += 32) {
			int at = notes.place(c);
			float a = (float)(scale * (double)weight[s.first + c]);
			double b = bias ? (double)bias[s.first + c] : 0;
			notes.high[at] = high, notes.scale[at] = a, notes.shift[at] = (float)fma(-(mean - (double)high), (double)a, b);
		}
		if (ownLane() == 0) {
			double *m = moments + s.moments(g);
			m[0] = mean, m[1] = scale;
		}
	}
	barrier();
}

template <class E>
static __device__ __forceinline__ void forward(const Run *run, int first, int capacity, const typename E::Element *x, const float *weight, const float *bias,
                                               typename E::Element *y, double *moments, int act, int slab, int channels, int size, int area, double epsilon) {
	Notes<E> notes(min(slab, channels));
	Slab s(run, first, capacity, slab, channels, size, area);
	if (!s.live)
		return;
	Lanes<E> l(s);
	x += l.origin(s), y += l.origin(s);
	spread<E>(s, l, x, notes);
	statistics<E>(s, l, x, weight, bias, moments, epsilon, notes);
#pragma unroll 1
	for (int round = 0; round < l.rounds; round++) {
		l.begin(s, round);
		float high[E::UNIT], scale[E::UNIT], shift[E::UNIT], none[E::UNIT];
		clear(none);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++) {
			int at = notes.place(l.has ? l.channel(k) : 0);
			high[k] = notes.high[at], scale[k] = notes.scale[at], shift[k] = notes.shift[at];
		}
#pragma unroll 1
		for (int p = l.start(); p < l.stop(); p += FORWARD * l.step) {
			float v[FORWARD][E::UNIT];
			some(l, x, p, v, none);
#pragma unroll
			for (int i = 0; i < FORWARD; i++) {
#pragma unroll
				for (int k = 0; k < E::UNIT; k++) {
					float r = fmaf(v[i][k] - high[k], scale[k], shift[k]);
					v[i][k] = act ? relu(r) : r;
				}
				if (p + i * l.step < l.stop())
					store<E>(y + l.at(p + i * l.step), v[i]);
			}
		}
	}
}

// Way is what a way back does: gradients that it keeps, and what it adds to, perhaps neither.
struct Way {
	float *kept;
	int stride;
	double *norm2;
	int bias;
};

// prepare says again what was done to x.
template <class E>
static __device__ __forceinline__ void prepare(const Slab &s, const float *weight, const double *moments, const Notes<E> &notes) {
	for (int c = threadX(); c < (Lies<E>::IN_PLANES ? s.channels : padded(s.channels)); c += threads) {
		float high = 0, a = 0;
		if (c < s.channels) {
			const double *m = moments + s.moments(c / s.size);
			high = (float)m[0], a = weight ? (float)(m[1] * (double)weight[s.first + c]) : 0;
		}
		int at = notes.place(c);
		notes.high[at] = high, notes.scale[at] = a, notes.slope[at] = notes.level[at] = 0;
	}
	if (Lies<E>::IN_PLANES)
		barrier(); // with which rounds in pixels begin
}

// slopes sums up d and d·(x − high) of each channel.
template <class E>
static __device__ __forceinline__ void slopes(const Slab &s, Lanes<E> &l, const typename E::Element *x, const typename E::Element *dy,
                                              const Notes<E> &notes) {
	__shared__ typename Lanes<E>::Scratch scratch;
	Two own;
#pragma unroll 1
	for (int round = 0; round < l.rounds; round++) {
		l.begin(s, round);
		l.none(own, scratch);
		float high[E::UNIT], none[E::UNIT];
		clear(none);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			high[k] = notes.high[notes.place(l.has ? l.channel(k) : 0)];
#pragma unroll 1
		for (int p = l.start(); p < l.stop(); p += RUN * l.step) {
			float sum[E::UNIT], slope[E::UNIT];
			clear(sum), clear(slope);
#pragma unroll 1
			for (int i = 0; i < RUN && p + i * l.step < l.stop(); i += BACK<E>) {
				float v[BACK<E>][E::UNIT], d[BACK<E>][E::UNIT];
				some(l, x, p + i * l.step, v, none);
				some(l, dy, p + i * l.step, d, none);
#pragma unroll
				for (int j = 0; j < BACK<E>; j++)
#pragma unroll
					for (int k = 0; k < E::UNIT; k++) {
						float h = v[j][k] - high[k];
						sum[k] += d[j][k], slope[k] = fmaf(d[j][k], h, slope[k]);
					}
			}
#pragma unroll
			for (int k = 0; k < E::UNIT; k++)
				l.keep(p == l.start(), k, (double)sum[k], (double)slope[k], own, scratch);
		}
		l.gather(s, own, scratch, notes);
	}
	barrier();
}

// gradients keeps those of weights and biases, adds their squares up, and makes of the sums what the input's gradient takes.
template <class E>
static __device__ __forceinline__ void gradients(const Slab &s, const Way &way, const float *weight, const double *moments, int capacity, const Notes<E> &notes) {
	__shared__ double norms[warps];
	double total = 0, share = 1 / ((double)s.area * (double)s.size);
#pragma unroll 1
	for (int g = threadX() / 32; g < s.groups; g += warps) {
		const double *m = moments + s.moments(g);
		double mean = m[0], scale = m[1], low = mean - (double)(float)mean, sum = 0, slope = 0;
		for (int c = g * s.size + ownLane(); c < (g + 1) * s.size; c += 32) {
			double level = notes.a[notes.place(c)], along = fma(-low, level, notes.b[notes.place(c)]), w = weight ? (double)weight[s.first + c] : 0;
			sum = fma(w, level, sum), slope = fma(w, along, slope);
			float k = (float)(along * scale), kb = (float)level;
			if (way.kept) {
				float *to = way.kept + (int64)s.b * way.stride + s.first + c;
				*to = k;
				if (way.bias)
					to[s.all] = kb;
			}
			total = fma((double)k, (double)k, total);
			if (way.bias)
				total = fma((double)kb, (double)kb, total);
		}
		sum = laneSum(sum) * share, slope = laneSum(slope) * share * scale * scale;
		for (int c = g * s.size + ownLane(); c < (g + 1) * s.size; c += 32)
			notes.slope[notes.place(c)] = (float)(-slope * scale), notes.level[notes.place(c)] = (float)(scale * fma(slope, low, -sum));
	}
	total = laneSum(total);
	if (ownLane() == 0)
		norms[threadX() / 32] = total;
	barrier();
	if (way.norm2 && threadX() == 0) {
		double all = norms[0];
#pragma unroll
		for (int i = 1; i < warps; i++)
			all += norms[i];
		way.norm2[blockY() * capacity + s.b] += all;
	}
}

template <class E>
static __device__ __forceinline__ void backward(const Run *run, int first, int capacity, const typename E::Element *x, const typename E::Element *dy,
                                                const float *weight, const double *moments, typename E::Element *dx, int add, int act,
                                                const Way &way, int slab, int channels, int size, int area) {
	Notes<E> notes(min(slab, channels));
	Slab s(run, first, capacity, slab, channels, size, area);
	if (!s.live)
		return;
	Lanes<E> l(s);
	x += l.origin(s), dy += l.origin(s);
	prepare(s, weight, moments, notes);
	slopes<E>(s, l, x, dy, notes);
	gradients(s, way, weight, moments, capacity, notes);
	if (!dx)
		return;
	dx += l.origin(s);
#pragma unroll 1
	for (int round = 0; round < l.rounds; round++) {
		l.begin(s, round);
		float high[E::UNIT], scale[E::UNIT], slope[E::UNIT], level[E::UNIT], none[E::UNIT];
		clear(none);
#pragma unroll
		for (int k = 0; k < E::UNIT; k++) {
			int at = notes.place(l.has ? l.channel(k) : 0);
			high[k] = notes.high[at], scale[k] = notes.scale[at], slope[k] = notes.slope[at], level[k] = notes.level[at];
		}
#pragma unroll 1
		for (int p = l.start(); p < l.stop(); p += BACK<E> * l.step) {
			float v[BACK<E>][E::UNIT], d[BACK<E>][E::UNIT];
			some(l, x, p, v, none);
			some(l, dy, p, d, none);
#pragma unroll
			for (int i = 0; i < BACK<E>; i++) {
#pragma unroll
				for (int k = 0; k < E::UNIT; k++) {
					float h = v[i][k] - high[k];
					d[i][k] = fmaf(d[i][k], scale[k], fmaf(h, slope[k], level[k]));
					if (act)
						d[i][k] = passBack(ReLU, v[i][k], d[i][k]);
				}
				if (p + i * l.step < l.stop())
					give<E>(dx + l.at(p + i * l.step), d[i], add);
			}
		}
	}
}

#define GROUP_NORM(E, SUFFIX, BLOCKS)                                                                                                              \
	KERNEL __launch_bounds__(threads, BLOCKS) group_norm_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x, const float *weight, \
	                                                      const float *bias, E::Element *y, double *moments, int act, int slab,            \
	                                                      int channels, int size, int area, double epsilon) {                              \
		forward<E>(run, first, capacity, x, weight, bias, y, moments, act, slab, channels, size, area, epsilon);                           \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(threads, BLOCKS) group_norm_back_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x,                \
	                                                           const E::Element *dy, const float *weight,                                  \
	                                                           const double *moments, E::Element *dx, int add, int act, float *kept,       \
	                                                           int stride, double *norm2, int biased, int slab, int channels, int size,    \
	                                                           int area) {                                                                 \
		backward<E>(run, first, capacity, x, dy, weight, moments, dx, add, act, {kept, stride, norm2, biased}, slab, channels, size, \
		            area);                                                                                                                 \
	}
GROUP_NORM(Plain, planes, 4)
GROUP_NORM(Single, single, 4)
GROUP_NORM(TF32, tf32, 3)
GROUP_NORM(BF16, bf16, 2)
