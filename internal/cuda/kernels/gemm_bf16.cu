#include "mma.cuh"

using Precision = BF16;

#include "gemm_mma.cuh"
