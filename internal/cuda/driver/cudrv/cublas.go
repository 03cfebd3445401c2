//go:build gocuda && cgo && linux

package cudrv

// #include "cublas.h"
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

var (
	_ driver.BLAS        = library{}
	_ driver.BLASContext = (*context)(nil)
)

// openBLAS makes cuBLAS reachable; a variable for the reason that open is one.
var openBLAS = sync.OnceValue(func() error {
	v, err := library{}.Version()
	if err != nil {
		return err
	}
	var why [1500]C.char
	if C.blas_bind(C.int(v/1000), &why[0], C.size_t(len(why))) != 0 {
		return errors.New(C.GoString(&why[0]))
	}
	return nil
})

// ReplaceBLAS is Replace for a call of cuBLAS, named without cublas.
func ReplaceBLAS(name string, function unsafe.Pointer) error {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	if C.blas_replace(c, function) == 0 {
		return fmt.Errorf("no call of cuBLAS is named %s", name)
	}
	openBLAS = func() error { return nil }
	return nil
}

var statuses = map[C.int]string{
	1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR", 13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR",
	15: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
}

func status(call string, s C.int) error {
	if s == 0 {
		return nil
	}
	name := statuses[s]
	if name == "" {
		return failure("cublas"+call, int(s)) // a driver's code comes through
	}
	return &driver.Error{Call: "cublas" + call, Code: int(s), Name: "CUBLAS_STATUS_" + name}
}

// BLAS opens the library, which stays open.
func (library) BLAS() (int, error) {
	if err := openBLAS(); err != nil {
		return 0, err
	}
	version := 0
	for _, property := range []C.int{C.BLAS_PROPERTY_MAJOR, C.BLAS_PROPERTY_MINOR, C.BLAS_PROPERTY_PATCH} {
		var v C.int
		if err := status("GetProperty", C.blas_GetProperty(property, &v)); err != nil {
			return 0, err
		}
		version = 100*version + int(v)
	}
	return version, nil
}

// NewProducts sets the workspace after the stream, which takes it away.
func (c *context) NewProducts(on driver.Stream, workspace driver.Ptr, bytes int64) (driver.Products, error) {
	if err := c.enter("cublasCreate"); err != nil {
		return nil, err
	}
	s, ok := on.(*stream)
	if !ok || s.context != c {
		return nil, fmt.Errorf("cannot multiply on %T of this driver", on)
	}
	var h unsafe.Pointer
	if err := status("Create", C.blas_Create(&h)); err != nil {
		return nil, err
	}
	drop := func() error { return status("Destroy", C.blas_Destroy(h)) }
	for _, r := range []struct {
		call string
		set  func() C.int
	}{
		{"SetStream", func() C.int { return C.blas_SetStream(h, unsafe.Pointer(s.handle)) }},
		{"SetWorkspace", func() C.int { return C.blas_SetWorkspace(h, pointer(workspace), C.size_t(bytes)) }},
		{"SetMathMode", func() C.int { return C.blas_SetMathMode(h, C.BLAS_PEDANTIC_MATH) }},
		{"SetAtomicsMode", func() C.int { return C.blas_SetAtomicsMode(h, C.BLAS_ATOMICS_NOT_ALLOWED) }},
	} {
		if err := status(r.call, r.set()); err != nil {
			return nil, errors.Join(err, drop())
		}
	}
	return &products{c.hold("cublasDestroy", drop), h}, nil
}

// pointer is a device address as C has it.
func pointer(p driver.Ptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

type products struct {
	*holding
	handle unsafe.Pointer
}

func (p *products) Multiply(x driver.Product) error {
	call := "GemmEx"
	if x.Batch > 0 {
		call = "GemmStridedBatchedEx"
	}
	if err := p.context.enter("cublas" + call); err != nil {
		return err
	}
	if err := x.Check(); err != nil {
		return err
	}
	for _, size := range []int{x.M, x.N, x.K, x.RowA, x.RowB, x.RowC, x.Batch} {
		if size > math.MaxInt32 {
			return fmt.Errorf("a matrix of %d rows or columns is more than cuBLAS takes", size)
		}
	}
	flag := func(b bool) (i C.int) {
		if b {
			i = 1
		}
		return i
	}
	c := x.ByColumns()
	return status(call, C.blas_gemm(p.handle, flag(c.TransA), flag(c.TransB), C.int(c.M), C.int(c.N), C.int(c.K),
		C.ulonglong(c.A), C.int(c.RowA), C.longlong(c.NextA), C.ulonglong(c.B), C.int(c.RowB), C.longlong(c.NextB),
		C.float(flag(c.Add)), C.ulonglong(c.C), C.int(c.RowC), C.longlong(c.NextC), C.int(c.Batch)))
}
