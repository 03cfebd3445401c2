// The maps that a random word draws for a view of an image: where the view's pixel comes from. Kinds have the numbers of
// ir.MapKind; drawn.go lists them.
#pragma once
#include "crop.cuh"
#include "flip.cuh"

// DRAWN are a kernel's parameters for the maps of views, in their order, with the number of each, and the sides of images.
#define DRAWN int kind0, int number0, int kind1, int number1, int rows, int columns
#define DRAWN_ARGUMENTS Drawn{{kind0, kind1}, {number0, number1}, {rows, columns}}

struct Drawn {
	enum { None, Flip, Crop };
	int kinds[2], numbers[2];
	Image image;

	// from is the value of a record that is value j of the view of a word. The last map saw what the ones before it had made.
	__device__ __forceinline__ int from(int j, uint32 word) const {
		if (kinds[0] == None) // records may be no images
			return j;
		int line = j / image.columns, channel = line / image.rows;
		Pixel p = {line - channel * image.rows, j - line * image.columns};
#pragma unroll
		for (int i = 1; i >= 0; i--)
			switch (kinds[i]) {
			case Flip:
				p = flipped(p, image, word);
				break;
			case Crop:
				p = cropped(p, image, numbers[i], word);
				break;
			}
		return (channel * image.rows + p.row) * image.columns + p.column;
	}
};
