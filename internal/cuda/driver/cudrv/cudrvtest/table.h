/* The functions that stand in for libcuda's, by number; a name is NULL past the last. */
const char *cudrvtest_name(int i);
void *cudrvtest_function(int i);

/* Likewise for cuBLAS. */
const char *cudrvtest_blas_name(int i);
void *cudrvtest_blas_function(int i);

/* And for NCCL. */
const char *cudrvtest_nccl_name(int i);
void *cudrvtest_nccl_function(int i);
