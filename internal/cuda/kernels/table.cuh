// Tables, and the forms that their values have: table.go numbers them alike.
#pragma once
#include "common.cuh"

enum Form { Bytes, Floats, Halves };

struct Table {
	const void *values;
	const float *targets;
	int form, width;
	float scale, offset; // of bytes

	__device__ __forceinline__ float value(int64 at) const {
		switch (form) {
		case Floats:
			return ((const float *)values)[at];
		case Halves:
			return (float)((const _Float16 *)values)[at];
		default:
			return fmaf(((const uint8 *)values)[at], scale, offset);
		}
	}

	// read is what a network reads of a row with a target: zeros where that is NaN. The value is loaded in any case, so that
	// it does not wait for the target.
	__device__ __forceinline__ float read(int64 row, int j, float target) const {
		float v = value(row * width + j);
		return target == target ? v : 0;
	}
};
