// Package cudrv is the installed CUDA driver as a driver.Driver, through
// gorgonia.org/cu. On Linux with the build tag gocuda and a C compiler it is real;
// otherwise Open says how to build it.
//
// The binary names no CUDA library. cu compiles against the reduced cuda.h beside
// this file, its -lcuda is satisfied by the empty archive in stub, and shim.c
// defines every call and passes it on to libcuda.so.1, of CUDA 11.4 or newer,
// which Open looks for. Only an environment variable reaches the compilation
// of another module's package, so a build needs
//
//	CGO_CFLAGS="-O2 -g -I$PWD/internal/cuda/driver/cudrv" \
//	CGO_LDFLAGS="-O2 -g -L$PWD/internal/cuda/driver/cudrv/stub" go build -tags gocuda ./cmd/privgrad
//
// which is what make build runs. docs/internals/gpu.md says more.
package cudrv
