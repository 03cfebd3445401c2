// The products of pixels.cuh in bf16.
#include "pixels.cuh"
typedef BF16 Precision;
#include "products.cuh"
