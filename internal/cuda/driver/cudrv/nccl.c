//go:build gocuda && cgo && linux

/* NCCL, opened when several processes want it. */
#include "nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define NCCL(name, params, args) static int (*bound_##name) params;
NCCL_CALLS
#undef NCCL

#define NCCL(name, params, args) \
	int nccl_##name params { return bound_##name ? bound_##name args : NCCL_SYSTEM_ERROR; }
NCCL_CALLS
#undef NCCL

static const struct {
	const char *name, *symbol;
	void *place;
} calls[] = {
#define NCCL(name, params, args) {#name, "nccl" #name, &bound_##name},
	NCCL_CALLS
#undef NCCL
};

enum { ncalls = sizeof calls / sizeof *calls };

/* It has a name of its own kind, and some versions lack it. */
static const char *(*last_error)(void *rank);

const char *nccl_last_error(void)
{
	const char *text = last_error ? last_error(NULL) : NULL;
	return text ? text : "";
}

int nccl_bind(char *why, size_t size)
{
	void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(why, size, "%s", dlerror());
		return NCCL_SYSTEM_ERROR;
	}
	void *f[ncalls];
	for (int i = 0; i < ncalls; i++) {
		if (!(f[i] = dlsym(lib, calls[i].symbol))) {
			snprintf(why, size, "libnccl.so.2: it lacks %s, which version 2.14 has", calls[i].symbol);
			dlclose(lib);
			return NCCL_SYSTEM_ERROR;
		}
	}
	for (int i = 0; i < ncalls; i++)
		memcpy(calls[i].place, &f[i], sizeof f[i]);
	void *text = dlsym(lib, "ncclGetLastError");
	memcpy(&last_error, &text, sizeof text);
	return NCCL_SUCCESS;
}

int nccl_replace(const char *name, void *function)
{
	for (int i = 0; i < ncalls; i++) {
		if (!strcmp(calls[i].name, name)) {
			memcpy(calls[i].place, &function, sizeof function);
			return 1;
		}
	}
	return 0;
}

int nccl_join(void **rank, int size, const void *id, int number)
{
	nccl_config config = {.size = sizeof config, .magic = 0xcafebeef, .version = 21400, .blocking = 0};
	nccl_id name;
	memcpy(&name, id, sizeof name);
	return nccl_CommInitRankConfig(rank, size, name, number, &config);
}

int nccl_name(void *id)
{
	nccl_id name;
	int r = nccl_GetUniqueId(&name);
	if (r == NCCL_SUCCESS)
		memcpy(id, &name, sizeof name);
	return r;
}
