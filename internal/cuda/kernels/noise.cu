#include "descent.cuh"
#include "grid.cuh"
#include "lanes.cuh"
#include "many.cuh"
#include "real.cuh"
#include "run.cuh"
#include "tile.cuh"

// Normals rounded to integers, bit for bit those of package exact, whose documentation (docs/proofs/exact-noise.md) has the proofs that docs/internals/gpu.md
// goes on with.

// ChaCha20, RFC 8439 section 2.3, with the block counter, the tensor and the draw in words 12 to 15.

// add is a sum where products are computed, which leaves the units of integers to the rest of the cipher.
static __device__ __forceinline__ uint32 add(uint32 a, uint32 b) {
	uint32 sum;
	asm("mad.lo.u32 %0, %1, 1, %2;" : "=r"(sum) : "r"(a), "r"(b));
	return sum;
}

static __device__ __forceinline__ void quarter(uint32 &a, uint32 &b, uint32 &c, uint32 &d) {
	a = add(a, b), d = __builtin_rotateleft32(d ^ a, 16);
	c = add(c, d), b = __builtin_rotateleft32(b ^ c, 12);
	a = add(a, b), d = __builtin_rotateleft32(d ^ a, 8);
	c = add(c, d), b = __builtin_rotateleft32(b ^ c, 7);
}

static __device__ __forceinline__ void block(uint32 *x, const uint32 *key, uint32 counter, uint32 tensor, uint64 draw) {
	uint32 start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
#pragma unroll
	for (int i = 0; i < 8; i++)
		start[4 + i] = key[i];
	start[12] = counter, start[13] = tensor, start[14] = (uint32)draw, start[15] = (uint32)(draw >> 32);
#pragma unroll
	for (int i = 0; i < 16; i++)
		x[i] = start[i];
#pragma unroll 1
	for (int round = 0; round < 20; round += 2) {
		quarter(x[0], x[4], x[8], x[12]);
		quarter(x[1], x[5], x[9], x[13]);
		quarter(x[2], x[6], x[10], x[14]);
		quarter(x[3], x[7], x[11], x[15]);
		quarter(x[0], x[5], x[10], x[15]);
		quarter(x[1], x[6], x[11], x[12]);
		quarter(x[2], x[7], x[8], x[13]);
		quarter(x[3], x[4], x[9], x[14]);
	}
#pragma unroll
	for (int i = 0; i < 16; i++)
		x[i] = add(x[i], start[i]);
}

static __device__ __forceinline__ double fromBits(uint64 x) { return __builtin_bit_cast(double, x); }
static __device__ __forceinline__ uint64 bits(double x) { return __builtin_bit_cast(uint64, x); }

typedef uint32 uint4 __attribute__((ext_vector_type(4)));

// Row is exact.Row: c0 to c3, whose lower half is the upper one of c4.
struct Row {
	uint4 c01, c23;
};

static const int cells = 7, lastRow = 63 << cells; // of the table: rows of an octave, and the row of 2^63

// point is the number by which the table finds a row, from the digits of a word.
static __device__ __forceinline__ double point(uint32 low, uint32 high) {
	return (double)(int64)bits(halves(low | 1, high & 0x7fffffff));
}

// keyOf counts rows from that of x = 2^-1023 on, which the table does not have; its first one is that of a key of firstKey.
static const int firstKey = 1023 << cells;
static __device__ __forceinline__ int keyOf(double point) { return (int)(upper(point) >> (20 - cells)); }
static __device__ __forceinline__ Row rowOf(double point, const Row *table) { return table[keyOf(point) - firstKey]; }

// size is |Z| for a V that begins with a point's digits, by its row; infinite where V < 2^-20.
static __device__ __forceinline__ double size(double point, const Row &row) {
	double t = halves(lower(point), (upper(point) & ((1 << (20 - cells)) - 1)) | 1023 << 20) - (1 + 0x1p-8);
	double z = halves(0, row.c23.z);
	z = fma(z, t, halves(row.c23.z, row.c23.w));
	z = fma(z, t, halves(row.c23.x, row.c23.y));
	z = fma(z, t, halves(row.c01.z, row.c01.w));
	return fma(z, t, halves(row.c01.x, row.c01.y));
}

// Fixed is exact.Fixed, the arithmetic that decides most draws. It is right for every deviation; the larger it is, the more draws it leaves open.
struct Fixed {
	double std, base, magic;
	double open, whole; // masks of bits
};

// exponent of x, a normal number above 0: x < 2^exponent <= 2x.
static __device__ __forceinline__ int exponent(double x) { return (int)(upper(x) >> 20) - 1022; }

static __device__ __forceinline__ Fixed fixedOf(double std) {
	const double bound = 0x1.cap-46, most = 4.95; // of the table
	int places = 51 - exponent(std * most + 1);
	int beta = exponent((std * bound + power2(-places - 1)) * (1 + 0x1p-40));
	double base = 1.5 * power2(52 - places);
	uint64 unit = 1ull << places;
	return {std, base, base + 0.5 + power2(beta), fromBits(unit - (1ull << (places + beta + 1))), fromBits(-unit)};
}

// decide sets k to the draw of a word, an integer; false if its digits leave it open.
static __device__ __forceinline__ bool decide(const Fixed &f, double point, uint32 high, const Row &row, double *k) {
	double signedStd = halves(lower(f.std), upper(f.std) ^ (high & 1u << 31));
	double w = fma(size(point, row), signedStd, f.magic);
	*k = halves(lower(w) & lower(f.whole), upper(w) & upper(f.whole)) - f.base;
	return ((lower(w) & lower(f.open)) | (upper(w) & upper(f.open))) != 0;
}

static const int octaves = 40, perOctave = 32; // of cells, which have no V < 2^-40

// Cell is a cell of exact.Words: what |Z| is around a point of V, in powers of how far V·2^63 lies below at.
struct __attribute__((aligned(32))) Cell {
	int64 at;
	double centre, c[8], error, none;
};

static __device__ __forceinline__ const Cell *cellsOf(const Row *table) { return (const Cell *)(table + lastRow + 1); }

// decideByCell is decide for any word, with an error that is that of its cell (docs/proofs/exact-noise.md).
static __device__ __forceinline__ bool decideByCell(double std, uint64 word, const Cell *cells, double *k) {
	uint64 v = word & ~(1ull << 63);
	if (v < 1ull << (63 - octaves))
		return false;
	int octave = __builtin_clzll(v) - 1;
	const Cell *c = cells + octave * perOctave + (int)((v << octave) >> 57 & (perOctave - 1));
	double t = (double)(c->at - (int64)v), w = c->c[7];
#pragma unroll 1 // with few registers
	for (int i = 6; i >= 0; i--)
		w = fma(w, t, c->c[i]);
	double high = std * c->centre, lost = fma(std, c->centre, -high), whole = __builtin_rint(high);
	double rest = (high - whole) + fma(std, w * t, lost), near = __builtin_rint(rest);
	double size = whole + near, off = rest - near;
	*k = word >> 63 ? -size : size;
	return 0.5 - (off < 0 ? -off : off) > fma(std, c->error, 0x1p-50);
}

// far is |Z| for a V in [2^-128, 2^-20]: with f = z + 1/(z + 2/(z + ...)) the tail of z is 2·phi(z)/f, and -f the slope of its logarithm. Newton's method comes from
// above; the fraction's 24 levels leave less than a rounding where z > 4.8.
static __device__ __forceinline__ double far(double v) {
	double target = log(v) + 0.22579135264472744; // less log(sqrt(2/pi))
	double z = sqrt(-2 * log(v));
#pragma unroll 1
	for (int i = 0; i < 6; i++) {
		double f = z;
#pragma unroll 1
		for (int n = 24; n > 0; n--)
			f = z + n / f;
		z -= (target + z * z / 2 + log(f)) / f;
	}
	return z;
}

// above says whether std·|Z| > k + 1/2, which is whether v is less than the tail of (k+1/2)/std. std has at most 24 digits, v is at
// least 2^-128.
static __device__ __forceinline__ bool above(int64 k, double std, uint32 v) {
	if (((double)k + 0.5) / std > 13.25) // whose tail is below 2^-128
		return false;
	// Numbers with a point before their highest digit, but for x and its square, which have it behind.
	const int lane = ownLane(), top = digits - 1;
	uint32 m = 1 << 23 | (uint32)(bits(std) >> 29 & 0x7fffff);
	uint64 n = (uint64)(2 * k + 1) << (31 - (exponent(std) - 24)); // m·x·2^32
	uint32 x = quotient(0, lane == top ? (uint32)(n >> 32) : lane == top - 1 ? (uint32)n : 0, m);
	uint32 square = part(product(x, x), top);

	// exp(-x^2/2) is exp(-y) squared 31 times. As a number with its point before the highest digit, square is y, below 2^-24.
	uint32 e = complement(0);
#pragma unroll 1
	for (int i = 15; i > 0; i--)
		e = complement(quotient(0, part(product(square, e), digits), i));
#pragma unroll 1
	for (int i = 0; i < 31; i++)
		e = part(product(e, e), digits);

	// P(|Z| < x) is the sum of 2·phi(x)·x^(2i+1)/(1·3·...·(2i+1)), whose terms are all less than 1.
	uint32 term = part(product(part(product(lane < digits ? rootTwoOverPi[lane] : 0, e), digits), x), top), sum = term;
#pragma unroll 1
	for (uint32 i = 3; any(term); i += 2) {
		uint32 p = product(term, square);
		term = quotient(sent(p, 2 * digits - 1), part(p, top), i);
		sum = plus(sum, term);
	}
	return less(v, complement(sum));
}

// rounded is |round(std·Z)| for a V of 384 digits that begins with a word's.
static __device__ __forceinline__ int64 rounded(uint64 word, uint32 v, double std, const Row *table) {
	if (any(v) >> (digits - 4) == 0)
		return (int64)(13.2 * std); // V < 2^-128
	double p = point((uint32)word, (uint32)(word >> 32)), z = size(p, rowOf(p, table));
	if (!(z < 16)) {
		double x = 0;
#pragma unroll 1
		for (int i = 0; i < digits; i++)
			x = (x + sent(v, i)) * 0x1p-32;
		z = far(x);
	}
	// The least k that is not below std·|Z| - 1/2.
	int64 k = (int64)(std * z);
	for (bool up = false, down = false;;) {
		if (above(k, std, v)) {
			k++;
			up = true;
			if (down)
				return k;
		} else {
			if (up || k == 0)
				return k;
			k--;
			down = true;
		}
	}
}

// units is round(x/step), of what is within 2^49 steps.
static __device__ __forceinline__ double units(double x, double step, double scale) {
	double most = 0x1p49 * step;
	x = __nvvm_fmin_d(__nvvm_fmax_d(x, -most), most); // of NaN, too
	return __builtin_rint(x * scale);
}

// noised is the sum x with a draw of k steps, a multiple of the step. Integers of float64 are exact here; int64 sums may be longer.
static __device__ __forceinline__ float noised(double x, double k, double step, double scale) {
	return (float)((units(x, step, scale) + k) * step);
}
static __device__ __forceinline__ float noised(int64 x, double k, double step, double) { return (float)((double)(x + (int64)k) * step); }

static __device__ __forceinline__ float unnoised(double x, double) { return (float)x; }
static __device__ __forceinline__ float unnoised(int64 x, double step) { return (float)((double)x * step); }

static const int releaseThreads = 128, perWarp = 256; // values

// Near is what a block keeps in shared memory: rows of the table for 15 of 16 draws, and the words of its draws.
struct Near {
	static const int rows = 4 << cells, first = lastRow + 1 - rows;
	static const int behind = rows + 4; // from a row's first half to its second: so many that they lie in other banks
	uint4 halves[2 * behind];
	uint4 words[releaseThreads / 32][32 * 4];

	__device__ __forceinline__ void fill(const Row *table) {
#pragma unroll
		for (int j = 0; j < 2 * rows / releaseThreads; j++) {
			int i = j * releaseThreads + threadX();
			copyFour((float *)(halves + i % 2 * behind + i / 2), (const float *)((const uint4 *)(table + first) + i), true);
		}
	}

	// row is a row of the table, read from there, without a branch, where it is far.
	__device__ __forceinline__ Row row(const Row *table, int key) const {
		int at = max(key, firstKey + first);
		const uint4 *near = halves - (firstKey + first) + at;
		Row r = {near[0], near[behind]};
		asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %9, %10;\n\t"
		    "@p ld.global.v4.u32 {%0, %1, %2, %3}, [%8+%11];\n\t@p ld.global.v4.u32 {%4, %5, %6, %7}, [%8+%12];\n\t}"
		    : "+r"(r.c01.x), "+r"(r.c01.y), "+r"(r.c01.z), "+r"(r.c01.w), "+r"(r.c23.x), "+r"(r.c23.y), "+r"(r.c23.z), "+r"(r.c23.w)
		    : "l"(table + key), "r"(key), "r"(at), "n"(-32 * firstKey), "n"(16 - 32 * firstKey));
		return r;
	}

	// place is where quarter q of the words of a lane's draws lies, so that lanes meet in no bank, neither all with one
	// quarter nor eight of them with all quarters of two.
	static __device__ __forceinline__ int place(int lane, int q) { return 4 * lane + (q ^ (lane >> 1 & 3)); }
};

// decideOpen is a draw whose first digits leave it open, by all lanes of the warp.
static __device__ __forceinline__ double decideOpen(uint64 word, const uint32 *key, int i, uint32 tensor, uint64 draw, double std, const Row *table) {
	uint32 x[16];
	block(x, key, (uint32)i, tensor | 1u << 31, draw);
	int64 k = rounded(word, uniform(word, [&](int j) INLINE { return x[j]; }), std, table);
	return (double)(word >> 63 ? -k : k);
}

// releaseAll takes 256 values a warp, two of them a lane and at a time, so that the accesses of a warp lie side by side. A lane makes the words of eight draws
// that follow each other, and finds those of its own in shared memory. Draws that rows leave open a lane decides by cells, and what cells leave open the warp.
// Parameters, unless there are none, take a step of SGD with what is released.
template <typename T>
static __device__ __forceinline__ void releaseAll(const Run *run, float *dst, T *sum, int n, const uint32 *key, uint32 tensor, float std,
                                                  double step, const Row *table, float *params) {
	typedef T Pair __attribute__((ext_vector_type(2)));
	typedef float Floats __attribute__((ext_vector_type(2)));
	__shared__ Near near;
	const int steps = perWarp / 64;
	int lane = ownLane(), first = perWarp * (blockX() * (releaseThreads / 32) + threadX() / 32), mine = first + 2 * lane;
	uint4 *words = near.words[threadX() / 32];
	if (std != 0)
		near.fill(table);
	T x[steps][2];
	float old[steps][2]; // parameters
#pragma unroll
	for (int j = 0; j < steps; j++) {
		int i = mine + 64 * j;
		old[j][0] = old[j][1] = 0;
		if (i + 1 < n) {
			Pair p = *(const Pair *)(sum + i);
			x[j][0] = p.x, x[j][1] = p.y;
			if (params) {
				Floats o = *(const Floats *)(params + i);
				old[j][0] = o.x, old[j][1] = o.y;
			}
		} else {
			x[j][0] = i < n ? sum[i] : 0, x[j][1] = 0;
			if (params && i < n)
				old[j][0] = params[i];
		}
	}
	uint32 left = 0; // a bit for each open draw of the lane
	auto one = [&](int i, float released, float param) INLINE {
		dst[i] = released;
		sum[i] = 0;
		if (params)
			params[i] = param;
	};
	auto put = [&](int j, float a, float b, bool decidedA, bool decidedB) INLINE {
		int i = mine + 64 * j;
		float newA = descended(run->scalars, a, old[j][0]), newB = descended(run->scalars, b, old[j][1]);
		if (i + 1 < n && decidedA && decidedB) {
			*(Floats *)(dst + i) = Floats{a, b};
			*(Pair *)(sum + i) = Pair{0, 0};
			if (params)
				*(Floats *)(params + i) = Floats{newA, newB};
			return;
		}
		if (i < n) {
			if (decidedA)
				one(i, a, newA);
			else
				left |= 1u << (2 * j);
		}
		if (i + 1 < n) {
			if (decidedB)
				one(i + 1, b, newB);
			else
				left |= 2u << (2 * j);
		}
	};
	if (std == 0) {
#pragma unroll
		for (int j = 0; j < steps; j++)
			put(j, unnoised(x[j][0], step), unnoised(x[j][1], step), true, true);
		return;
	}
	uint64 draw = run->draw;
	uint32 w[16];
	block(w, key, (uint32)(first / 8 + lane), tensor, draw);
#pragma unroll
	for (int q = 0; q < 4; q++)
		words[Near::place(lane, q)] = uint4{w[4 * q], w[4 * q + 1], w[4 * q + 2], w[4 * q + 3]};
	arrived();
	barrier();
	Fixed f = fixedOf((double)std / step);
	double scale = 1 / step;
#pragma unroll
	for (int j = 0; j < steps; j++) {
		uint4 w = words[Near::place(8 * j + lane / 4, lane % 4)];
		uint32 low[2] = {w.x, w.z}, high[2] = {w.y, w.w};
		float y[2];
		bool decided[2];
#pragma unroll
		for (int e = 0; e < 2; e++) {
			double p = point(low[e], high[e]), k;
			decided[e] = decide(f, p, high[e], near.row(table, keyOf(p)), &k);
			y[e] = noised(x[j][e], k, step, scale);
		}
		put(j, y[0], y[1], decided[0], decided[1]);
	}
	if (any(left) == 0)
		return;
	// A draw's integer takes the place of its word.
	auto number = [&](int lane, int mark) INLINE { return first + 64 * (mark / 2) + 2 * lane + mark % 2; };
	auto place = [&](int i) INLINE { return (uint64 *)(words + Near::place((i - first) / 8, i / 2 % 4)) + i % 2; };
	uint32 open = left;
#pragma unroll 1
	for (uint32 marks = left; marks != 0; marks &= marks - 1) {
		int mark = __builtin_ctz(marks);
		uint64 *at = place(number(lane, mark));
		double k;
		if (decideByCell(f.std, *at, cellsOf(table), &k)) {
			*at = bits(k);
			open &= ~(1u << mark);
		}
	}
	for (uint32 lanes = any(open); lanes != 0; lanes &= lanes - 1) {
		int from = __builtin_ctz(lanes);
		for (uint32 marks = sent(open, from); marks != 0; marks &= marks - 1) {
			int i = number(from, __builtin_ctz(marks));
			double k = decideOpen(*place(i), key, i, tensor, draw, f.std, table);
			warpBarrier(); // all have read the word
			if (lane == from)
				*place(i) = bits(k);
		}
	}
#pragma unroll 1
	for (; left != 0; left &= left - 1) {
		int i = number(lane, __builtin_ctz(left));
		float released = noised(sum[i], fromBits(*place(i)), step, scale);
		one(i, released, params ? descended(run->scalars, released, params[i]) : 0);
	}
}

KERNEL __launch_bounds__(releaseThreads, 6) release(const Run *run, float *dst, double *sum, int n, const uint32 *key, uint32 tensor, int std,
                                                    int step, const Row *table, float *params) {
	releaseAll(run, dst, sum, n, key, tensor, run->scalars[std], run->scalars[step], table, params);
}

KERNEL __launch_bounds__(releaseThreads, 6) grid_release(const Run *run, float *dst, int64 *sum, int n, const uint32 *key, uint32 tensor,
                                                         int std, const Row *table, float *params) {
	releaseAll(run, dst, sum, n, key, tensor, run->scalars[std], gridOf(run->scalars[slot::Clip]).step, table, params);
}

KERNEL __launch_bounds__(64) keystream(uint32 *dst, int n, const uint32 *key, uint64 draw, uint32 tensor, uint32 first) {
	int64 g = index();
	if (g >= n)
		return;
	uint32 x[16];
	block(x, key, first + (uint32)g, tensor, draw);
#pragma unroll
	for (int i = 0; i < 16; i++)
		dst[16 * g + i] = x[i];
}

KERNEL __launch_bounds__(32) draws(int64 *dst, const uint64 *words, const uint32 *more, double std, const Row *table) {
	int i = blockX();
	uint64 word = words[i];
	int64 k = rounded(word, uniform(word, [&](int j) INLINE { return more[16 * i + j]; }), std, table);
	double p = point((uint32)word, (uint32)(word >> 32)), quick;
	if (threadX() == 0) {
		const int64 open = (int64)(1ull << 63);
		dst[3 * i] = decide(fixedOf(std), p, (uint32)(word >> 32), rowOf(p, table), &quick) ? (int64)quick : open;
		dst[3 * i + 1] = decideByCell(std, word, cellsOf(table), &quick) ? (int64)quick : open;
		dst[3 * i + 2] = word >> 63 ? -k : k;
	}
}
