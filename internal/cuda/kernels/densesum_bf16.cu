// The sums of densesum.cuh in bf16.
#include "pixels.cuh"
typedef BF16 Precision;
#include "densesum.cuh"
