// What differs between runs of a step, in device memory: launch.go has the same layout.
#pragma once
#include "common.cuh"

// slot numbers scalars as device.Slot does.
namespace slot {
enum { Clip, NoiseStd, NoiseStep, Scale, Rate, L2, Momentum, Beta1, Beta2, Bias1, Bias2, Epsilon, Variance, Floor, Blend, CountStd, CountStep,
       Along, ThresholdStd, QueryStd, NormStd, NormStep, Gain, Context };
}

struct Run {
	int live; // rows
	int unused;
	uint64 draw;
	float scalars[28];
	float candidates[32];
	int rows[1]; // capacity of them
};

static_assert(__builtin_offsetof(Run, draw) == 8);
static_assert(__builtin_offsetof(Run, scalars) == 16);
static_assert(__builtin_offsetof(Run, candidates) == 128);
static_assert(__builtin_offsetof(Run, rows) == 256);

// liveRows counts the live rows of the batch first … first+capacity−1: they come first in it.
static __device__ __forceinline__ int liveRows(const Run *run, int first, int capacity) { return max(0, min(run->live - first, capacity)); }

// wordOf is the random word of a view, in a run that brings words: they lie behind the rows that are live.
static __device__ __forceinline__ uint32 wordOf(const Run *run, int view) { return (uint32)run->rows[run->live + view]; }
