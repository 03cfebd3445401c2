// The sums of densesum.cuh in tf32.
#include "pixels.cuh"
typedef TF32 Precision;
#include "densesum.cuh"
