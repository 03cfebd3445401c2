// ir.Crop of a view.
#pragma once
#include "image.cuh"

// reflected is ir.Reflected: i is less than n beyond the border.
static __device__ __forceinline__ int reflected(int i, int n) {
	i = i < 0 ? -i : i;
	return i >= n ? 2 * (n - 1) - i : i;
}

// shift takes 15 digits of a word.
static __device__ __forceinline__ int shift(uint32 word, int margin) {
	return (int)((word & 0x7fff) * (uint32)(2 * margin + 1) >> 15) - margin;
}

static __device__ __forceinline__ Pixel cropped(Pixel p, Image of, int margin, uint32 word) {
	return {reflected(p.row + shift(word, margin), of.rows), reflected(p.column + shift(word >> 15, margin), of.columns)};
}
