// Losses and the targets that they accept, as package plan numbers and defines them.
#pragma once
#include "common.cuh"

enum Loss { SoftmaxCrossEntropy, Logistic, Hinge, HuberHinge, Huber };

static __device__ __forceinline__ bool finite(float x) { return fabsf(x) <= 0x1.fffffep127f; }
static __device__ __forceinline__ bool finite(double x) { return fabs(x) <= 0x1.fffffffffffffp1023; }

static __device__ __forceinline__ bool accepted(int loss, int outputs, float target) {
	switch (loss) {
	case SoftmaxCrossEntropy:
		return target >= 0 && target < (float)outputs && target == (float)(int)target;
	case Huber:
		return finite(target);
	default:
		return target == 1 || target == -1;
	}
}
