// The trunks of named models, see trunk.cu: two convolutions with a pool behind each, of a geometry that is known here.
#include "fixed.cuh"

struct First5x5 {
	static constexpr int FILTERS_AT_ONCE = 3, POSITIONS_AT_ONCE = 12, FILTERS_KEPT = 6, POSITIONS_READ = 8, GRADIENT_PLANE = 608,
	                     GRADIENT_ROW = 24, PLANE_APART = 0;
};
struct Second5x5 {
	static constexpr int FILTERS_AT_ONCE = 2, POSITIONS_AT_ONCE = 8, FILTERS_KEPT = 4, POSITIONS_READ = 8, GRADIENT_PLANE = 68,
	                     GRADIENT_ROW = 8, PLANE_APART = 0, CHANNELS_AT_ONCE = 1;
};
struct First8x8 {
	static constexpr int FILTERS_AT_ONCE = 2, POSITIONS_AT_ONCE = 14, FILTERS_KEPT = 4, POSITIONS_READ = 2, GRADIENT_PLANE = 210,
	                     GRADIENT_ROW = 14, PLANE_APART = 0;
};
struct Second8x8 {
	static constexpr int FILTERS_AT_ONCE = 2, POSITIONS_AT_ONCE = 5, FILTERS_KEPT = 4, POSITIONS_READ = 5, GRADIENT_PLANE = 40,
	                     GRADIENT_ROW = 8, PLANE_APART = 12, CHANNELS_AT_ONCE = 2;
};

// LeNet is the trunk of cnn-mnist, Wide that of mnist-tf. trunk.go knows them by their geometry, and the memory that they take.
struct LeNet {
	using First = Layer<1, 28, 6, 5, 1, 0, 2, First5x5>;
	using Second = Layer<6, 12, 16, 5, 1, 0, 2, Second5x5>;
};
struct Wide {
	using First = Layer<1, 28, 16, 8, 2, 3, 1, First8x8>;
	using Second = Layer<16, 13, 32, 4, 2, 0, 1, Second8x8>;
};

static constexpr int larger(int a, int b) { return a > b ? a : b; }

template <class T> struct Forward {
	using First = typename T::First;
	using Second = typename T::Second;
	static_assert(First::POOLED == Second::SIZE && First::FILTERS == Second::CHANNELS && Second::PADDING == 0);
	alignas(16) float image[First::IMAGE];
	alignas(16) float between[Second::IMAGE];
	alignas(16) float weights[fours(First::FILTERS * First::WEIGHT_FILTER)];
	alignas(16) float more[fours(Second::FILTERS * Second::WEIGHT_FILTER)];
	alignas(16) float out[larger(First::FILTERS * First::OUT_PLANE, Second::FILTERS * Second::OUT_PLANE)];
};

template <class T> struct Backward {
	using First = typename T::First;
	using Second = typename T::Second;
	alignas(16) float image[First::IMAGE];
	alignas(16) float dSecond[Second::FILTERS * Second::GRADIENT_PLANE];
	alignas(16) float ones[16];
	alignas(16) union {
		float between[Second::IMAGE];
		float dBetween[First::POOL_OUTPUTS];
	};
	alignas(16) union {
		float weights[fours(Second::FILTERS * Second::CHANNELS * Second::WEIGHT_CHANNEL)];
		struct {
			float dFirst[First::FILTERS * First::GRADIENT_PLANE];
			float scratch[First::SCRATCH];
		};
	};
	alignas(16) double sums[THREADS];
};

// What Go's namedTrunks say.
static_assert(sizeof(Forward<LeNet>) == 30720 && sizeof(Backward<LeNet>) == 33232);
static_assert(sizeof(Forward<Wide>) == 72736 && sizeof(Backward<Wide>) == 69472);

extern __shared__ __attribute__((aligned(16))) char memory[];

// copyWeights begins to copy a convolution's, by fours: RUN neighbours go to multiples of DISTANCE. Runs that follow each other are one.
template <int COUNT, int RUN, int DISTANCE> static __device__ __forceinline__ void copyWeights(float *to, const float *from) {
	static_assert(RUN == DISTANCE || (RUN % 4 == 0 && DISTANCE % 4 == 0));
	each<fours(COUNT) / 4>([&](int e) INLINE {
		e *= 4;
		copyFour(RUN == DISTANCE ? to + e : to + e / RUN * DISTANCE + e % RUN, from + e, true);
	});
}

// copyImage begins to copy an image to where a layer reads it, with its padding.
template <class L> static __device__ __forceinline__ void copyImage(float *to, const float *from) {
	if (L::PADDING == 0) {
		each<L::CHANNELS * L::SIZE * L::SIZE>([&](int e) INLINE {
			int row = e / L::SIZE;
			copyAsync(to + row * L::PITCH + row / L::SIZE * L::PLANE_APART + e % L::SIZE, from, e, true);
		});
		return;
	}
	each<L::IMAGE>([&](int e) INLINE {
		int y = e % L::PLANE / L::PITCH - L::PADDING, x = e % L::PITCH - L::PADDING;
		bool inside = (unsigned)y < (unsigned)L::SIZE && (unsigned)x < (unsigned)L::SIZE;
		copyAsync(to + e, from, e / L::PLANE * L::SIZE * L::SIZE + y * L::SIZE + x, inside);
	});
}

// CONVOLUTION are a kernel's parameters for one and its pool: where its parameters are among all, its activation, outputs of both, and the
// place of each that the pool took.
#define CONVOLUTION(N) int weights##N, int bias##N, int act##N, float *values##N, float *pooled##N, int *largests##N

template <class T>
static __device__ __forceinline__ void forward(const Run *run, int first, int capacity, Table table, float *images, float *t,
                                               const float *params, CONVOLUTION(0), CONVOLUTION(1)) {
	using First = typename T::First;
	using Second = typename T::Second;
	Forward<T> &m = *(Forward<T> *)memory;
	int b = blockX();
	if (b >= liveRows(run, first, capacity)) {
		if (threadX() == 0)
			t[b] = quietNaN();
		return;
	}
	copyWeights<First::FILTERS * First::TAPS, First::TAPS, First::WEIGHT_FILTER>(m.weights, params + weights0);
	commit();
	copyWeights<Second::FILTERS * Second::TAPS, Second::TAPS, Second::WEIGHT_FILTER>(m.more, params + weights1);
	commit();
	int64 row = run->rows[first + b];
	float target = table.targets[row];
	if (threadX() == 0)
		t[b] = target;
	each<First::IMAGE>([&](int e) INLINE {
		int y = e / First::PITCH - First::PADDING, x = e % First::PITCH - First::PADDING;
		bool inside = (unsigned)y < (unsigned)First::SIZE && (unsigned)x < (unsigned)First::SIZE;
		int j = inside ? y * First::SIZE + x : 0;
		float v = table.read(row, j, target);
		m.image[e] = inside ? v : 0;
		if (inside)
			images[b * First::SIZE * First::SIZE + j] = v;
	});
	arrivedBut<1>();
	barrier();
	convForward<First>(m.image, m.weights, params + bias0, act0, m.out);
	barrier();
	activateAll<First>(act0, m.out);
	poolForward<First>(m.out, values0 + b * First::OUTPUTS, pooled0 + b * First::POOL_OUTPUTS, largests0 + b * First::POOL_OUTPUTS,
	                   [&](int channel, int y, int x, float v) INLINE { m.between[channel * Second::PLANE + y * Second::PITCH + x] = v; });
	arrived();
	barrier();
	convForward<Second>(m.between, m.more, params + bias1, act1, m.out);
	barrier();
	activateAll<Second>(act1, m.out);
	poolForward<Second>(m.out, values1 + b * Second::OUTPUTS, pooled1 + b * Second::POOL_OUTPUTS, largests1 + b * Second::POOL_OUTPUTS,
	                    [](int, int, int, float) INLINE {});
}

#define GRADIENT(N) int act##N, const float *values##N, const int *largests##N, int kept##N, double *norm2##N

template <class T>
static __device__ __forceinline__ void backward(const Run *run, int first, int capacity, const float *images, const float *delta,
                                                const float *params, float *kept, int stride, GRADIENT(0), const float *between,
                                                GRADIENT(1), int weights1) {
	using First = typename T::First;
	using Second = typename T::Second;
	Backward<T> &m = *(Backward<T> *)memory;
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	copyImage<Second>(m.between, between + b * First::POOL_OUTPUTS);
	commit();
	copyImage<First>(m.image, images + b * First::SIZE * First::SIZE);
	copyWeights<Second::FILTERS * Second::TAPS, Second::AREA, Second::WEIGHT_CHANNEL>(m.weights, params + weights1);
	commit();
	if (threadX() < 16)
		m.ones[threadX()] = 1;
	kept += (int64)b * stride;
	delta += b * Second::POOL_OUTPUTS;
	poolGrad<Second>(values1 + b * Second::OUTPUTS, largests1 + b * Second::POOL_OUTPUTS, act1, m.dSecond,
	                 [&](int n) INLINE { return delta[n]; });
	arrivedBut<1>();
	barrier();
	convStore<Second>(m.between, m.dSecond, m.ones, 0, kept + kept1, norm21 ? norm21 + b : 0, m.sums);
	arrived();
	barrier();
	convInputGrad<Second>(m.dSecond, m.weights, m.dBetween);
	barrier();
	poolGrad<First>(values0 + b * First::OUTPUTS, largests0 + b * First::POOL_OUTPUTS, act0, m.dFirst,
	                [&](int n) INLINE { return m.dBetween[n]; });
	barrier();
	convStore<First>(m.image, m.dFirst, m.ones, m.scratch, kept + kept0, norm20 ? norm20 + b : 0, m.sums);
}

#define FORWARD                                                                                                                            \
	const Run *run, int first, int capacity, TABLE, float *images, float *t, const float *params, CONVOLUTION(0), CONVOLUTION(1)
#define FORWARD_ARGUMENTS                                                                                                                  \
	run, first, capacity, TABLE_ARGUMENTS, images, t, params, weights0, bias0, act0, values0, pooled0, largests0, weights1, bias1, act1,    \
	    values1, pooled1, largests1
#define BACKWARD                                                                                                                           \
	const Run *run, int first, int capacity, const float *images, const float *delta, const float *params, float *kept, int stride,        \
	    GRADIENT(0), const float *between, GRADIENT(1), int weights1
#define BACKWARD_ARGUMENTS                                                                                                                 \
	run, first, capacity, images, delta, params, kept, stride, act0, values0, largests0, kept0, norm20, between, act1, values1, \
	    largests1, kept1, norm21, weights1

KERNEL __launch_bounds__(THREADS, 4) trunk_forward_5x5(FORWARD) { forward<LeNet>(FORWARD_ARGUMENTS); }

KERNEL __launch_bounds__(THREADS, 4) trunk_backward_5x5(BACKWARD) { backward<LeNet>(BACKWARD_ARGUMENTS); }

KERNEL __launch_bounds__(THREADS, 3) trunk_forward_8x8(FORWARD) { forward<Wide>(FORWARD_ARGUMENTS); }

KERNEL __launch_bounds__(THREADS, 3) trunk_backward_8x8(BACKWARD) { backward<Wide>(BACKWARD_ARGUMENTS); }
