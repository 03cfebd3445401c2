/* What Go sees of the shim. */
#include "cuda.h"

/* Opens libcuda.so.1, once; 0, or a code with the reason in why. */
int cudrv_bind(char *why, size_t size);

/* Puts a function in the place of the driver's, for tests; 0 where no call has that name. */
int cudrv_replace(const char *name, void *function);
