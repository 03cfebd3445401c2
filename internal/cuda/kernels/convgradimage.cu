// Gradients of convolutions by any window, of images that fit into shared memory beside a slab of dy. No column is formed: a
// table has the pixel of every position's corner, and a thread knows those of its four taps relative to it.
#include "geometry.cuh"
#include "run.cuh"
#include "tile.cuh"

extern __shared__ __attribute__((aligned(16))) float memory[];

// Cut is how a launch cuts an example's gradient up, as convgrad.go computes it. A tile has 32·columns columns by R·filters
// filters, and takes so many blocks of positions at a time.
struct Cut {
	int columns, filters, blocks, pixels;
};
#define CUT int cutColumns, int cutFilters, int cutBlocks, int pixels
#define CUT_VALUES                                                                                                                         \
	{ cutColumns, cutFilters, cutBlocks, pixels }

typedef int int4 __attribute__((ext_vector_type(4)));

// Images is a tile. Eight lanes share an item, which is R filters by 32 columns by a block of positions.
template <int R_> struct Images {
	static constexpr int R = R_, C = 4, LANES = 8, COLUMNS = LANES * C, THREADS = 64, BLOCK = 64, PITCH = BLOCK + 4;

	int o0, k0, filters, columns; // of which so many exist
	int rows, pitch;              // of the tile's gradient: the last column is the bias's
	int first, planes, width, height;
	float *image, *slab, *total;
	int *corners;

	static __device__ __forceinline__ int across(const Geometry &g, const Cut &cut) {
		return (g.taps() + cut.columns * COLUMNS - 1) / (cut.columns * COLUMNS);
	}
	static __device__ __forceinline__ int tiles(const Geometry &g, const Cut &cut) {
		return across(g, cut) * ((g.out + R * cut.filters - 1) / (R * cut.filters));
	}

	__device__ __forceinline__ Images(const Geometry &g, const Cut &cut, int tile, float *memory) {
		int n = across(g, cut), area = g.windowRows * g.windowCols;
		o0 = tile / n * R * cut.filters, k0 = tile % n * cut.columns * COLUMNS;
		filters = g.out - o0, columns = min(cut.columns * COLUMNS, g.taps() - k0);
		rows = R * cut.filters, pitch = cut.columns * COLUMNS + 1;
		first = k0 / area, planes = (k0 + columns - 1) / area + 1 - first;
		width = (g.outCols - 1) * g.strideX + (g.windowCols - 1) * g.dilationX + 1;
		height = (g.outRows - 1) * g.strideY + (g.windowRows - 1) * g.dilationY + 1;
		image = memory;
		corners = (int *)(image + cut.pixels);
		slab = (float *)(corners + (g.positions() + 3) / 4 * 4);
		int left = rows * pitch, copied = rows * PITCH; // what the items leave for one block of positions, where they read dy
		total = slab + (max(left, copied) * cut.blocks + 3) / 4 * 4;
	}

	// begin fills the table, which is that of all tiles.
	__device__ __forceinline__ void begin(const Geometry &g) const {
#pragma unroll 1
		for (int p = threadX(); p < g.positions(); p += THREADS)
			corners[p] = p / g.outCols * g.strideY * width + p % g.outCols * g.strideX;
	}

	// copyImage begins to copy what the tile's taps read of an example's image, with its padding.
	__device__ __forceinline__ void copyImage(const Geometry &g, const float *x) const {
		int area = g.rows * g.cols, all = planes * width * height;
		x += first * area;
		if (g.top == 0 && g.left == 0 && width == g.cols && height == g.rows && area % 4 == 0) {
			for (int e = 4 * threadX(); e < all; e += 4 * THREADS)
				copyFour(image + e, x + e, true);
			return;
		}
		int y = threadX() / width - g.top, column = threadX() % width - g.left, down = THREADS / width, right = THREADS % width;
#pragma unroll 1
		for (int e = threadX(); e < all; e += THREADS) {
			for (; y >= height - g.top; y -= height)
				x += area;
			copyAsync(image + e, x, y * g.cols + column, g.inside(y, column));
			column += right, y += down;
			if (column >= width - g.left)
				column -= width, y++;
		}
	}

	// copySlab begins to copy blocks of positions from p0, each by itself.
	__device__ __forceinline__ void copySlab(const Geometry &g, const float *dy, int p0, int blocks) const {
		int positions = g.positions(), row = threadX() / 16, four = threadX() % 16;
		dy += o0 * positions;
		for (int n = 0; n < blocks; n++, p0 += BLOCK)
#pragma unroll 1
			for (int r = row; r < rows; r += THREADS / 16) {
				float *to = slab + (n * rows + r) * PITCH;
				if (positions % 4 == 0) {
					int p = 4 * four;
					copyFour(to + p, dy + r * positions + p0 + p, r < filters && p0 + p < positions);
				} else {
#pragma unroll
					for (int i = 0; i < BLOCK; i += 16) {
						int p = i + four;
						copyAsync(to + p, dy, r * positions + p0 + p, r < filters && p0 + p < positions);
					}
				}
			}
	}

	// multiply adds the products at n positions, whose corners are given, in order; and dy itself for the bias.
	static __device__ __forceinline__ void multiply(const float *dy, const int *corners, int n, const float *const (&taps)[C],
	                                                float (&sum)[R][C], float (&bias)[R / LANES]) {
		const float *own = dy + threadX() % LANES * PITCH;
		int p = 0;
#pragma unroll 1
		for (; p + 4 <= n; p += 4) {
			int4 corner = *(const int4 *)(corners + p);
			float x[C][4];
#pragma unroll
			for (int j = 0; j < C; j++)
#pragma unroll
				for (int i = 0; i < 4; i++)
					x[j][i] = taps[j][corner[i]];
#pragma unroll
			for (int r = 0; r < R; r++) {
				float4 d = four(dy + r * PITCH + p);
#pragma unroll
				for (int i = 0; i < 4; i++)
#pragma unroll
					for (int j = 0; j < C; j++)
						sum[r][j] = fmaf(d[i], x[j][i], sum[r][j]);
			}
#pragma unroll
			for (int r = 0; r < R / LANES; r++) {
				float4 d = four(own + r * LANES * PITCH + p);
#pragma unroll
				for (int i = 0; i < 4; i++)
					bias[r] += d[i];
			}
		}
#pragma unroll 1
		for (; p < n; p++) {
#pragma unroll
			for (int j = 0; j < C; j++) {
				float x = taps[j][corners[p]];
#pragma unroll
				for (int r = 0; r < R; r++)
					sum[r][j] = fmaf(dy[r * PITCH + p], x, sum[r][j]);
			}
#pragma unroll
			for (int r = 0; r < R / LANES; r++)
				bias[r] += own[r * LANES * PITCH + p];
		}
	}

	// gradient computes an example's into total. A thread has every so many'th value of total, before the next barrier.
	__device__ __forceinline__ void gradient(const Geometry &g, const Cut &cut, const float *x, const float *dy) const {
		int lane = threadX() % LANES, item = threadX() / LANES, filter = item % cut.filters * R;
		int column = item / cut.filters % cut.columns * COLUMNS + lane, block = item / cut.filters / cut.columns;
		int area = g.windowRows * g.windowCols, positions = g.positions();
		const float *taps[C];
#pragma unroll
		for (int j = 0; j < C; j++) {
			int k = column + j * LANES < columns ? k0 + column + j * LANES - first * area : 0;
			taps[j] = image + (k / area * height + k % area / g.windowCols * g.dilationY) * width + k % g.windowCols * g.dilationX;
		}
		for (int p0 = 0; p0 < positions; p0 += cut.blocks * BLOCK) {
			int blocks = min(cut.blocks, (positions - p0 + BLOCK - 1) / BLOCK), p = p0 + block * BLOCK;
			barrier(); // what was in the slab was read
			if (p0 == 0)
				copyImage(g, x);
			copySlab(g, dy, p0, blocks);
			arrived();
			barrier();
			float sum[R][C] = {}, bias[R / LANES] = {};
			if (block < blocks && filter < filters && column - lane < columns)
				multiply(slab + (block * rows + filter) * PITCH, corners + p, min(BLOCK, positions - p), taps, sum, bias);
			barrier();
			if (block < blocks) {
				float *to = slab + (block * rows + filter) * pitch;
#pragma unroll
				for (int r = 0; r < R; r++)
#pragma unroll
					for (int j = 0; j < C; j++)
						to[r * pitch + column + j * LANES] = sum[r][j];
				if (column == lane)
#pragma unroll
					for (int r = 0; r < R / LANES; r++)
						to[(r * LANES + lane) * pitch + pitch - 1] = bias[r];
			}
			barrier();
			for (int e = threadX(); e < rows * pitch; e += THREADS) {
				float v = p0 == 0 ? 0 : total[e];
				for (int n = 0; n < blocks; n++)
					v += slab[n * rows * pitch + e];
				total[e] = v;
			}
		}
	}

	// each visits what exists of a tile's gradient, neighbours by neighbouring threads, with its place among weights and biases.
	template <class F> __device__ __forceinline__ void each(const Geometry &g, int bias, const float *values, F f) const {
		for (int r = threadX() / 32; r < min(rows, filters); r += THREADS / 32) {
			for (int k = threadX() % 32; k < columns; k += 32)
				f((o0 + r) * g.taps() + k0 + k, values[r * pitch + k]);
		}
		if (bias && k0 == 0 && threadX() < min(rows, filters))
			f(g.out * g.taps() + o0 + threadX(), values[threadX() * pitch + pitch - 1]);
	}
};

template <class Images>
static __device__ __forceinline__ void imageStore(const Run *run, int first, int capacity, const float *x, const float *dy, float *kept,
                                                  int stride, double *norm2, int bias, Cut cut, Geometry g) {
	int b = blockX(), tiles = Images::tiles(g, cut);
	if (b >= liveRows(run, first, capacity))
		return;
	x += b * g.image(), dy += b * g.out * g.positions(), kept += kept ? (int64)b * stride : 0;
	double squares = 0;
	Images(g, cut, 0, memory).begin(g);
#pragma unroll 1
	for (int tile = blockY(); tile < tiles; tile += blocksY()) {
		Images t(g, cut, tile, memory);
		t.gradient(g, cut, x, dy);
		barrier();
		t.each(g, bias, t.total, [&](int at, float v) INLINE {
			squares = fma(v, v, squares);
			if (kept)
				kept[at] = v;
		});
	}
	squares = blockSum<Images::THREADS>(squares, (double *)memory); // where the image was: all threads are done with it
	if (threadX() == 0)
		norm2[(int64)blockY() * capacity + b] += squares;
}

template <class Images>
static __device__ __forceinline__ void imageSum(const Run *run, int first, int capacity, const float *x, const float *dy,
                                                const float *factors, float *parts, int stride, int examples, int bias, Cut cut,
                                                Geometry g) {
	Images t(g, cut, blockX(), memory);
	float *sums = t.total + t.rows * t.pitch;
	for (int e = threadX(); e < t.rows * t.pitch; e += Images::THREADS)
		sums[e] = 0;
	t.begin(g);
	int b = blockY() * examples, end = min(b + examples, liveRows(run, first, capacity));
#pragma unroll 1
	for (; b < end; b++) {
		float f = factors[b];
		if (!(f > 0))
			continue;
		t.gradient(g, cut, x + b * g.image(), dy + b * g.out * g.positions());
		for (int e = threadX(); e < t.rows * t.pitch; e += Images::THREADS)
			sums[e] = fmaf(f, t.total[e], sums[e]);
	}
	barrier();
	parts += (int64)blockY() * stride;
	t.each(g, bias, sums, [&](int at, float v) INLINE { parts[at] = v; });
}

#define IMAGE_KERNELS(R)                                                                                                                   \
	KERNEL __launch_bounds__(64, 4) conv_store_image_##R(const Run *run, int first, int capacity, const float *x, const float *dy,            \
	                                                  float *kept, int stride, double *norm2, int bias, CUT, GEOMETRY) {                   \
		imageStore<Images<R>>(run, first, capacity, x, dy, kept, stride, norm2, bias, CUT_VALUES, GEOMETRY_VALUES);                        \
	}                                                                                                                                      \
	KERNEL __launch_bounds__(64, 4) conv_sum_image_##R(const Run *run, int first, int capacity, const float *x, const float *dy,              \
	                                                const float *factors, float *parts, int stride, int examples, int bias, CUT,           \
	                                                GEOMETRY) {                                                                            \
		imageSum<Images<R>>(run, first, capacity, x, dy, factors, parts, stride, examples, bias, CUT_VALUES, GEOMETRY_VALUES);             \
	}
IMAGE_KERNELS(8)
IMAGE_KERNELS(16)
