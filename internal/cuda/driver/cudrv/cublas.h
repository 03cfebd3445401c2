/*
 * The calls of cuBLAS that this package makes, from the library's reference. Its
 * names are not defined here, where its own might be mistaken for these: every call goes
 * through blas_ and its name. Enumerations are ints.
 */
#include <stddef.h>

#define BLAS_CALLS \
	BLAS(GetProperty, cublasGetProperty, (int type, int *value), (type, value)) \
	BLAS(Create, cublasCreate_v2, (void **handle), (handle)) \
	BLAS(Destroy, cublasDestroy_v2, (void *handle), (handle)) \
	BLAS(SetStream, cublasSetStream_v2, (void *handle, void *stream), (handle, stream)) \
	BLAS(SetWorkspace, cublasSetWorkspace_v2, (void *handle, void *workspace, size_t bytes), (handle, workspace, bytes)) \
	BLAS(SetMathMode, cublasSetMathMode, (void *handle, int mode), (handle, mode)) \
	BLAS(SetAtomicsMode, cublasSetAtomicsMode, (void *handle, int mode), (handle, mode)) \
	BLAS(GemmEx, cublasGemmEx, \
	     (void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int typea, int lda, const void *b, \
	      int typeb, int ldb, const void *beta, void *c, int typec, int ldc, int compute, int algorithm), \
	     (handle, ta, tb, m, n, k, alpha, a, typea, lda, b, typeb, ldb, beta, c, typec, ldc, compute, algorithm)) \
	BLAS(GemmStridedBatchedEx, cublasGemmStridedBatchedEx, \
	     (void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int typea, int lda, long long nexta, \
	      const void *b, int typeb, int ldb, long long nextb, const void *beta, void *c, int typec, int ldc, long long nextc, int batch, \
	      int compute, int algorithm), \
	     (handle, ta, tb, m, n, k, alpha, a, typea, lda, nexta, b, typeb, ldb, nextb, beta, c, typec, ldc, nextc, batch, compute, algorithm))

#define BLAS(name, symbol, params, args) int blas_##name params;
BLAS_CALLS
#undef BLAS

enum {
	BLAS_NOT_INITIALIZED = 1,
	BLAS_PROPERTY_MAJOR = 0, BLAS_PROPERTY_MINOR = 1, BLAS_PROPERTY_PATCH = 2,
	BLAS_PEDANTIC_MATH = 2,
	BLAS_ATOMICS_NOT_ALLOWED = 0,
	BLAS_REAL_32F = 0,
	BLAS_COMPUTE_32F_PEDANTIC = 69,
	BLAS_GEMM_DEFAULT = -1,
};

/* Opens the first library whose major version is at most this; 0, or what is wrong with each in why. */
int blas_bind(int major, char *why, size_t size);

/* Like cudrv_replace. */
int blas_replace(const char *name, void *function);

/* One product, or a batch where batch > 0; op(A)·op(B) + beta·C by columns. */
int blas_gemm(void *handle, int ta, int tb, int m, int n, int k, unsigned long long a, int lda, long long nexta, unsigned long long b, int ldb,
              long long nextb, float beta, unsigned long long c, int ldc, long long nextc, int batch);
