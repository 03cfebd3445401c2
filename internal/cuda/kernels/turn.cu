// Between planes and pixels. A block turns a tile of one example around in shared memory, so that it reads and writes neighbours on either
// side: channels of a pixel, and pixels of a channel, 16 bytes at a time where a channel's pixels come in units.
#include "run.cuh"
#include "units.cuh"

static constexpr int threads = 256, numbers = 2048; // of a tile; turn.go has the same

// Tile is CHANNELS channels of some pixels. P is the element of planes, E that of pixels.
template <class P, class E, int CHANNELS> struct Tile {
	static constexpr int PIXELS = numbers / CHANNELS, UNITS = CHANNELS / E::UNIT, LINE = PIXELS / P::UNIT;
	float *tile;
	int c0, p0, channels, area; // where it begins, and what there is
	bool wide;                  // a channel's pixels come in units

	__device__ __forceinline__ Tile(float *tile, int channels, int area) : tile(tile), channels(channels), area(area), wide(area % P::UNIT == 0) {
		int lines = (area + PIXELS - 1) / PIXELS, n = blockY() / lines;
		c0 = n * CHANNELS, p0 = (blockY() - n * lines) * PIXELS;
	}

	// place is where a number lies: fours of pixels change places, so that the same pixels of neighbouring units are in different banks.
	static __device__ __forceinline__ int place(int c, int p) { return c * PIXELS + (p ^ c / 4 * (32 / CHANNELS) % 8 * 4); }

	// eachUnit calls f(c, p, at) for P's units of the tile that exist, eachNumber for its numbers, eachPixel for E's units.
	template <class F> __device__ __forceinline__ void eachUnit(F f) const {
#pragma unroll
		for (int i = 0; i < numbers / P::UNIT; i += threads) {
			int n = i + threadX(), c = n / LINE, p = n % LINE * P::UNIT;
			f(c, p, p0 + p < area && c0 + c < channels ? (c0 + c) * area + p0 + p : -1);
		}
	}
	template <class F> __device__ __forceinline__ void eachNumber(F f) const {
#pragma unroll
		for (int i = 0; i < numbers; i += threads) {
			int n = i + threadX(), c = n / PIXELS, p = n % PIXELS;
			f(c, p, p0 + p < area && c0 + c < channels ? (c0 + c) * area + p0 + p : -1);
		}
	}
	template <class F> __device__ __forceinline__ void eachPixel(F f) const {
#pragma unroll
		for (int i = 0; i < numbers / E::UNIT; i += threads) {
			int n = i + threadX(), c = n % UNITS * E::UNIT, p = n / UNITS, exist = padded(channels);
			if (p0 + p < area && c0 + c < exist)
				f(c, p, (p0 + p) * exist + c0 + c);
		}
	}

	__device__ __forceinline__ void readPlanes(const typename P::Element *x) const {
		if (!wide) {
			eachNumber([&](int c, int p, int at) INLINE { tile[place(c, p)] = at >= 0 ? P::get(x + at) : 0; });
			return;
		}
		eachUnit([&](int c, int p, int at) INLINE {
			float v[P::UNIT];
			clear(v);
			if (at >= 0)
				load<P>(x + at, v);
#pragma unroll
			for (int k = 0; k < P::UNIT; k += 4)
				*(float4 *)(tile + place(c, p + k)) = float4{v[k], v[k + 1], v[k + 2], v[k + 3]};
		});
	}
	__device__ __forceinline__ void writePlanes(typename P::Element *y, int add) const {
		if (!wide) {
			eachNumber([&](int c, int p, int at) INLINE {
				if (at >= 0)
					P::put(y + at, tile[place(c, p)] + (add ? P::get(y + at) : 0));
			});
			return;
		}
		eachUnit([&](int c, int p, int at) INLINE {
			if (at < 0)
				return;
			float v[P::UNIT];
#pragma unroll
			for (int k = 0; k < P::UNIT; k++)
				v[k] = (*(const float4 *)(tile + place(c, p + k / 4 * 4)))[k % 4];
			give<P>(y + at, v, add);
		});
	}
	__device__ __forceinline__ void readPixels(const typename E::Element *x) const {
		eachPixel([&](int c, int p, int at) INLINE {
			float v[E::UNIT];
			load<E>(x + at, v);
#pragma unroll
			for (int k = 0; k < E::UNIT; k++)
				tile[place(c + k, p)] = v[k];
		});
	}
	__device__ __forceinline__ void writePixels(typename E::Element *y, int add) const {
		eachPixel([&](int c, int p, int at) INLINE {
			float v[E::UNIT];
#pragma unroll
			for (int k = 0; k < E::UNIT; k++)
				v[k] = tile[place(c + k, p)];
			give<E>(y + at, v, add);
		});
	}
};

// Examples are stride elements apart in planes.
template <class P, class E, int CHANNELS>
static __device__ __forceinline__ void toPixels(const Run *run, int first, int capacity, const typename P::Element *x, typename E::Element *y,
                                                int add, int stride, int channels, int area) {
	__shared__ __attribute__((aligned(16))) float tile[numbers];
	if (blockX() >= liveRows(run, first, capacity))
		return;
	Tile<P, E, CHANNELS> t(tile, channels, area);
	t.readPlanes(x + blockX() * stride);
	barrier();
	t.writePixels(y + blockX() * area * padded(channels), add);
}

// What lies behind an example's planes becomes zero.
template <class P, class E, int CHANNELS>
static __device__ __forceinline__ void fromPixels(const Run *run, int first, int capacity, const typename E::Element *x, typename P::Element *y,
                                                  int add, int stride, int channels, int area) {
	__shared__ __attribute__((aligned(16))) float tile[numbers];
	if (blockX() >= liveRows(run, first, capacity))
		return;
	Tile<P, E, CHANNELS> t(tile, channels, area);
	t.readPixels(x + blockX() * area * padded(channels));
	barrier();
	y += blockX() * stride;
	t.writePlanes(y, add);
	int behind = channels * area + threadX();
	if (blockY() == 0 && behind < stride)
		P::put(y + behind, 0);
}

// Vectors of n elements lie in the same order in both layouts: a thread has a unit.
template <class P, class E, bool TO>
static __device__ __forceinline__ void vectors(const Run *run, int first, int capacity, typename P::Element *planes, typename E::Element *pixels,
                                               int add, int n) {
	int at = index() * E::UNIT, b = at / padded(n), i = at - b * padded(n);
	if (b >= liveRows(run, first, capacity))
		return;
	float v[E::UNIT];
	if (TO) {
#pragma unroll
		for (int k = 0; k < E::UNIT; k++)
			v[k] = i + k < n ? P::get(planes + b * n + i + k) : 0;
		give<E>(pixels + at, v, add);
		return;
	}
	load<E>(pixels + at, v);
#pragma unroll
	for (int k = 0; k < E::UNIT; k++)
		if (i + k < n)
			P::put(planes + b * n + i + k, v[k] + (add ? P::get(planes + b * n + i + k) : 0));
}

#define TURNS(E, SUFFIX, CHANNELS)                                                                                                         \
	KERNEL __launch_bounds__(threads) to_pixels_##CHANNELS##_##SUFFIX(const Run *run, int first, int capacity, const float *x,              \
	                                                                  E::Element *y, int add, int stride, int channels, int area) {        \
		toPixels<Plain, E, CHANNELS>(run, first, capacity, x, y, add, stride, channels, area);                                             \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(threads) from_pixels_##CHANNELS##_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x,       \
	                                                                    float *y, int add, int stride, int channels, int area) {           \
		fromPixels<Plain, E, CHANNELS>(run, first, capacity, x, y, add, stride, channels, area);                                           \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(threads) flat_##CHANNELS##_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x,              \
	                                                             E::Element *y, int add, int stride, int channels, int area) {             \
		fromPixels<E, E, CHANNELS>(run, first, capacity, x, y, add, stride, channels, area);                                               \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(threads) flat_grad_##CHANNELS##_##SUFFIX(const Run *run, int first, int capacity, const E::Element *x,         \
	                                                                  E::Element *y, int add, int stride, int channels, int area) {        \
		toPixels<E, E, CHANNELS>(run, first, capacity, x, y, add, stride, channels, area);                                                 \
	}
#define VECTORS(E, SUFFIX)                                                                                                                 \
	KERNEL __launch_bounds__(threads) to_vector_##SUFFIX(const Run *run, int first, int capacity, float *x, E::Element *y, int add, int n) { \
		vectors<Plain, E, true>(run, first, capacity, x, y, add, n);                                                                       \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(threads) from_vector_##SUFFIX(const Run *run, int first, int capacity, E::Element *x, float *y, int add, int n) { \
		vectors<Plain, E, false>(run, first, capacity, y, x, add, n);                                                                      \
	}
TURNS(TF32, tf32, 8)
TURNS(TF32, tf32, 32)
TURNS(BF16, bf16, 8)
TURNS(BF16, bf16, 32)
VECTORS(TF32, tf32)
VECTORS(BF16, bf16)
