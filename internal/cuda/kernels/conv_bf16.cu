#include "mma.cuh"

using Precision = BF16;

#include "conv_mma.cuh"
