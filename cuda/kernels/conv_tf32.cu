#include "mma.cuh"

using Precision = TF32;

#include "conv_mma.cuh"
