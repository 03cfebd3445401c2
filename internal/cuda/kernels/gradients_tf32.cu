#include "pixels.cuh"

using Element = TF32;

#include "gradients.cuh"
