#include "pixels.cuh"

using Element = BF16;

#include "gradients.cuh"
