//go:build gocuda && cgo && linux

/*
 * Every driver call that gorgonia.org/cu names, defined here and passed on to
 * libcuda.so.1 once that is open. So the binary starts where there is no driver.
 *
 * cu calls cuInit while the program starts and ends the process if it fails.
 * Here it does nothing: opening the driver takes a large part of a second on a machine that
 * has one, and most commands do not want it. cudrv_bind makes the real call.
 */
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define CALL(name, symbol, params, args) static CUresult (*bound_##name) params;
#include "calls.h"
#undef CALL

static int bound;

static CUresult unbound(void)
{
	return bound ? CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND : CUDA_ERROR_NO_DEVICE;
}

CUresult cuInit(unsigned flags)
{
	(void)flags;
	return CUDA_SUCCESS;
}

#define CALL(name, symbol, params, args) \
	CUresult name params { return bound_##name ? bound_##name args : unbound(); }
#include "calls.h"
#undef CALL

/* A pointer to a function cannot be cast to void ** in C. */
static const struct {
	const char *name, *symbol;
	void *place;
} calls[] = {
#define CALL(name, symbol, params, args) {#name, #symbol, &bound_##name},
#include "calls.h"
#undef CALL
};

enum { ncalls = sizeof calls / sizeof *calls };

int cudrv_bind(char *why, size_t size)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(why, size, "%s", dlerror());
		return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
	}
	for (int i = 0; i < ncalls; i++) {
		void *f = dlsym(lib, calls[i].symbol);
		memcpy(calls[i].place, &f, sizeof f);
	}
	bound = 1;
	CUresult (*init)(unsigned) = (CUresult (*)(unsigned))dlsym(lib, "cuInit");
	CUresult r = init ? init(0) : unbound();
	if (r != CUDA_SUCCESS) {
		const char *name = "unknown error";
		cuGetErrorName(r, &name);
		snprintf(why, size, "cuInit of libcuda.so.1: %s (%d)", name, r);
	}
	return r;
}

int cudrv_replace(const char *name, void *function)
{
	for (int i = 0; i < ncalls; i++) {
		if (!strcmp(calls[i].name, name)) {
			memcpy(calls[i].place, &function, sizeof function);
			bound = 1;
			return 1;
		}
	}
	return 0;
}
