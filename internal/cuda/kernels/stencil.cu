// Convolutions whose windows are square and move by a pixel: forward, and input gradients, which are sums of the same shape over
// the gradients of the filters, with the taps turned round. docs/internals/kernels/convolutions.md explains them.
//
// A thread has R filters of a strip of eight pixels in a row. Planes of the image come through shared memory as they lie, with
// zeros around, and a thread reads the pixels under the taps of a row once. Every result is a chain of fused
// operations from zero, plane by plane and tap by tap in order; taps that read rows outside are left out.
#include "activation.cuh"
#include "geometry.cuh"
#include "run.cuh"
#include "tile.cuh"

extern __shared__ __attribute__((aligned(16))) float memory[];

static constexpr int THREADS = 128, STRIP = 8, PLANES = 4, STAGES = 3, MARGIN = 4;

// Number is one that templates can compute with.
template <int N> struct Number {
	static constexpr int value = N;
};

// upTo calls f with the numbers below N.
template <int N, class F> static __device__ __forceinline__ void upTo(F f) {
	if constexpr (N > 0) {
		upTo<N - 1>(f);
		f(Number<N - 1>{});
	}
}

// copyAt begins to copy 4 or 16 bytes, from and to so many behind addresses, without instructions for them.
template <int BYTES, int TO, int FROM> static __device__ __forceinline__ void copyAt(uint32 to, const float *from) {
	if constexpr (BYTES == 16)
		asm volatile("cp.async.cg.shared.global [%0+%2], [%1+%3], 16;" : : "r"(to), "l"(from), "n"(TO), "n"(FROM) : "memory");
	else
		asm volatile("cp.async.ca.shared.global [%0+%2], [%1+%3], 4;" : : "r"(to), "l"(from), "n"(TO), "n"(FROM) : "memory");
}

static __device__ __forceinline__ void put(float *to, float4 x) { to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w; }

static __device__ __forceinline__ uint32 sharedAddress(float *x) { return (uint32)(uint64)(__attribute__((address_space(3))) float *)x; }

// Side is one image of the two: what is read, or what is written.
struct Side {
	int planes, rows, cols;
	__device__ __forceinline__ int area() const { return rows * cols; }
};

// Strips says which part of the results a block has: rows of bundles of examples. A bundle's row r is that of all its examples,
// and a warp has strips of one row, where they fit.
struct Strips {
	int bundle, rows, slots; // examples, rows of a block, rows of images that it reads
};

// Stencil is a block's work: LINES filters, or channels, by STRIPS strips. The first tap of a window is LEAD pixels to the left.
// FULL says that all rows have just the eight pixels of a strip: then the taps that read beyond either end are left out.
template <int WINDOW_, int LEAD_, int LINES_, int R_, bool FULL_> struct Shape {
	static constexpr int WINDOW = WINDOW_, LEAD = LEAD_, LINES = LINES_, R = R_;
	static constexpr bool FULL = FULL_;
};
template <class S, bool TURNED> struct Stencil {
	static constexpr int WINDOW = S::WINDOW, TAPS = WINDOW * WINDOW, LEAD = TURNED ? WINDOW - 1 - S::LEAD : S::LEAD, LINES = S::LINES, R = S::R;
	static constexpr int GROUPS = LINES / R, STRIPS = THREADS / GROUPS, PITCH = LINES + 4, READ = STRIP + WINDOW - 1;
	static_assert(LEAD <= MARGIN);
	static constexpr int WEIGHTS = PLANES * TAPS * PITCH, LOADERS = THREADS / TAPS, LOADS = (LINES + LOADERS - 1) / LOADERS;

	const Side from, to;
	const Strips strips;
	const int lead; // rows that a window begins above its pixel
	int live, bundle0, row0, l0;
	int pitch, plane, planes, stage, stages; // of images in shared memory, in values
	// Of a thread:
	int example, row, col, pixels; // pixels of its strip that exist
	int window;                    // where it begins in a stage
	bool reads[WINDOW];            // the rows of the window that lie in the image
	float acc[R][STRIP];

	__device__ __forceinline__ Stencil(Side from, Side to, Strips strips, int lead, int live)
	    : from(from), to(to), strips(strips), lead(lead), live(live), l0(blockY() * LINES) {
		int first = blockX() * strips.rows;
		bundle0 = first / to.rows, row0 = first % to.rows;
		pitch = (from.cols + 7) / 4 * 4, plane = strips.slots * pitch + 16;
		planes = min(PLANES, from.planes), stage = WEIGHTS + planes * plane, stages = min(STAGES, (from.planes + PLANES - 1) / PLANES);
	}

	__device__ __forceinline__ bool works() const { return bundle0 * strips.bundle < live; }

	// Values that are copied together, and how many of these copies a plane takes.
	__device__ __forceinline__ int width() const { return from.cols % 4 == 0 ? 4 : 1; }
	__device__ __forceinline__ int copies() const { return strips.slots * (from.cols / width()); }

	// Copy is where one copy of a stage of images comes from, in values, and goes to, in bytes. None comes from below zero.
	struct alignas(8) Copy {
		int from, to;
	};
	__device__ __forceinline__ Copy *list() const { return (Copy *)(memory + stages * stage); }

	// place finds what the thread computes, lists the copies, and clears what none of them reaches: the zeros around images, and
	// weights of lines that do not exist.
	__device__ __forceinline__ void place() {
		int units = from.cols / width(), period = to.rows + WINDOW - 1;
		for (int i = threadX(); i < copies(); i += THREADS) {
			int slot = i / units, unit = i % units * width(), padded = row0 + slot / strips.bundle;
			int e = (bundle0 + padded / period) * strips.bundle + slot % strips.bundle, y = padded % period - lead;
			bool exists = e < live && (unsigned)y < (unsigned)from.rows;
			for (int p = 0; p < planes; p++)
				list()[p * copies() + i] = {exists ? (e * from.planes + p) * from.area() + y * from.cols + unit : -1,
				                            4 * (WEIGHTS + p * plane + slot * pitch + MARGIN + unit)};
		}
		for (int s = 0; s < stages * stage; s += stage)
			for (int i = (l0 + LINES <= to.planes ? WEIGHTS : 0) + 4 * threadX(); i < stage; i += 4 * THREADS)
				*(float4 *)(memory + s + i) = 0;
		int across = (to.cols + STRIP - 1) / STRIP, strip = threadX() / GROUPS;
		int down = strip / (across * strips.bundle), beside = strip % (across * strips.bundle);
		int r = row0 + down, bundle = r / to.rows;
		example = (bundle0 + bundle) * strips.bundle + beside / across;
		row = r % to.rows, col = beside % across * STRIP;
		pixels = down < strips.rows && example < live ? min(to.cols - col, STRIP) : 0;
		window = down < strips.rows ? ((bundle * (WINDOW - 1) + down) * strips.bundle + beside / across) * pitch + MARGIN + col : MARGIN;
		window += WEIGHTS;
#pragma unroll
		for (int v = 0; v < WINDOW; v++)
			reads[v] = pixels > 0 && (unsigned)(row + v - lead) < (unsigned)from.rows;
	}

	// copyWeights takes the weights of planes k… for the block's lines: as terms × lines, the taps of a plane in order.
	// ALL says that there are as many planes and lines as there is room for.
	template <bool ALL> __device__ __forceinline__ void copyWeights(uint32 target, const float *w, int k) const {
		int tap = threadX() % TAPS, line = threadX() / TAPS;
		if (line >= LOADERS)
			return;
		target += 4 * (tap * PITCH + line);
		// Offsets that do not depend on the network are parts of the instructions.
		w += TURNED ? (k * to.planes + l0 + line) * TAPS + tap : ((l0 + line) * from.planes + k) * TAPS + tap;
		upTo<LOADS>([&](auto m) INLINE {
			constexpr int further = m.value * LOADERS;
			if ((further + LOADERS > LINES && line + further >= LINES) || (!ALL && l0 + line + further >= to.planes))
				return;
			upTo<PLANES>([&](auto p) INLINE {
				constexpr int at = p.value * TAPS;
				if (!ALL && k + p.value >= from.planes)
					return;
				if constexpr (TURNED)
					copyAt<4, 4 * (at * PITCH + further), 4 * further * TAPS>(target, w + at * to.planes);
				else
					copyAt<4, 4 * (at * PITCH + further), 4 * at>(target, w + further * TAPS * from.planes);
			});
		});
	}

	template <int WIDTH> __device__ __forceinline__ void copyImages(uint32 target, const float *x, int k) const {
		int count = min(PLANES, from.planes - k) * copies();
		x += k * from.area();
		const Copy *all = list();
#pragma unroll 1
		for (int i = threadX(); i < count; i += THREADS) {
			Copy c = all[hidden(i)];
			if (c.from >= 0)
				copyAt<4 * WIDTH, 0, 0>(target + c.to, x + c.from);
		}
	}

	// copy begins to fill a stage with planes k….
	__device__ __forceinline__ void copy(uint32 target, const float *x, const float *w, int k) const {
		if (k >= from.planes)
			return;
		if (k + PLANES <= from.planes && l0 + LINES <= to.planes)
			copyWeights<true>(target, w, k);
		else
			copyWeights<false>(target, w, k);
		if (width() == 4)
			copyImages<4>(target, x, k);
		else
			copyImages<1>(target, x, k);
	}

	// load reads the pixels that a row of the window is over, from the one LEAD to the left: aligned fours at once.
	template <int AT = 0> static __device__ __forceinline__ void load(float (&x)[READ], const float *pixels) {
		constexpr int from = AT - LEAD;
		if constexpr (AT < READ && from % 4 == 0 && AT + 4 <= READ) {
			put(x + AT, four(pixels + from));
			load<AT + 4>(x, pixels);
		} else if constexpr (AT < READ) {
			x[AT] = S::FULL ? 0 : pixels[from];
			load<AT + 1>(x, pixels);
		}
	}

	// tapRow adds the taps of a row of the window.
	__device__ __forceinline__ void tapRow(const float *weights, const float *pixels) {
		float x[READ];
		load(x, pixels);
#pragma unroll
		for (int u = 0; u < WINDOW; u++) {
			float w[R];
#pragma unroll
			for (int i = 0; i < R; i += 4)
				put(w + i, four(weights + u * PITCH + i * GROUPS));
#pragma unroll
			for (int i = 0; i < R; i++)
#pragma unroll
				for (int j = 0; j < STRIP; j++) {
					int at = j + (TURNED ? WINDOW - 1 - u : u);
					if (!S::FULL || (at >= LEAD && at < LEAD + STRIP))
						acc[i][j] = fmaf(w[i], x[at], acc[i][j]);
				}
		}
	}

	__device__ __forceinline__ int line(int i) const { return i / 4 * 4 * GROUPS + threadX() % GROUPS * 4 + i % 4; }

	__device__ __forceinline__ void sum(const float *x, const float *w) {
		place();
		barrier();
#pragma unroll
		for (int i = 0; i < R; i++)
#pragma unroll
			for (int j = 0; j < STRIP; j++)
				acc[i][j] = 0;
		const uint32 base = sharedAddress(memory);
		for (int s = 0; s < STAGES - 1; s++) {
			copy(base + 4 * s * stage, x, w, s * PLANES);
			commit();
		}
		int now = 0, next = (STAGES - 1) * stage, step = strips.bundle * pitch;
#pragma unroll 1
		for (int k = 0; k < from.planes; k += PLANES) {
			arrivedBut<STAGES - 2>();
			barrier();
			copy(base + 4 * next, x, w, k + (STAGES - 1) * PLANES);
			commit();
			int weights = now + threadX() % GROUPS * 4, pixels = now + window, end = weights + min(PLANES, from.planes - k) * TAPS * PITCH;
#pragma unroll 1
			for (; weights < end; weights += TAPS * PITCH, pixels += plane) {
				const float *terms = memory + hidden(weights);
#pragma unroll
				for (int v = 0; v < WINDOW; v++) {
					int at = TURNED ? WINDOW - 1 - v : v;
					if (reads[at])
						tapRow(terms + v * WINDOW * PITCH, memory + hidden(pixels + at * step));
				}
			}
			next = now, now = now == (STAGES - 1) * stage ? 0 : now + stage;
		}
	}

	// map replaces the results by f(line, result).
	template <class F> __device__ __forceinline__ void map(F f) {
#pragma unroll
		for (int i = 0; i < R; i++) {
			int l = l0 + line(i);
#pragma unroll
			for (int j = 0; j < STRIP && l < to.planes; j++)
				acc[i][j] = f(l, acc[i][j]);
		}
	}

	// each calls f(n, at, values) for fours of results that lie side by side, or for single ones.
	template <class F> __device__ __forceinline__ void each(F f) {
		bool fours = to.cols % 4 == 0;
#pragma unroll
		for (int i = 0; i < R; i++) {
			int l = l0 + line(i), at = ((example * to.planes + l) * to.rows + row) * to.cols + col;
			if (l >= to.planes)
				continue;
#pragma unroll
			for (int j = 0; j < STRIP; j += 4) {
				if (fours && j < pixels)
					f(Number<4>{}, at + j, acc[i] + j);
				if (!fours)
#pragma unroll
					for (int e = 0; e < 4; e++)
						if (j + e < pixels)
							f(Number<1>{}, at + j + e, acc[i] + j + e);
			}
		}
	}
};

template <class N> static __device__ __forceinline__ void read(N, float *to, const float *x) {
	if constexpr (N::value == 4)
		put(to, four(x));
	else
		*to = *x;
}

template <class N> static __device__ __forceinline__ void write(N, float *to, const float *x) {
	if constexpr (N::value == 4)
		*(float4 *)to = {x[0], x[1], x[2], x[3]};
	else
		*to = *x;
}

template <class S>
static __device__ __forceinline__ void stencilForward(const Run *run, int first, int capacity, const float *x, const float *w,
                                                      const float *bias, float *y, int act, Strips strips, const Geometry &g) {
	Stencil<S, false> s({g.channels, g.rows, g.cols}, {g.out, g.outRows, g.outCols}, strips, g.top, liveRows(run, first, capacity));
	if (!s.works())
		return;
	s.sum(x, w);
	if (bias)
		s.map([&](int o, float sum) INLINE { return sum + bias[o]; });
	if (act)
		s.map([&](int, float sum) INLINE { return relu(sum); });
	s.each([&](auto n, int at, float *v) INLINE {
		write(n, y + at, v);
	});
}

template <class S>
static __device__ __forceinline__ void stencilInputGrad(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx,
                                                        int add, const float *activated, Strips strips, const Geometry &g) {
	Stencil<S, true> s({g.out, g.outRows, g.outCols}, {g.channels, g.rows, g.cols}, strips, S::WINDOW - 1 - g.top, liveRows(run, first, capacity));
	if (!s.works())
		return;
	s.sum(dy, w);
	s.each([&](auto n, int at, float *v) INLINE {
		float other[4];
		if (add) {
			read(n, other, dx + at);
#pragma unroll
			for (int e = 0; e < n.value; e++)
				v[e] += other[e];
		}
		if (activated) {
			read(n, other, activated + at);
#pragma unroll
			for (int e = 0; e < n.value; e++)
				v[e] = passBack(ReLU, other[e], v[e]);
		}
		write(n, dx + at, v);
	});
}

#define STENCIL(NAME, ...)                                                                                                                 \
	KERNEL __launch_bounds__(THREADS)                                                                                                      \
	stencil_forward_##NAME(const Run *run, int first, int capacity, const float *x, const float *w, const float *bias, float *y, int act,  \
	                       int bundle, int rowsOfBlock, int slots, GEOMETRY) {                                                             \
		stencilForward<Shape<__VA_ARGS__>>(run, first, capacity, x, w, bias, y, act, {bundle, rowsOfBlock, slots}, GEOMETRY_VALUES);       \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(THREADS)                                                                                                      \
	stencil_input_grad_##NAME(const Run *run, int first, int capacity, const float *dy, const float *w, float *dx, int add,                \
	                          const float *activated, int bundle, int rowsOfBlock, int slots, GEOMETRY) {                                  \
		stencilInputGrad<Shape<__VA_ARGS__>>(run, first, capacity, dy, w, dx, add, activated, {bundle, rowsOfBlock, slots},                \
		                                     GEOMETRY_VALUES);                                                                             \
	}
STENCIL(3_32, 3, 1, 32, 8, false)
STENCIL(3_64, 3, 1, 64, 8, false)
STENCIL(3_64_full, 3, 1, 64, 8, true)
STENCIL(5_8, 5, 0, 8, 4, false)
STENCIL(5_16, 5, 0, 16, 4, false)
