// The gather: what a network reads of a table's rows. Every kernel that reads a table does so by a Table. The forms of its
// values have the numbers of table.go, and its maps stand in the order of maps.go: each has a file of its own with a struct,
// its parameters and its arguments. read and readFour apply it: to j, where it moves values, or to v, where it changes them.
#pragma once
#include "scaled.cuh"
#include "tile.cuh"

enum Form { Bytes, Floats, Halves };

typedef uint8 Bytes4 __attribute__((ext_vector_type(4)));
typedef _Float16 Halves4 __attribute__((ext_vector_type(4)));

// TABLE are a kernel's parameters for a table, and TABLE_ARGUMENTS what makes a Table of them.
#define TABLE const void *inputs, const float *targets, int form, int width, MAPS
#define TABLE_ARGUMENTS Table{inputs, targets, form, width, MAP_ARGUMENTS}
#define MAPS SCALED
#define MAP_ARGUMENTS SCALED_ARGUMENTS

struct Table {
	const void *values;
	const float *targets;
	int form, width;
	Scaled scaled; // of bytes alone, as they are read

	__device__ __forceinline__ float value(int64 at) const {
		switch (form) {
		case Floats:
			return ((const float *)values)[at];
		case Halves:
			return (float)((const _Float16 *)values)[at];
		default:
			return scaled(((const uint8 *)values)[at]);
		}
	}

	// fourValues are neighbors at a multiple of four, read at once.
	__device__ __forceinline__ float4 fourValues(int64 at) const {
		switch (form) {
		case Floats:
			return four((const float *)values + at);
		case Halves:
			return __builtin_convertvector(*(const Halves4 *)((const _Float16 *)values + at), float4);
		default: {
			Bytes4 x = *(const Bytes4 *)((const uint8 *)values + at);
			return float4{scaled(x.x), scaled(x.y), scaled(x.z), scaled(x.w)};
		}
		}
	}

	// read is what a network reads of a row with a target: zeros where that is NaN. The value is loaded in any case, so that
	// it does not wait for the target.
	__device__ __forceinline__ float read(int64 row, int j, float target) const {
		float v = value(row * width + j);
		return target == target ? v : 0;
	}

	// readFour is read of neighbors at a multiple of four, in a row whose width is one. No value is loaded of a row that is not
	// live, which has no target.
	__device__ __forceinline__ float4 readFour(bool live, int64 row, int j, float target) const {
		float4 v = {0, 0, 0, 0};
		if (live)
			v = fourValues(row * width + j);
		return target == target ? v : float4{0, 0, 0, 0};
	}
};
