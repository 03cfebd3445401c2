// The products of pixels.cuh in tf32.
#include "pixels.cuh"
typedef TF32 Precision;
#include "products.cuh"
