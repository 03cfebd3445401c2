//go:build gocuda && cgo && linux

/* cuBLAS, opened when it is asked for and not before: it takes hundreds of megabytes. */
#include "cublas.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define BLAS(name, symbol, params, args) static int (*bound_##name) params;
BLAS_CALLS
#undef BLAS

#define BLAS(name, symbol, params, args) \
	int blas_##name params { return bound_##name ? bound_##name args : BLAS_NOT_INITIALIZED; }
BLAS_CALLS
#undef BLAS

static const struct {
	const char *name, *symbol;
	void *place;
} calls[] = {
#define BLAS(name, symbol, params, args) {#name, #symbol, &bound_##name},
	BLAS_CALLS
#undef BLAS
};

enum { ncalls = sizeof calls / sizeof *calls };

/* bind takes all calls of a library or none, and says which is missing. */
static const char *bind(void *lib)
{
	void *f[ncalls];
	for (int i = 0; i < ncalls; i++)
		if (!(f[i] = dlsym(lib, calls[i].symbol)))
			return calls[i].symbol;
	for (int i = 0; i < ncalls; i++)
		memcpy(calls[i].place, &f[i], sizeof f[i]);
	return NULL;
}

int blas_bind(int major, char *why, size_t size)
{
	size_t used = 0;
	for (int version = 13; version >= 11; version--) {
		char name[32], wrong[400];
		snprintf(name, sizeof name, "libcublas.so.%d", version);
		if (version > major) {
			snprintf(wrong, sizeof wrong, "%s: the driver is for CUDA up to %d", name, major);
		} else {
			void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
			const char *missing = lib ? bind(lib) : NULL;
			if (lib && !missing)
				return 0;
			if (lib) {
				snprintf(wrong, sizeof wrong, "%s: it lacks %s", name, missing);
				dlclose(lib);
			} else {
				snprintf(wrong, sizeof wrong, "%s", dlerror());
			}
		}
		int n = snprintf(why + used, size - used, "%s%s", used ? "; " : "", wrong);
		if (n > 0)
			used = used + (size_t)n < size ? used + (size_t)n : size - 1;
	}
	return BLAS_NOT_INITIALIZED;
}

int blas_replace(const char *name, void *function)
{
	for (int i = 0; i < ncalls; i++) {
		if (!strcmp(calls[i].name, name)) {
			memcpy(calls[i].place, &function, sizeof function);
			return 1;
		}
	}
	return 0;
}

static void *address(unsigned long long p) { return (void *)(uintptr_t)p; }

int blas_gemm(void *handle, int ta, int tb, int m, int n, int k, unsigned long long a, int lda, long long nexta, unsigned long long b, int ldb,
              long long nextb, float beta, unsigned long long c, int ldc, long long nextc, int batch)
{
	const float one = 1;
	if (batch > 0)
		return blas_GemmStridedBatchedEx(handle, ta, tb, m, n, k, &one, address(a), BLAS_REAL_32F, lda, nexta, address(b), BLAS_REAL_32F, ldb, nextb,
		                                 &beta, address(c), BLAS_REAL_32F, ldc, nextc, batch, BLAS_COMPUTE_32F_PEDANTIC, BLAS_GEMM_DEFAULT);
	return blas_GemmEx(handle, ta, tb, m, n, k, &one, address(a), BLAS_REAL_32F, lda, address(b), BLAS_REAL_32F, ldb, &beta, address(c),
	                   BLAS_REAL_32F, ldc, BLAS_COMPUTE_32F_PEDANTIC, BLAS_GEMM_DEFAULT);
}
