#include "mma.cuh"

using Precision = TF32;

#include "gemm_mma.cuh"
