// Gradients of the weights of convolutions, from values in pixels: kept an example each, measured, or summed. Whoever includes this
// says which Element values have. docs/internals/kernels/gradients.md explains it.
//
// Lines are filters, columns are pairs of a tap and EIGHT channels, terms are positions. A slab has the pixels of dy at some rows
// of positions and those of x that these read through any tap, so that a tap only moves where pixels are read.
//
// Each result is one chain of products from zero, over the slabs of an example in order and in a slab over its positions in
// order. Filters and channels have the same lanes and registers in every kernel. So whoever measures, keeps or sums a gradient
// has the same bits.
#pragma once
#include "geometry.cuh"
#include "lanes.cuh"
#include "pixels.cuh"
#include "run.cuh"

extern __shared__ __attribute__((aligned(16))) char memory[];

static constexpr int EXAMPLE_BLOCK = 32, PAIRS = 9, MOST_WARPS = 8;
static constexpr int OCTET_BYTES = EIGHT * sizeof(Element::Element), TERMS = 2 * Element::UNIT;
static constexpr int STAGES = sizeof(Element::Element) == 2 ? 3 : 2;
static constexpr int COPY = PAIRS * EIGHT; // values of a filter that a warp writes

// Plan is how gradients.go cuts an op up; sizes are in bytes.
struct Plan {
	int across, filters, span;  // warps side by side; filters of a block, and eights of channels that it reads
	int rows, cols;             // positions of a slab: of whole rows, or of a part of one
	int slotRows, slotCols;     // pixels of x in a slab
	int lineRows, lineCols;     // of which so many follow each other by a stride
	int rowPitch, stage, tables; // of a row of x; of a slab; of what is in front of all slabs
	int dyStep, xStep;           // pixels that all threads copy at once

	__device__ __forceinline__ int dyPitch() const { return (filters / EIGHT | 1) * OCTET_BYTES; }
	__device__ __forceinline__ int xPitch() const { return (span | 1) * OCTET_BYTES; }
	__device__ __forceinline__ int terms() const { return (rows * cols + TERMS - 1) / TERMS * TERMS; }
};
#define PLAN                                                                                                                               \
	int across, int filters, int span, int slabRows, int slabCols, int slotRows, int slotCols, int lineRows, int lineCols, int rowPitch,    \
	    int stage, int tables, int dyStep, int xStep
#define PLAN_VALUES { across, filters, span, slabRows, slabCols, slotRows, slotCols, lineRows, lineCols, rowPitch, stage, tables, dyStep, xStep }

// Slot is where a pixel of x comes from and goes to: row and column from the slab's first, elements from it in the image, place in the slab.
struct alignas(16) Slot {
	int row, col, from;
	uint32 to;
};

// Tables are in front of the slabs: the pixels of x, where it is read at a position, and how much farther through a tap.
struct Tables {
	Slot *x;
	uint32 *at, *taps;

	__device__ __forceinline__ Tables(const Plan &p) {
		x = (Slot *)memory;
		at = (uint32 *)(x + p.slotRows * p.slotCols);
		taps = at + p.terms() + TERMS;
	}

	// pixelOf is how far the pixel of a slot of a row, or of a column, is from the first: those of a phase of the stride lie side by side.
	static __device__ __forceinline__ int pixelOf(int slot, int line, int stride) {
		int phase = 0;
		while (slot >= line)
			slot -= line, phase++;
		return slot * stride + phase;
	}
	static __device__ __forceinline__ int slotOf(int pixel, int line, int stride) { return pixel % stride * line + pixel / stride; }

	__device__ __forceinline__ void fill(const Plan &p, const Geometry &g) const {
		int lane = threadX() % 32, warp = threadX() / 32, warps = threadsX() / 32;
		for (int r = warp; r < p.slotRows; r += warps) {
			int row = pixelOf(r, p.lineRows, g.strideY);
			for (int c = lane; c < p.slotCols; c += 32) {
				int col = pixelOf(c, p.lineCols, g.strideX);
				x[r * p.slotCols + c] = {row, col, (row * g.cols + col) * padded(g.channels), (uint32)(r * p.rowPitch + c * p.xPitch())};
			}
		}
		for (int r = warp; r < p.rows; r += warps)
			for (int c = lane; c < p.cols; c += 32)
				at[r * p.cols + c] = r * p.rowPitch + c * p.xPitch();
		// Where positions only fill the terms up, dy is zero, and x is read at the first position, which reads it anyway.
		for (int i = p.rows * p.cols + threadX(); i < p.terms() + TERMS; i += threadsX())
			at[i] = 0;
		for (int t = threadX(); t < g.windowRows * g.windowCols; t += threadsX()) {
			int v = t / g.windowCols * g.dilationY, u = t % g.windowCols * g.dilationX;
			taps[t] = slotOf(v, p.lineRows, g.strideY) * p.rowPitch + slotOf(u, p.lineCols, g.strideX) * p.xPitch();
		}
	}
};

// Copies are a thread's share of an image's pixels: one unit of every step-th.
struct Copies {
	const Element::Element *image;
	int channels, channel, units, step; // of a pixel, padded; the first channel, and units from it on
	int first;

	__device__ __forceinline__ Copies(const Element::Element *image, int channels, int channel, int octets, int step)
	    : image(image), channels(padded(channels)), channel(channel), units(octets * (EIGHT / Element::UNIT)), step(step),
	      first(threadX() / units) {}

	// each calls f(pixel, element of the image, place in the slab, whether that is of a channel) for a slab's pixels and the thread's unit.
	template <class F> __device__ __forceinline__ void each(uint32 slab, int count, int from, F f) const {
		int first = hidden(this->first), unit = threadX() - first * units, c = channel + unit * Element::UNIT;
		for (int i = first < step ? first : count; i < count; i += step)
			f(i, from + c, slab + unit * UNIT_BYTES, c < channels);
	}

	// line begins to copy so many pixels in a row, from an element of the image on; zeros from existing on.
	__device__ __forceinline__ void line(uint32 slab, int pitch, int count, int existing, int from) const {
		each(slab, count, from, [&](int i, int from, uint32 to, bool exists) INLINE {
			exists &= i < existing;
			copyUnit<SecondCache>(to + i * pitch, image + (exists ? from + i * channels : 0), exists);
		});
	}

	// slots begins to copy the pixels of a table, from row y and column x on of an example; zeros where there are none.
	__device__ __forceinline__ void slots(uint32 slab, const Slot *table, int count, int example, int rows, int cols, int y, int x) const {
		each(slab, count, example + (y * cols + x) * channels, [&](int i, int from, uint32 to, bool exists) INLINE {
			Slot s = table[i];
			exists &= (unsigned)(y + s.row) < (unsigned)rows && (unsigned)(x + s.col) < (unsigned)cols;
			copyUnit<SecondCache>(to + s.to, image + (exists ? from + s.from : 0), exists);
		});
	}
};

// Share is what a warp has: M·16 filters by PAIRS.
template <int M> struct Share {
	static constexpr int VALUES = M * PAIRS * 4 + M * 2; // of a thread
	static constexpr bool PAIRED = Element::UNIT == 8;   // two fragments of x are loaded at once
	static constexpr int OFFSETS = PAIRED ? (PAIRS + 1) / 2 : PAIRS;

	int o0, n0;     // first filter and pair
	bool works, biased;
	uint32 offsets[OFFSETS];
	float sum[M][PAIRS][4], bias[M][4];

	static __device__ __forceinline__ int lane() { return threadX() % 32; }
	static __device__ __forceinline__ int quarter() { return threadX() % 4; }
	static __device__ __forceinline__ int eighth() { return threadX() % 32 / 4; }

	// filter is the one in line g or g+8 of fragment r. In tf32 a lane reads two neighbours at once.
	static __device__ __forceinline__ int filter(int r, int half, int g) { return r * 16 + (PAIRED ? half * EIGHT + g : 2 * g + half); }

	__device__ __forceinline__ Share(const Plan &p, const Geometry &g, const Tables &tables, int o, int n, int bias) {
		int warp = threadX() / 32, taps = g.windowRows * g.windowCols, count = eights(g.channels) * taps;
		o0 = o + warp / p.across * (M * 16);
		n0 = n + warp % p.across * PAIRS;
		works = o0 < g.out && n0 < count;
		biased = bias && n0 == 0;
		int first = n / taps, m = PAIRED ? n0 + lane() / 16 : n0, octet = m / taps, tap = m % taps;
#pragma unroll
		for (int i = 0; i < OFFSETS; i++) {
			constexpr int NEXT = PAIRED ? 2 : 1;
			bool exists = m + i * NEXT < count && (!PAIRED || i * 2 + lane() / 16 < PAIRS);
			offsets[i] = exists ? tables.taps[tap] + (octet - first) * OCTET_BYTES : tables.taps[0]; // else what nobody takes
			tap += NEXT;
			while (tap >= taps)
				tap -= taps, octet++;
		}
	}

	__device__ __forceinline__ void clear() {
#pragma unroll
		for (int r = 0; r < M; r++) {
#pragma unroll
			for (int e = 0; e < 4; e++) {
				bias[r][e] = 0;
#pragma unroll
				for (int j = 0; j < PAIRS; j++)
					sum[r][j][e] = 0;
			}
		}
	}

	__device__ __forceinline__ void fragmentsOf(int j, const uint32 (&a)[M][4], uint32 b0, uint32 b1) {
#pragma unroll
		for (int r = 0; r < M; r++)
			Element::multiply(sum[r][j], a[r], b0, b1);
	}

	// multiply adds the products at so many eights or sixteens of positions of a slab.
	__device__ __forceinline__ void multiply(const Plan &p, const Tables &tables, int slab, int steps) {
		int pitch = p.dyPitch(), x = slab + p.terms() * pitch;
		uint32 one = PAIRED ? 0x3f803f80 : 0x3f800000;
		int lane = hidden(threadX()) % 32, quarter = lane % 4, eighth = lane / 4; // what follows from them is no register for long
		if constexpr (PAIRED) {
			int position = lane / 16 * EIGHT + lane % EIGHT;
			uint32 dyAt = shared(memory + slab) + position * pitch + (o0 % p.filters + lane / EIGHT % 2 * EIGHT) * 2, xAt = shared(memory + x);
			const uint32 *at = tables.at + lane % 16;
			uint32 here = *at;
#pragma unroll 1
			for (int k = 0; k < steps; k++) {
				uint32 from = xAt + here, a[M][4], two[2];
				at += TERMS;
				here = *at;
#pragma unroll
				for (int r = 0; r < M; r++)
					turned(a[r], dyAt + r * 32);
				dyAt += TERMS * pitch;
#pragma unroll
				for (int j = 0; j < PAIRS - 1; j += 2) {
					uint32 b[4];
					turned(b, from + offsets[j / 2]);
					fragmentsOf(j, a, b[0], b[1]);
					fragmentsOf(j + 1, a, b[2], b[3]);
				}
				turnedTwo(two, from + offsets[PAIRS / 2]);
				fragmentsOf(PAIRS - 1, a, two[0], two[1]);
				biases(a, one);
			}
		} else {
			const char *dyAt = memory + slab + quarter * pitch + (o0 % p.filters + 2 * eighth) * 4, *xAt = memory + x + eighth * 4;
			const uint32 *at = tables.at + quarter;
			uint32 here[2] = {at[0], at[4]};
#pragma unroll 1
			for (int k = 0; k < steps; k++) {
				const char *from[2] = {xAt + here[0], xAt + here[1]};
				uint32 a[M][4];
				at += TERMS;
				here[0] = at[0], here[1] = at[4];
#pragma unroll
				for (int r = 0; r < M; r++)
#pragma unroll
					for (int i = 0; i < 2; i++) {
						uint2 w = *(const uint2 *)(dyAt + i * 4 * pitch + r * 64);
						a[r][2 * i] = w[0], a[r][2 * i + 1] = w[1];
					}
				dyAt += TERMS * pitch;
#pragma unroll
				for (int j = 0; j < PAIRS; j++)
					fragmentsOf(j, a, *(const uint32 *)(from[0] + offsets[j]), *(const uint32 *)(from[1] + offsets[j]));
				biases(a, one);
			}
		}
	}

	// biases adds dy itself up, as if another channel were all ones.
	__device__ __forceinline__ void biases(const uint32 (&a)[M][4], uint32 one) {
		if (!biased)
			return;
#pragma unroll
		for (int r = 0; r < M; r++)
			Element::multiply(bias[r], a[r], one, one);
	}

	// squares is an upper bound of the sum of the results' squares, of the pairs below count. Of n of them, added in float32, each rounds at most n
	// times: the exact sum is at most 1 + γ(n) ≤ 1 + (n+1)·2⁻²⁴ times as large. Another 2⁻²⁴ is for all additions in float64 that follow. Where
	// float32 might lose more, or all, they are added in float64. docs/proofs/rounding.md has it.
	__device__ __forceinline__ double squares(int count) const {
		constexpr double MARGIN = (VALUES + 2) * 0x1p-24;
		if (!works)
			return 0;
		float s = 0;
#pragma unroll
		for (int j = 0; j <= PAIRS; j++) {
			float part = 0;
			eachOf(j, [&](float v) INLINE { part = fmaf(v, v, part); });
			s += exists(j, count) ? part : 0;
		}
		if (s > 0x1p-80f && s < 0x1p100f)
			return (double)s * (1 + MARGIN);
		if (s == 0 && !some(count))
			return 0;
		double exact = 0;
#pragma unroll
		for (int j = 0; j <= PAIRS; j++) {
			double part = 0;
			eachOf(j, [&](float v) INLINE {
				double d;
				asm volatile("cvt.f64.f32 %0, %1;" : "=d"(d) : "f"(v)); // here and not earlier: there are no registers for all of them
				part = fma(d, d, part);
			});
			exact += exists(j, count) ? part : 0;
		}
		return exact * (1 + MARGIN);
	}

	// some says whether any result is not zero.
	__device__ __forceinline__ bool some(int count) const {
		uint32 all = 0;
#pragma unroll
		for (int j = 0; j <= PAIRS; j++) {
			uint32 part = 0;
			eachOf(j, [&](float v) INLINE { part |= bits(v) << 1; });
			all |= exists(j, count) ? part : 0;
		}
		return all != 0;
	}

	// eachOf visits a thread's results of a pair, or behind the last those of biases, which exist or not.
	template <class F> __device__ __forceinline__ void eachOf(int j, F f) const {
#pragma unroll
		for (int r = 0; r < M; r++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				if (j < PAIRS)
					f(sum[r][j][e]);
				else if (e % 2 == 0)
					f(bias[r][e]);
	}
	__device__ __forceinline__ bool exists(int j, int count) const { return j < PAIRS ? n0 + j < count : biased && quarter() == 0; }

	// write writes results as the weights lie, by way of shared memory, neighbours by neighbouring lanes.
	template <class V, class B>
	__device__ __forceinline__ void write(const Geometry &g, float *copies, float *to, V value, B biasValue) const {
		constexpr int EACH = (PAIRS * EIGHT + 31) / 32;
		if (!works)
			return;
		int taps = g.windowRows * g.windowCols, at[EACH], t = hidden(threadX()), o0 = hidden(this->o0), n0 = hidden(this->n0);
		int lane = t % 32, quarter = t % 4, eighth = lane / 4;
		copies += t / 32 * (EIGHT * COPY);
#pragma unroll
		for (int q = 0; q < EACH; q++) {
			int i = lane + 32 * q, n = n0 + i % PAIRS, channel = n / taps * EIGHT + i / PAIRS;
			at[q] = i < PAIRS * EIGHT && channel < g.channels ? channel * taps + n % taps : -1;
		}
#pragma unroll
		for (int r = 0; r < M; r++)
#pragma unroll
			for (int half = 0; half < 2; half++) {
				warpBarrier();
#pragma unroll
				for (int j = 0; j < PAIRS; j++)
#pragma unroll
					for (int e = 0; e < 2; e++)
						copies[eighth * COPY + (2 * quarter + e) * PAIRS + j] = value(r, j, half * 2 + e);
				warpBarrier();
#pragma unroll
				for (int i = 0; i < EIGHT; i++) {
					int o = o0 + filter(r, half, i);
#pragma unroll
					for (int q = 0; q < EACH; q++)
						if (o < g.out && at[q] >= 0)
							to[o * g.taps() + at[q]] = copies[i * COPY + lane + 32 * q];
				}
				int o = o0 + filter(r, half, eighth);
				if (biased && quarter == 0 && o < g.out)
					to[g.out * g.taps() + o] = biasValue(r, half * 2);
			}
	}
};

// Cursor goes through the slabs of those of a block's examples that count.
struct Cursor {
	int b, y, x;
	template <class F> __device__ __forceinline__ void next(const Plan &p, const Geometry &g, F counted) {
		x += p.cols;
		if (x < g.outCols)
			return;
		x = 0, y += p.rows;
		if (y < g.outRows)
			return;
		y = 0, b = counted(b + 1);
	}
	__device__ __forceinline__ bool last(const Plan &p, const Geometry &g) const { return x + p.cols >= g.outCols && y + p.rows >= g.outRows; }
};

// eachSlab copies the slabs of a block's examples and calls f(cursor, slab): STAGES−1 of them are on their way meanwhile.
template <class C, class F>
static __device__ __forceinline__ void eachSlab(const Plan &p, const Geometry &g, const Tables &tables, const Element::Element *x,
                                                const Element::Element *dy, int o, int n, int begin, int end, C counted, F f) {
	Copies ofDy(dy, g.out, o, p.filters / EIGHT, p.dyStep);
	Copies ofX(x, g.channels, n / (g.windowRows * g.windowCols) * EIGHT, p.span, p.xStep);
	int dySize = g.positions() * padded(g.out), xSize = g.rows * g.cols * padded(g.channels);
	Cursor next = {counted(begin), 0, 0}, now = next;
	auto copy = [&](int slab) INLINE {
		if (next.b < end) {
			uint32 to = shared(memory + slab);
			int existing = p.cols == g.outCols ? min(p.rows, g.outRows - next.y) * p.cols : min(p.cols, g.outCols - next.x);
			ofDy.line(to, p.dyPitch(), p.terms(), existing, next.b * dySize + (next.y * g.outCols + next.x) * ofDy.channels);
			ofX.slots(to + p.terms() * p.dyPitch(), tables.x, p.slotRows * p.slotCols, next.b * xSize, g.rows, g.cols,
			          next.y * g.strideY - g.top, next.x * g.strideX - g.left);
			next.next(p, g, counted);
		}
		commit();
	};
#pragma unroll 1
	for (int s = 0; s < STAGES - 1; s++)
		copy(p.tables + s * p.stage);
	int slab = p.tables, filled = p.tables + (STAGES - 1) * p.stage;
#pragma unroll 1
	while (now.b < end) {
		arrivedBut<STAGES - 2>();
		barrier(); // and what is filled now was multiplied
		copy(filled);
		f(now, slab);
		filled = slab;
		slab += p.stage;
		if (slab == p.tables + STAGES * p.stage)
			slab = p.tables;
		now.next(p, g, counted);
	}
}

static __device__ __forceinline__ int steps(const Plan &p, const Geometry &g, const Cursor &c) {
	return (min(p.rows, g.outRows - c.y) * p.cols + TERMS - 1) / TERMS;
}

static __device__ __forceinline__ int pairs(const Geometry &g) { return eights(g.channels) * g.windowRows * g.windowCols; }

// Place is a block's: filters from o, pairs from n.
struct Place {
	int o, n;
	__device__ __forceinline__ Place(const Plan &p, const Geometry &g) {
		int width = p.across * PAIRS, across = (pairs(g) + width - 1) / width, tile = blockY();
		o = tile / across * p.filters, n = tile % across * width;
	}
};

enum Purpose { Measured, Kept };

template <int M, Purpose PURPOSE>
static __device__ __forceinline__ void measure(const Run *run, int first, int capacity, const Element::Element *x, const Element::Element *dy,
                                               float *kept, int stride, double *norm2, int examples, int bias, const Plan &p,
                                               const Geometry &g) {
	__shared__ double sums[2][MOST_WARPS];
	int begin = blockX() * examples, end = min(begin + examples, liveRows(run, first, capacity));
	if (begin >= end)
		return;
	Place place(p, g);
	Tables tables(p);
	tables.fill(p, g);
	barrier();
	Share<M> share(p, g, tables, place.o, place.n, bias);
	share.clear();
	int measured = -1, turn = 0; // the example whose sums the warps have written
	auto add = [&]() INLINE {
		if (measured < 0 || threadX() != 0)
			return;
		double sum = 0;
		for (int w = 0; w < threadsX() / 32; w++)
			sum += sums[turn][w];
		norm2[(int64)blockY() * capacity + measured] += sum;
	};
	eachSlab(p, g, tables, x, dy, place.o, place.n, begin, end, [](int b) INLINE { return b; }, [&](const Cursor &c, int slab) INLINE {
		add();
		measured = -1;
		if (share.works)
			share.multiply(p, tables, slab, steps(p, g, c));
		if (!c.last(p, g))
			return;
		double squares = laneSum(share.squares(hidden(pairs(g)))); // no comparison with it is kept in a register
		measured = c.b, turn ^= 1; // thread 0 may still read the others
		if (share.lane() == 0)
			sums[turn][threadX() / 32] = squares;
		if (PURPOSE == Kept)
			share.write(g, (float *)(memory + p.tables + STAGES * p.stage), kept + (int64)c.b * stride,
			            [&](int r, int j, int e) INLINE { return share.sum[r][j][e]; }, [&](int r, int e) INLINE { return share.bias[r][e]; });
		share.clear();
	});
	barrier();
	add();
}

template <int M>
static __device__ __forceinline__ void sumUp(const Run *run, int first, int capacity, const Element::Element *x, const Element::Element *dy,
                                             const float *factors, float *parts, int stride, int examples, int bias, const Plan &p,
                                             const Geometry &g) {
	__shared__ float own[EXAMPLE_BLOCK];
	int begin = blockX() * examples, end = min(begin + examples, liveRows(run, first, capacity));
	Place place(p, g);
	Tables tables(p);
	tables.fill(p, g);
	if (threadX() < examples)
		own[threadX()] = begin + threadX() < end ? factors[begin + threadX()] : 0;
	barrier();
	Share<M> share(p, g, tables, place.o, place.n, bias);
	share.clear();
	float sum[M][PAIRS][4] = {}, biases[M][2] = {};
	auto counted = [&](int b) INLINE {
		while (b < end && !(own[b - begin] > 0))
			b++;
		return b;
	};
	eachSlab(p, g, tables, x, dy, place.o, place.n, begin, end, counted, [&](const Cursor &c, int slab) INLINE {
		if (share.works)
			share.multiply(p, tables, slab, steps(p, g, c));
		if (!c.last(p, g))
			return;
		float f = own[c.b - begin];
#pragma unroll
		for (int r = 0; r < M; r++) {
#pragma unroll
			for (int j = 0; j < PAIRS; j++)
#pragma unroll
				for (int e = 0; e < 4; e++)
					sum[r][j][e] = fmaf(f, share.sum[r][j][e], sum[r][j][e]);
#pragma unroll
			for (int half = 0; half < 2; half++)
				biases[r][half] = fmaf(f, share.bias[r][half * 2], biases[r][half]);
		}
		share.clear();
	});
	barrier(); // the copies lie where slabs were
	share.write(g, (float *)(memory + p.tables), parts + (int64)blockX() * stride, [&](int r, int j, int e) INLINE { return sum[r][j][e]; },
	            [&](int r, int e) INLINE { return biases[r][e / 2]; });
}

// addUp is sumUp with factors of 1, of one chain over all examples; one that is not above zero leaves the example out.
template <int M>
static __device__ __forceinline__ void addUp(const Run *run, int first, int capacity, const Element::Element *x, const Element::Element *dy,
                                             const float *factors, float *parts, int stride, int examples, int bias, const Plan &p,
                                             const Geometry &g) {
	__shared__ float own[EXAMPLE_BLOCK];
	int begin = blockX() * examples, end = min(begin + examples, liveRows(run, first, capacity));
	Place place(p, g);
	Tables tables(p);
	tables.fill(p, g);
	if (threadX() < examples)
		own[threadX()] = begin + threadX() < end ? factors[begin + threadX()] : 0;
	barrier();
	Share<M> share(p, g, tables, place.o, place.n, bias);
	share.clear();
	auto counted = [&](int b) INLINE {
		while (b < end && !(own[b - begin] > 0))
			b++;
		return b;
	};
	eachSlab(p, g, tables, x, dy, place.o, place.n, begin, end, counted, [&](const Cursor &c, int slab) INLINE {
		if (share.works)
			share.multiply(p, tables, slab, steps(p, g, c));
	});
	barrier();
	share.write(g, (float *)(memory + p.tables), parts + (int64)blockX() * stride,
	            [&](int r, int j, int e) INLINE { return share.sum[r][j][e]; }, [&](int r, int e) INLINE { return share.bias[r][e]; });
}

// Kernels have the filters of a warp in their names. Where totals take registers, too, or results are on their way, 64 are two warps'.
#define NORM(FILTERS, M, THREADS, BLOCKS)                                                                                                  \
	KERNEL __launch_bounds__(THREADS, BLOCKS) gradients_norm_##FILTERS(const Run *run, int first, int capacity, const Element::Element *x,  \
	                                                                   const Element::Element *dy, double *norm2, int examples, int bias,   \
	                                                                   PLAN, GEOMETRY) {                                                    \
		measure<M, Measured>(run, first, capacity, x, dy, 0, 0, norm2, examples, bias, PLAN_VALUES, GEOMETRY_VALUES);                       \
	}
#define STORE(FILTERS, M, THREADS, BLOCKS)                                                                                                 \
	KERNEL __launch_bounds__(THREADS, BLOCKS) gradients_store_##FILTERS(const Run *run, int first, int capacity, const Element::Element *x, \
	                                                                    const Element::Element *dy, float *kept, int stride, double *norm2, \
	                                                                    int examples, int bias, PLAN, GEOMETRY) {                           \
		measure<M, Kept>(run, first, capacity, x, dy, kept, stride, norm2, examples, bias, PLAN_VALUES, GEOMETRY_VALUES);                   \
	}
#define SUM(FILTERS, M, THREADS, BLOCKS)                                                                                                   \
	KERNEL __launch_bounds__(THREADS, BLOCKS) gradients_sum_##FILTERS(const Run *run, int first, int capacity, const Element::Element *x,   \
	                                                                  const Element::Element *dy, const float *factors, float *parts,       \
	                                                                  int stride, int examples, int bias, PLAN, GEOMETRY) {                 \
		sumUp<M>(run, first, capacity, x, dy, factors, parts, stride, examples, bias, PLAN_VALUES, GEOMETRY_VALUES);                        \
	}
#define ADD(FILTERS, M, THREADS, BLOCKS)                                                                                                   \
	KERNEL __launch_bounds__(THREADS, BLOCKS) gradients_add_##FILTERS(const Run *run, int first, int capacity, const Element::Element *x,   \
	                                                                  const Element::Element *dy, const float *factors, float *parts,       \
	                                                                  int stride, int examples, int bias, PLAN, GEOMETRY) {                 \
		addUp<M>(run, first, capacity, x, dy, factors, parts, stride, examples, bias, PLAN_VALUES, GEOMETRY_VALUES);                        \
	}

NORM(64, 4, 128, 2)
NORM(32, 2, 128, 3)
NORM(16, 1, 128, 4)
STORE(64, 2, 256, 1)
STORE(32, 2, 128, 2)
STORE(16, 1, 128, 3)
SUM(64, 2, 256, 1)
SUM(32, 2, 128, 2)
SUM(16, 1, 128, 3)
ADD(64, 4, 128, 2)
ADD(32, 2, 128, 3)
ADD(16, 1, 128, 4)
