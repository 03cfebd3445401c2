// What element by element kernels share.
#pragma once
#include "run.cuh"

// each does f(i) for element i of the live examples.
template <class F> static __device__ __forceinline__ void each(const Run *run, int first, int capacity, int size, F f) {
	int i = index();
	if (i < liveRows(run, first, capacity) * size)
		f(i);
}

static __device__ __forceinline__ void put(float *to, float x, int add) { *to = add ? *to + x : x; }
