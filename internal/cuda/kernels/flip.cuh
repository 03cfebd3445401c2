// ir.Flip of a view.
#pragma once
#include "image.cuh"

static __device__ __forceinline__ Pixel flipped(Pixel p, Image of, uint32 word) {
	return {p.row, word >> 31 ? of.columns - 1 - p.column : p.column};
}
