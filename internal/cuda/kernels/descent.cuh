// What the rules of updates share.
#pragma once
#include "run.cuh"

// gradient is what a rule sees.
static __device__ __forceinline__ float gradient(const float *s, float g, float p) { return fmaf(s[slot::Scale], g, s[slot::L2] * p); }

// descended is a parameter behind a step of SGD.
static __device__ __forceinline__ float descended(const float *s, float g, float p) { return fmaf(-s[slot::Rate], gradient(s, g, p), p); }
