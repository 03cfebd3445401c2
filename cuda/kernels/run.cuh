// What differs between runs of a step, in device memory: launch.go has the same layout.
#pragma once
#include "common.cuh"

struct Run {
	int live; // rows
	int unused;
	uint64 draw;
	float scalars[24];
	float candidates[32];
	double thresholds[32];
	int rows[1]; // capacity of them
};

static_assert(__builtin_offsetof(Run, draw) == 8);
static_assert(__builtin_offsetof(Run, scalars) == 16);
static_assert(__builtin_offsetof(Run, candidates) == 112);
static_assert(__builtin_offsetof(Run, thresholds) == 240);
static_assert(__builtin_offsetof(Run, rows) == 496);

// liveRows counts the live rows of the batch first … first+capacity−1: they come first in it.
static __device__ __forceinline__ int liveRows(const Run *run, int first, int capacity) { return max(0, min(run->live - first, capacity)); }
