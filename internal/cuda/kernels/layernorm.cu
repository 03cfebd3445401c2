// Layer normalization, of rows of values in float32. Threads add up RUN numbers in float32 at most, and such sums in float64. Forward, squares are of differences
// from the first number of a thread's run: how large numbers are does not matter, only how far apart they lie.
#include "activation.cuh"
#include "lanes.cuh"
#include "run.cuh"
#include "units.cuh"

static constexpr int threads = 256, warps = threads / 32, RUN = 16; // layernorm.go has the same

// Units of a row that a lane has at once: registers have no room for more.
template <class E> static constexpr int STRIP = RUN / E::UNIT;
template <class E> static constexpr int BACK = STRIP<E> / 2;

// Rows of the same element that a thread has on their way at once.
static constexpr int SOME = 4;

extern __shared__ __attribute__((aligned(16))) char memory[];

struct Two {
	double a, b;
};

// Team is the lanes that share a row: some of a warp, or some warps of a block.
struct Team {
	int places, lanes, lane, own; // 2^places lanes; the block's own-th team
	__device__ __forceinline__ Team(int places) : places(places), lanes(1 << places), lane(threadX() & (lanes - 1)), own(threadX() >> places) {}
	// at is the i-th unit of a lane's strip from p on.
	__device__ __forceinline__ int at(int p, int i) const { return hidden(p + i * lanes); }
	// sum adds up what lanes have; all get it. Where it is called again, two scratches take turns, so that one barrier is enough.
	__device__ __forceinline__ Two sum(Two x, Two *scratch) const {
#pragma unroll 1
		for (int half = min(lanes, 32) / 2; half > 0; half /= 2)
			x.a += from(half, x.a), x.b += from(half, x.b);
		if (lanes <= 32)
			return x;
		if (ownLane() == 0)
			scratch[threadX() / 32] = x;
		barrier();
		scratch += own << (places - 5);
		x = scratch[0];
#pragma unroll 1
		for (int w = 1; w < lanes / 32; w++)
			x.a += scratch[w].a, x.b += scratch[w].b;
		return x;
	}
};

// Note is what takes x to x̂ = (x − high)·scale + shift.
struct Note {
	float high, scale, shift;
	__device__ __forceinline__ Note() : high(0), scale(0), shift(0) {}
	__device__ __forceinline__ Note(double mean, double by) : high((float)mean), scale((float)by), shift((float)(((double)high - mean) * by)) {}
	__device__ __forceinline__ float hat(float x) const { return fmaf(x - high, scale, shift); }
};

// Each is a list of a value for each element of a row. Where it lies evenly, several are read at once.
struct Each {
	const float *x;
	bool even;
	__device__ __forceinline__ Each(const float *x) : x(x), even(((uint64)x & 15) == 0) {}
	template <int N> __device__ __forceinline__ void at(int i, float (&v)[N]) const {
		if (N == 4 && even) {
			float4 u = *(const float4 *)(x + i);
#pragma unroll
			for (int k = 0; k < N; k++)
				v[k] = u[k];
			return;
		}
#pragma unroll
		for (int k = 0; k < N; k++)
			v[k] = x[i + k];
	}
};

// strip reads a lane's units of a row from p on; those that it does not have get other.
template <class E, int N>
static __device__ __forceinline__ void strip(const Team &t, const float *x, int p, int stop, float (&v)[N][E::UNIT], float other) {
#pragma unroll
	for (int i = 0; i < N; i++) {
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			v[i][k] = other;
		int u = t.at(p, i);
		if (u < stop)
			load<E>(x + u * E::UNIT, v[i]);
	}
}

// total adds up four sums.
static __device__ __forceinline__ double total(const float (&x)[4]) { return (double)((x[0] + x[1]) + (x[2] + x[3])); }

template <class E>
static __device__ __forceinline__ void forward(const Run *run, int first, int capacity, const float *x, const float *weight, const float *bias, float *y,
                                               double *moments, int act, int rows, int size, int places, double share, double epsilon) {
	__shared__ Two scratch[warps];
	Team t(places);
	int begin = blockX() * (threads >> places), row = begin + t.own, live = liveRows(run, first, capacity) * rows;
	if (begin >= live)
		return;
	bool has = row < live;
	int stop = has ? size / E::UNIT : 0;
	row = has ? row : begin;
	x += row * size, y += row * size;
	// Sums of x − r and its square, r being the row's first number.
	float v[STRIP<E>][E::UNIT];
	double ref = (double)x[0];
	Two sums = {0, 0};
#pragma unroll 1
	for (int p = t.lane; p < stop; p += STRIP<E> * t.lanes) {
		float origin = x[p * E::UNIT], sum[4], squares[4];
		clear(sum), clear(squares);
		strip<E>(t, x, p, stop, v, origin);
#pragma unroll
		for (int i = 0; i < STRIP<E>; i++)
#pragma unroll
			for (int k = 0; k < E::UNIT; k++) {
				int j = (i * E::UNIT + k) % 4;
				float d = v[i][k] - origin;
				sum[j] += d, squares[j] = fmaf(d, d, squares[j]);
			}
		int n = min((stop - p + t.lanes - 1) >> places, STRIP<E>) * E::UNIT;
		double apart = (double)origin - ref, moved = n * apart, own = total(sum);
		sums.a += own + moved, sums.b += fma(apart, own + own + moved, total(squares));
	}
	sums = t.sum(sums, scratch);
	double mean = fma(sums.a, share, ref), squares = fma(-sums.a * share, sums.a, sums.b) * share;
	double scale = 1 / sqrt((squares < 0 ? 0 : squares) + epsilon); // NaN stays
	if (has && t.lane == 0) {
		double *m = moments + 2 * (int64)row;
		m[0] = mean, m[1] = scale;
	}
	Note note(mean, scale);
	Each weights(weight), biases(bias);
#pragma unroll 1
	for (int p = t.lane; p < stop; p += STRIP<E> * t.lanes) {
		if (stop > STRIP<E> * t.lanes) // else it is there
			strip<E>(t, x, p, stop, v, 0);
#pragma unroll
		for (int i = 0; i < STRIP<E>; i++) {
			int u = t.at(p, i), at = u * E::UNIT;
			if (u >= stop)
				break;
			float w[E::UNIT], b[E::UNIT];
			weights.at(at, w);
			clear(b);
			if (bias)
				biases.at(at, b);
#pragma unroll
			for (int k = 0; k < E::UNIT; k++) {
				float r = fmaf(note.hat(v[i][k]), w[k], b[k]);
				v[i][k] = act ? relu(r) : r;
			}
			store<E>(y + at, v[i]);
		}
	}
}

// Way is what a way back reads, and what it keeps and adds to, perhaps neither.
struct Way {
	const float *x, *dy, *weight;
	float *dx;
	int add, act;
	float *kept;
	double *norm2;
	int bias;
};

// Share is what a block has of an example: the part-th of 2^parts of each chunk's rows, and of the units of a row those from begin on, before end. 2^across
// threads have units side by side, and groups of so many share the rows.
template <int THREADS> struct Share {
	int rows, size, parts, part, chunk, begin, end, across, lanes, groups, rounds, apart;
	__device__ __forceinline__ Share(int part, int rows, int size, int parts, int chunk, int units, int columns, int across)
	    : rows(rows), size(size), parts(parts), part(part), chunk(chunk), begin(part * columns), end(min(begin + columns, units)), across(across),
	      lanes(1 << across), groups(THREADS >> across), rounds((columns + lanes - 1) >> across), apart(THREADS + 4) {}
};

// alongRows gives the gradient at the input, of the block's share of the rows from `from` on, of which there are n.
template <class E, int THREADS>
static __device__ __forceinline__ void alongRows(const Share<THREADS> &s, const Way &w, const Team &t, int from, int n, const Note *notes, double share) {
	__shared__ Two scratch[2][THREADS / 32];
	int begin = s.part * (s.chunk >> s.parts), end = min(begin + (s.chunk >> s.parts), n), step = THREADS >> t.places, turn = 0;
	Each weights(w.weight);
#pragma unroll 1
	for (int first = begin; first < end; first += step) {
		bool has = first + t.own < end;
		int row = has ? first + t.own : first, stop = has ? s.size / E::UNIT : 0;
		const float *x = w.x + (from + row) * s.size, *dy = w.dy + (from + row) * s.size;
		float *dx = w.dx + (from + row) * s.size;
		Note note = notes[row];
		float v[BACK<E>][E::UNIT], d[BACK<E>][E::UNIT];
		// read makes of d its product with the weights.
		auto read = [&](int p) INLINE {
			strip<E>(t, x, p, stop, v, 0);
			strip<E>(t, dy, p, stop, d, 0);
#pragma unroll
			for (int i = 0; i < BACK<E>; i++) {
				int u = t.at(p, i);
				if (u >= stop)
					break;
				float by[E::UNIT];
				weights.at(u * E::UNIT, by);
#pragma unroll
				for (int k = 0; k < E::UNIT; k++)
					d[i][k] *= by[k];
			}
		};
		Two sums = {0, 0};
#pragma unroll 1
		for (int p = t.lane; p < stop; p += BACK<E> * t.lanes) {
			float sum[4], slope[4];
			clear(sum), clear(slope);
			read(p);
#pragma unroll
			for (int i = 0; i < BACK<E>; i++)
#pragma unroll
				for (int k = 0; k < E::UNIT; k++) {
					int j = (i * E::UNIT + k) % 4;
					sum[j] += d[i][k], slope[j] = fmaf(d[i][k], note.hat(v[i][k]), slope[j]);
				}
			sums.a += total(sum), sums.b += total(slope);
		}
		sums = t.sum(sums, scratch[turn]);
		turn ^= 1;
		float level = (float)(sums.a * share), slope = (float)(-sums.b * share);
#pragma unroll 1
		for (int p = t.lane; p < stop; p += BACK<E> * t.lanes) {
			if (stop > BACK<E> * t.lanes)
				read(p);
#pragma unroll
			for (int i = 0; i < BACK<E>; i++) {
				int u = t.at(p, i);
				if (u >= stop)
					break;
#pragma unroll
				for (int k = 0; k < E::UNIT; k++) {
					d[i][k] = fmaf(note.hat(v[i][k]), slope, d[i][k] - level) * note.scale;
					if (w.act)
						d[i][k] = passBack(ReLU, v[i][k], d[i][k]);
				}
				give<E>(dx + u * E::UNIT, d[i], w.add);
			}
		}
	}
}

// acrossRows adds dy·x̂ and dy of n rows from `from` on to the thread's own sums of the block's elements.
template <class E, int THREADS>
static __device__ __forceinline__ void acrossRows(const Share<THREADS> &s, const Way &w, int from, int n, const Note *notes, double *sums) {
	int lane = threadX() & (s.lanes - 1), group = threadX() >> s.across;
#pragma unroll 1
	for (int round = 0; round < s.rounds; round++) {
		int u = s.begin + (round << s.across) + lane;
		double *own = sums + round * 2 * E::UNIT * s.apart + threadX();
		if (from == 0 && group >= n)
#pragma unroll
			for (int k = 0; k < 2 * E::UNIT; k++)
				own[k * s.apart] = 0;
#pragma unroll 1
		for (int first = group; first < n && u < s.end; first += RUN * s.groups) {
			float slope[E::UNIT], sum[E::UNIT];
			clear(slope), clear(sum);
#pragma unroll 1
			for (int i = 0; i < RUN && first + i * s.groups < n; i += SOME) {
				float v[SOME][E::UNIT], d[SOME][E::UNIT];
#pragma unroll
				for (int j = 0; j < SOME; j++) {
					int row = hidden(first + (i + j) * s.groups);
					clear(v[j]), clear(d[j]);
					if (row < n) {
						int at = (from + row) * s.size + u * E::UNIT;
						load<E>(w.x + at, v[j]), load<E>(w.dy + at, d[j]);
					}
				}
#pragma unroll
				for (int j = 0; j < SOME; j++) {
					int row = hidden(first + (i + j) * s.groups);
					if (row >= n)
						break;
					Note note = notes[row];
#pragma unroll
					for (int k = 0; k < E::UNIT; k++)
						slope[k] = fmaf(d[j][k], note.hat(v[j][k]), slope[k]), sum[k] += d[j][k];
				}
			}
#pragma unroll
			for (int k = 0; k < E::UNIT; k++) {
				double a = (double)slope[k], b = (double)sum[k];
				double *x = own + k * s.apart, *y = x + E::UNIT * s.apart;
				if (from + first > group) // not the first
					a += *x, b += *y;
				*x = a, *y = b;
			}
		}
	}
}

// keep adds up what groups have, rounds it, keeps it, and gives the sum of its squares to the first thread.
template <class E, int THREADS> static __device__ __forceinline__ double keep(const Share<THREADS> &s, const Way &w, const double *sums) {
	__shared__ double norms[THREADS / 32];
	double total = 0;
#pragma unroll 1
	for (int round = 0; round < s.rounds; round++) {
		int begin = (s.begin + (round << s.across)) * E::UNIT, end = min(begin + (E::UNIT << s.across), s.end * E::UNIT);
#pragma unroll 1
		for (int j = begin + threadX(); j < end; j += THREADS) {
			int e = j - begin;
			const double *own = sums + (round * 2 * E::UNIT + e % E::UNIT) * s.apart + e / E::UNIT;
			double slope = 0, sum = 0;
#pragma unroll 1
			for (int g = 0; g < s.groups; g++)
				slope += own[g * s.lanes], sum += own[g * s.lanes + E::UNIT * s.apart];
			float k = (float)slope, kb = (float)sum;
			total = fma((double)k, (double)k, total);
			if (w.bias)
				total = fma((double)kb, (double)kb, total);
			if (w.kept) {
				w.kept[j] = k;
				if (w.bias)
					w.kept[s.size + j] = kb;
			}
		}
	}
	total = laneSum(total);
	if (ownLane() == 0)
		norms[threadX() / 32] = total;
	barrier();
	total = norms[0];
#pragma unroll
	for (int i = 1; i < THREADS / 32; i++)
		total += norms[i];
	return total;
}

template <class E, int THREADS>
static __device__ __forceinline__ void backward(const Run *run, int first, int capacity, Way w, const double *moments, int stride, int rows, int size, int parts,
                                                int places, int chunk, int columns, int across, double share) {
	int b = blockX() >> parts, part = blockX() & ((1 << parts) - 1);
	if (b >= liveRows(run, first, capacity))
		return;
	Share<THREADS> s(part, rows, size, parts, chunk, size / E::UNIT, columns, across);
	Team t(places);
	double *sums = (double *)memory;
	Note *notes = (Note *)(sums + s.rounds * 2 * E::UNIT * s.apart);
	bool keeps = w.kept || w.norm2;
	w.x += b * rows * size, w.dy += b * rows * size, moments += 2 * (int64)(b * rows);
	if (w.dx)
		w.dx += b * rows * size;
	if (w.kept)
		w.kept += (int64)b * stride;
#pragma unroll 1
	for (int from = 0; from < rows; from += chunk) {
		int n = min(chunk, rows - from);
		barrier(); // the last chunk's notes were read
		for (int r = threadX(); r < n; r += THREADS) {
			const double *m = moments + 2 * (int64)(from + r);
			notes[r] = Note(m[0], m[1]);
		}
		barrier();
		if (w.dx)
			alongRows<E, THREADS>(s, w, t, from, n, notes, share);
		if (keeps)
			acrossRows<E, THREADS>(s, w, from, n, notes, sums);
	}
	if (!keeps)
		return;
	barrier();
	double total = keep<E, THREADS>(s, w, sums);
	if (w.norm2 && threadX() == 0)
		w.norm2[part * capacity + b] += total;
}

#define LAYER_NORM(E, SUFFIX)                                                                                                                     \
	KERNEL __launch_bounds__(threads, 4) layer_norm_##SUFFIX(const Run *run, int first, int capacity, const float *x, const float *weight,    \
	                                                         const float *bias, float *y, double *moments, int act, int rows, int size,       \
	                                                         int places, double share, double epsilon) {                                      \
		forward<E>(run, first, capacity, x, weight, bias, y, moments, act, rows, size, places, share, epsilon);                               \
	}                                                                                                                                         \
	LAYER_NORM_BACK(E, SUFFIX, 256)                                                                                                           \
	LAYER_NORM_BACK(E, SUFFIX, 64)
#define LAYER_NORM_BACK(E, SUFFIX, THREADS)                                                                                                       \
	KERNEL __launch_bounds__(THREADS, 768 / THREADS)                                                                                          \
	    layer_norm_back_##SUFFIX##_##THREADS(const Run *run, int first, int capacity, const float *x, const float *dy, const float *weight,   \
	                                         const double *moments, float *dx, int add, int act, float *kept, int stride, double *norm2,      \
	                                         int biased, int rows, int size, int parts, int places, int chunk, int columns, int across,       \
	                                         double share) {                                                                                  \
		backward<E, THREADS>(run, first, capacity, {x, dy, weight, dx, add, act, kept, norm2, biased}, moments, stride, rows, size, parts,    \
		                     places, chunk, columns, across, share);                                                                          \
	}
LAYER_NORM(Plain, wide)
LAYER_NORM(Single, single)
