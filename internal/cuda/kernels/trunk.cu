// The convolutions and pools with which a network of small images begins, one block an example: what lies between them stays in
// shared memory. Every element of a value or a gradient is the same chain of operations as in conv.cu and pool.cu.
#include "activation.cuh"
#include "gather.cuh"
#include "run.cuh"
#include "tile.cuh"
#include "window.cuh"

static constexpr int THREADS = 256, POSITION_BLOCK = 64;

enum StageKind { ConvStage, MaxPoolStage, AvgPoolStage };

// Stage is a convolution or a pool, and the activation behind it: trunk.go has the same layout. Places in shared memory
// count floats.
struct Stage {
	int kind, act;
	Geometry g;
	int weight, bias; // among the parameters; bias < 0: none
	int kept;         // in an example's kept gradients
	int x, y;         // forward: input and output in shared memory
	int input;        // backward: a convolution's input
	int dy;           // and the gradient at the output
	float *values;    // the output of all examples, activated
	int *largest;     // of a maximum pool, for every output the place in its plane
	double *norm2;    // of a convolution

	__device__ __forceinline__ int outputs() const { return g.out * g.positions(); }
};
static_assert(sizeof(Stage) == 120);

extern __shared__ __attribute__((aligned(16))) float memory[];

// Quotient divides numbers below 2¹⁶, as all that count floats in shared memory are, by one known once a stage: m·by exceeds 2³² by less than
// by, so n·m/2³² exceeds n/by by less than 1/by.
struct Quotient {
	int by;
	uint32 m; // 0 for 1
	__device__ __forceinline__ Quotient(int by) : by(by), m(0xffffffffu / (uint32)by + 1) {}
	__device__ __forceinline__ int of(int n) const { return m ? (int)((uint64)(uint32)n * m >> 32) : n; }
	__device__ __forceinline__ int rest(int n) const { return n - of(n) * by; }
};

// sharedFour is four of what lies in shared memory, where the compiler does not see that it does.
static __device__ __forceinline__ float4 sharedFour(const float *x) { return *(const __attribute__((address_space(3))) float4 *)x; }

// quads is how many fours make room for n, an odd number: neighbours in the other direction then lie in different banks.
static __device__ __forceinline__ int quads(int n) { return (n + 3) / 4 | 1; }

static __device__ __forceinline__ Corner corner(const Geometry &g, Quotient byCols, int position) {
	Corner c;
	int row = byCols.of(position);
	c.y = row * g.strideY, c.x = (position - row * g.outCols) * g.strideX;
	return c;
}

// A thread has four filters at four positions, a quarter of all apart. Weights lie tap by tap.
static __device__ __forceinline__ void convForward(const Stage &s, const float *params, float *weights, float *values) {
	Geometry g = s.g;
	int taps = g.taps(), stride = 4 * quads(g.out), positions = g.positions(), octets = (g.out + 7) / 8;
	const float *w = params + s.weight;
	// Neighbouring threads take eight filters, then taps, as a compromise of both memories.
	Quotient byTaps(taps), byPositions(positions), byCols(g.outCols);
	for (int e = threadX(); e < octets * 8 * taps; e += THREADS) {
		int octet = byTaps.of(e / 8), o = octet * 8 + e % 8, k = e / 8 - octet * taps;
		if (o < stride)
			weights[k * stride + o] = o < g.out ? w[o * taps + k] : 0;
	}
	barrier();
	int quarter = (positions + 3) / 4;
	Quotient byQuarter(quarter);
#pragma unroll 1
	for (int n = threadX(); n < (g.out + 3) / 4 * quarter; n += THREADS) {
		int o0 = byQuarter.of(n) * 4, p0 = byQuarter.rest(n);
		Corner c[4];
#pragma unroll
		for (int j = 0; j < 4; j++)
			c[j] = corner(g, byCols, min(p0 + j * quarter, positions - 1));
		const float *at = weights + o0;
		float acc[4][4] = {};
		int plane = s.x;
#pragma unroll 1
		for (int channel = 0; channel < g.channels; channel++, plane += g.rows * g.cols)
#pragma unroll 1
			for (int v = 0; v < g.windowRows; v++) {
				int x[4], row[4];
#pragma unroll
				for (int j = 0; j < 4; j++) {
					int y = c[j].y + v * g.dilationY - g.top;
					bool inside = (unsigned)y < (unsigned)g.rows;
					x[j] = inside ? c[j].x - g.left : -0x10000, row[j] = plane + y * g.cols;
				}
#pragma unroll 1
				for (int u = 0; u < g.windowCols; u++, at += stride) {
					float4 w = sharedFour(at);
#pragma unroll
					for (int j = 0; j < 4; j++) {
						float read = (unsigned)x[j] < (unsigned)g.cols ? memory[row[j] + x[j]] : 0;
						x[j] += g.dilationX;
#pragma unroll
						for (int i = 0; i < 4; i++)
							acc[i][j] = fmaf(w[i], read, acc[i][j]);
					}
				}
			}
#pragma unroll
		for (int j = 0; j < 4; j++) {
			int p = p0 + j * quarter;
#pragma unroll
			for (int i = 0; i < 4; i++)
				if (o0 + i < g.out && p < positions) {
					int e = (o0 + i) * positions + p;
					float v = activate(s.act, s.bias >= 0 ? acc[i][j] + params[s.bias + o0 + i] : acc[i][j]);
					memory[s.y + e] = v;
					values[e] = v;
				}
		}
	}
}

static __device__ __forceinline__ void poolForward(const Stage &s, float *values, int *largests) {
	Geometry g = s.g;
	int positions = g.positions();
	Quotient byPositions(positions), byCols(g.outCols);
	for (int e = threadX(); e < s.outputs(); e += THREADS) {
		int channel = byPositions.of(e), p = e - channel * positions, py = byCols.of(p), px = p - py * g.outCols;
		const float *plane = memory + s.x + channel * g.rows * g.cols;
		float v = 0;
		if (s.kind == MaxPoolStage) {
			int at = largest(g, plane, py, px);
			largests[e] = at;
			v = plane[at];
		} else {
			window(g, py, px, [&](int at) { v += plane[at]; });
			v /= (float)(g.windowRows * g.windowCols);
		}
		v = activate(s.act, v);
		memory[s.y + e] = v;
		values[e] = v;
	}
}

KERNEL __launch_bounds__(THREADS, 3) trunk_forward(const Run *run, int first, int capacity, TABLE, float *images, float *t,
                                                   const float *params, const Stage *stages, int count, int weights) {
	Table table = TABLE_ARGUMENTS;
	int b = blockX();
	if (b >= liveRows(run, first, capacity)) {
		if (threadX() == 0)
			t[b] = quietNaN();
		return;
	}
	int64 row = run->rows[first + b];
	float target = targets[row];
	if (threadX() == 0)
		t[b] = target;
	for (int j = threadX(); j < width; j += THREADS) {
		float v = table.read(row, j, target);
		memory[stages->x + j] = v;
		images[b * width + j] = v;
	}
#pragma unroll 1
	for (int i = 0; i < count; i++) {
		const Stage &s = stages[i];
		float *values = s.values + b * s.outputs();
		barrier(); // the stage before is done
		if (s.kind == ConvStage)
			convForward(s, params, memory + weights, values);
		else
			poolForward(s, values, s.kind == MaxPoolStage ? s.largest + b * s.outputs() : 0);
	}
}

// Gradients of the first stage, of which no input gradient is computed, lie position by position, those of others as values do.
static __device__ __forceinline__ int gradientAt(const Stage &s, bool begins, Quotient byPositions, int e) {
	if (!begins || s.kind != ConvStage)
		return s.dy + e;
	return s.dy + byPositions.rest(e) * 4 * quads(s.g.out) + byPositions.of(e);
}

// passOn leaves the gradient d at output e of a stage behind its activation.
static __device__ __forceinline__ void passOn(const Stage &s, bool begins, Quotient byPositions, int b, int e, float d) {
	if (s.act)
		d = passBack(s.act, s.values[b * s.outputs() + e], d);
	memory[gradientAt(s, begins, byPositions, e)] = d;
}

// Read is what all positions of a convolution read of an image: of every channel so many rows and columns, from the first position's corner,
// padding included. That is how a convolution's input lies on the way back.
struct Read {
	int rows, cols;
	__device__ __forceinline__ Read(const Geometry &g)
	    : rows((g.outRows - 1) * g.strideY + (g.windowRows - 1) * g.dilationY + 1),
	      cols((g.outCols - 1) * g.strideX + (g.windowCols - 1) * g.dilationX + 1) {}
};

static __device__ __forceinline__ void copyInput(const Stage &s, const float *input) {
	Geometry g = s.g;
	Read read(g);
	Quotient byPlane(read.rows * read.cols), byCols(read.cols);
	for (int e = threadX(); e < g.channels * read.rows * read.cols; e += THREADS) {
		int channel = byPlane.of(e), at = byPlane.rest(e), y = byCols.of(at) - g.top, x = byCols.rest(at) - g.left;
		memory[s.input + e] = g.inside(y, x) ? input[(channel * g.rows + y) * g.cols + x] : 0;
	}
}

// convStore gives an example's gradient: four filters by four columns in a thread, and a block of positions.
static __device__ __forceinline__ void convStore(const Stage &s, bool begins, float *kept, double *norm2, float *scratch) {
	Geometry g = s.g;
	int taps = g.taps(), width = s.bias >= 0 ? taps + 1 : taps, positions = g.positions(), stride = 4 * quads(g.out);
	float *dy = memory + s.dy;
	if (!begins) {
		dy = scratch;
		scratch += positions * stride;
		Quotient byStride(stride);
		for (int e = threadX(); e < positions * stride; e += THREADS) {
			int p = byStride.of(e), o = e - p * stride;
			dy[e] = o < g.out ? memory[s.dy + o * positions + p] : 0;
		}
		barrier();
	}
	Read read(g);
	int fours = (g.out + 3) / 4, across = (width + 3) / 4, blocks = (positions + POSITION_BLOCK - 1) / POSITION_BLOCK;
	Quotient byAcross(across), byFours(fours), byCols(g.outCols), byArea(g.windowRows * g.windowCols), byWindow(g.windowCols), byWidth(width);
	double squares = 0;
#pragma unroll 1
	for (int n = threadX(); n < across * fours * blocks; n += THREADS) {
		int tile = byAcross.of(n), k0 = (n - tile * across) * 4, block = byFours.of(tile), o0 = (tile - block * fours) * 4;
		int taps4[4];
#pragma unroll
		for (int j = 0; j < 4; j++) {
			int k = min(k0 + j, taps - 1), channel = byArea.of(k), at = byArea.rest(k);
			taps4[j] = (channel * read.rows + byWindow.of(at) * g.dilationY) * read.cols + byWindow.rest(at) * g.dilationX;
		}
		int p = block * POSITION_BLOCK, end = min(p + POSITION_BLOCK, positions), left = g.outCols - byCols.rest(p);
		int x = s.input + byCols.of(p) * g.strideY * read.cols + byCols.rest(p) * g.strideX, next = g.strideY * read.cols - g.outCols * g.strideX;
		float acc[4][4] = {};
#pragma unroll 1
		for (const float *d = dy + p * stride + o0; p < end; p++, d += stride) {
			float4 a = sharedFour(d);
#pragma unroll
			for (int j = 0; j < 4; j++) {
				float v = memory[x + taps4[j]];
				v = k0 + j < taps ? v : 1;
#pragma unroll
				for (int i = 0; i < 4; i++)
					acc[i][j] = fmaf(a[i], v, acc[i][j]);
			}
			left--;
			x += g.strideX + (left == 0 ? next : 0);
			left = left == 0 ? g.outCols : left;
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int j = 0; j < 4; j++) {
				int o = o0 + i, k = k0 + j;
				if (o >= g.out || k >= width)
					continue;
				if (blocks == 1) {
					kept[place(g, o, k)] = acc[i][j];
					squares = fma(acc[i][j], acc[i][j], squares);
				} else {
					scratch[(block * g.out + o) * width + k] = acc[i][j];
				}
			}
	}
	if (blocks > 1) {
		barrier();
		for (int e = threadX(); e < width * g.out; e += THREADS) {
			float sum = 0;
			for (int i = 0; i < blocks; i++)
				sum += scratch[i * width * g.out + e];
			kept[place(g, byWidth.of(e), byWidth.rest(e))] = sum;
			squares = fma(sum, sum, squares);
		}
	}
	squares = blockSum<THREADS>(squares, (double *)memory); // its first 2 KiB are for this
	if (threadX() == 0 && norm2)
		*norm2 = squares;
}

// Axis is what reads one pixel along an axis: the n taps first, first + step, … at positions start, start − back, ….
struct Axis {
	int n, first, step, start, back;
	__device__ __forceinline__ Axis(int pixel, int stride, int padding, int window, int dilation, int positions) {
		step = 1;
		while (step * dilation % stride != 0)
			step++;
		first = 0;
		while (first < step && (pixel + padding - first * dilation) % stride != 0)
			first++;
		back = step * dilation / stride;
		start = (pixel + padding - first * dilation) / stride;
		int end = first < step ? (window - first + step - 1) / step : 0, begin = 0;
		// Positions 0 … positions−1 are there.
		if (start >= positions)
			begin = (start - positions + back) / back;
		end = start < 0 ? 0 : min(end, start / back + 1);
		n = max(end - begin, 0);
		first += begin * step, start -= begin * back;
	}
};

// A thread has four channels of one pixel. Weights lie channel by channel.
static __device__ __forceinline__ void convInputGrad(const Stage &s, const Stage &before, bool begins, int b, const float *params, float *weights) {
	Geometry g = s.g;
	int area = g.windowRows * g.windowCols, stride = (g.channels + 3) / 4 * 4, octets = (g.channels + 7) / 8, pixels = g.rows * g.cols;
	const float *w = params + s.weight;
	Quotient byArea(area), byOctets(octets), byPixels(pixels), byCols(g.cols), byPositions(before.g.positions());
	for (int e = threadX(); e < g.out * octets * 8 * area; e += THREADS) {
		int octet = byArea.of(e / 8), k = e / 8 - octet * area, o = byOctets.of(octet), c = (octet - o * octets) * 8 + e % 8;
		if (c < stride)
			weights[(o * area + k) * stride + c] = c < g.channels ? w[(o * g.channels + c) * area + k] : 0;
	}
	barrier();
	for (int n = threadX(); n < stride / 4 * pixels; n += THREADS) {
		int c0 = byPixels.of(n) * 4, pixel = byPixels.rest(n);
		Axis y(byCols.of(pixel), g.strideY, g.top, g.windowRows, g.dilationY, g.outRows);
		Axis x(byCols.rest(pixel), g.strideX, g.left, g.windowCols, g.dilationX, g.outCols);
		float acc[4] = {};
#pragma unroll 1
		for (int o = 0; o < g.out; o++)
#pragma unroll 1
			for (int v = 0; v < y.n; v++) {
				const float *d = memory + s.dy + (o * g.outRows + y.start - v * y.back) * g.outCols + x.start;
				const float *at = weights + (o * area + (y.first + v * y.step) * g.windowCols + x.first) * stride + c0;
#pragma unroll 1
				for (int u = 0; u < x.n; u++, d -= x.back, at += x.step * stride) {
					float4 w = sharedFour(at);
#pragma unroll
					for (int i = 0; i < 4; i++)
						acc[i] = fmaf(w[i], *d, acc[i]);
				}
			}
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (c0 + i < g.channels)
				passOn(before, begins, byPositions, b, (c0 + i) * pixels + pixel, acc[i]);
	}
}

// readersBy is readers with a stride that is known once a stage.
static __device__ __forceinline__ Range readersBy(Quotient byStride, int pixel, int padding, int window, int count) {
	int at = pixel + padding, least = at - window + 1;
	return {least > 0 ? byStride.of(least + byStride.by - 1) : 0, min(byStride.of(at) + 1, count)};
}

static __device__ __forceinline__ void poolGrad(const Stage &s, const Stage &before, bool begins, int b) {
	Geometry g = s.g;
	int positions = g.positions(), pixels = g.rows * g.cols, dy = s.dy;
	bool mean = s.kind == AvgPoolStage;
	Quotient byPixels(pixels), byCols(g.cols), byPositions(before.g.positions()), byStrideY(g.strideY), byStrideX(g.strideX);
	for (int e = threadX(); e < g.image(); e += THREADS) {
		int at = byPixels.rest(e), first = byPixels.of(e) * positions;
		const int *largests = s.largest + b * s.outputs() + first;
		Range y = readersBy(byStrideY, byCols.of(at), g.top, g.windowRows, g.outRows);
		Range x = readersBy(byStrideX, byCols.rest(at), g.left, g.windowCols, g.outCols);
		float sum = 0;
#pragma unroll 1
		for (int i = y.lo; i < y.hi; i++)
#pragma unroll 1
			for (int j = x.lo; j < x.hi; j++) {
				int p = i * g.outCols + j;
				if (mean || largests[p] == at)
					sum += memory[dy + first + p];
			}
		if (mean)
			sum /= (float)(g.windowRows * g.windowCols);
		passOn(before, begins, byPositions, b, e, sum);
	}
}

KERNEL __launch_bounds__(THREADS, 3) trunk_backward(const Run *run, int first, int capacity, const float *images, const float *delta,
                                                    int activated, const float *params, float *kept, int stride, const Stage *stages,
                                                    int count, int scratch) {
	int b = blockX();
	if (b >= liveRows(run, first, capacity))
		return;
	kept += (int64)b * stride;
#pragma unroll 1
	for (int i = 0; i < count; i++) {
		const Stage s = stages[i];
		if (s.kind != ConvStage)
			continue;
		copyInput(s, (i == 0 ? images : stages[i - 1].values) + b * s.g.image());
		int room = 4 * quads(s.g.out);
		Quotient byRoom(room);
		for (int e = threadX(); i == 0 && e < s.g.positions() * room; e += THREADS)
			if (byRoom.rest(e) >= s.g.out)
				memory[s.dy + e] = 0;
	}
	const Stage last = stages[count - 1];
	Quotient byPositions(last.g.positions());
	for (int e = threadX(); e < last.outputs(); e += THREADS) {
		float d = delta[b * last.outputs() + e];
		if (activated)
			passOn(last, count == 1, byPositions, b, e, d);
		else
			memory[gradientAt(last, count == 1, byPositions, e)] = d;
	}
	barrier();
#pragma unroll 1
	for (int i = count - 1; i >= 0; i--) {
		const Stage s = stages[i], before = stages[max(i - 1, 0)];
		if (s.kind == ConvStage) {
			convStore(s, i == 0, kept + s.kept, s.norm2 ? s.norm2 + b : 0, memory + scratch);
			if (i == 0)
				return;
			// Whose barriers let it write to scratch again.
			convInputGrad(s, before, i == 1, b, params, memory + scratch);
		} else if (i > 0) {
			poolGrad(s, before, i == 1, b);
		}
		barrier();
	}
}
