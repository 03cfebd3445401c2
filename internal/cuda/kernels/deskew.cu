#include "lanes.cuh"
#include "run.cuh"

static constexpr int WARPS = 8; // of a block; each has an image
static constexpr double FLOOR = .1, LEAST = 1e-6; // of package ir

KERNEL __launch_bounds__(32 * WARPS) deskew(const Run *run, int first, int capacity, const float *x, float *y, int rows, int cols, int size) {
	int b = blockX() * WARPS + threadX() / 32;
	if (b >= liveRows(run, first, capacity))
		return;
	x += b * size, y += b * size;
	double middleRow = (double)(rows - 1) / 2, middleCol = (double)(cols - 1) / 2;
	double mass = 0, up = 0, across = 0, square = 0, product = 0;
	for (int i = ownLane(); i < size; i += 32) {
		double v = x[i], row = (double)(i / cols % rows) - middleRow, col = (double)(i % cols) - middleCol;
		mass += v;
		up = fma(v, row, up);
		across = fma(v, col, across);
		square = fma(v * row, row, square);
		product = fma(v * row, col, product);
	}
	mass = laneSum(mass), up = laneSum(up), across = laneSum(across), square = laneSum(square), product = laneSum(product);
	mass = mass > LEAST || mass != mass ? mass : LEAST;
	double middle = up / mass, slant = (product - middle * across) / (square - middle * up + FLOOR * mass);
	for (int i = ownLane(); i < size; i += 32) {
		double by = slant * ((double)(i / cols % rows) - middleRow - middle), whole = __builtin_floor(by);
		float share = (float)(by - whole);
		// Beyond the ends of a line there is nothing, however far.
		double most = cols + 1;
		int col = i % cols, from = col + (int)(whole > most ? most : whole < -most ? -most : whole);
		const float *line = x + (i - col);
		float left = (unsigned)from < (unsigned)cols ? line[from] : 0, right = (unsigned)(from + 1) < (unsigned)cols ? line[from + 1] : 0;
		y[i] = fmaf(share, right, (1 - share) * left);
	}
}
