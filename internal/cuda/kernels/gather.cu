#include "run.cuh"
#include "table.cuh"
#include "tile.cuh"

typedef uint8 Bytes4 __attribute__((ext_vector_type(4)));
typedef _Float16 Halves4 __attribute__((ext_vector_type(4)));

// fourOf reads neighbors at a multiple of four at once.
static __device__ __forceinline__ float4 fourOf(const Table &t, int64 at) {
	switch (t.form) {
	case Floats:
		return four((const float *)t.values + at);
	case Halves:
		return __builtin_convertvector(*(const Halves4 *)((const _Float16 *)t.values + at), float4);
	default: {
		Bytes4 x = *(const Bytes4 *)((const uint8 *)t.values + at);
		return float4{fmaf(x.x, t.scale, t.offset), fmaf(x.y, t.scale, t.offset), fmaf(x.z, t.scale, t.offset), fmaf(x.w, t.scale, t.offset)};
	}
	}
}

KERNEL __launch_bounds__(256) gather(const Run *run, int first, int capacity, const void *values, const float *targets, int form, int width,
                                     float scale, float offset, float *x, float *t) {
	Table table = {values, targets, form, width, scale, offset};
	int b = blockX(), j = 4 * (blockY() * threadsX() + threadX());
	bool live = b < liveRows(run, first, capacity);
	int64 row = live ? run->rows[first + b] : 0;
	float target = live ? targets[row] : quietNaN();
	x += (int64)b * width + j;
	if (width % 4 == 0 && j < width) {
		float4 v = {0, 0, 0, 0};
		if (live)
			v = fourOf(table, row * width + j); // which does not wait for the target
		*(float4 *)x = target == target ? v : float4{0, 0, 0, 0};
	} else {
		for (int k = 0; k < min(4, width - j); k++)
			x[k] = live ? table.read(row, j + k, target) : 0;
	}
	if (j == 0)
		t[b] = target;
}
