// ir.Scaled of a byte.
#pragma once
#include "common.cuh"

#define SCALED float scale, float offset
#define SCALED_ARGUMENTS Scaled{scale, offset}

struct Scaled {
	float scale, offset;
	__device__ __forceinline__ float operator()(uint8 b) const { return fmaf(b, scale, offset); }
};
