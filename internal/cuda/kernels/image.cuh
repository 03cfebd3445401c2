// A channel of an image.
#pragma once
#include "common.cuh"

struct Image {
	int rows, columns;
};

struct Pixel {
	int row, column;
};
