//go:build gocuda && cgo && linux

package cudrvtest

// #include <stddef.h>
import "C"

import (
	"errors"
	"unsafe"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
)

// Statuses and enumerations of cuBLAS, from its reference.
const (
	notInitialized = 1
	invalidValue   = 7
	internalError  = 14

	real32F, compute32FPedantic, gemmDefault = 0, 69, -1
)

func blasStatus(err error) C.int {
	if err == nil {
		return 0
	}
	var e *driver.Error
	if errors.As(err, &e) {
		return C.int(e.Code)
	}
	return internalError
}

func blasWith(h unsafe.Pointer, f func(*fake.Handle) error) C.int {
	o, ok := handles[h].(*fake.Handle)
	if !ok {
		strays++
		return notInitialized
	}
	return blasStatus(f(o))
}

//export fakeblasGetProperty
func fakeblasGetProperty(property C.int, value *C.int) C.int {
	v, err := installed.BLAS()
	*value = C.int([]int{v / 10000, v / 100 % 100, v % 100}[property])
	return blasStatus(err)
}

//export fakeblasCreate
func fakeblasCreate(h *unsafe.Pointer) C.int {
	if current == nil {
		return notInitialized
	}
	return blasStatus(handing(h)(current.(*fake.Context).NewHandle()))
}

//export fakeblasDestroy
func fakeblasDestroy(h unsafe.Pointer) C.int {
	if _, ok := handles[h].(*fake.Handle); !ok {
		strays++
		return notInitialized
	}
	return C.int(drop(h, (*fake.Handle).Close))
}

//export fakeblasSetStream
func fakeblasSetStream(h, stream unsafe.Pointer) C.int {
	return blasWith(h, func(h *fake.Handle) error {
		s, ok := handles[stream].(*fake.Stream)
		if !ok {
			return &driver.Error{Code: invalidValue}
		}
		return h.SetStream(s)
	})
}

//export fakeblasSetWorkspace
func fakeblasSetWorkspace(h, workspace unsafe.Pointer, n C.size_t) C.int {
	return blasWith(h, func(h *fake.Handle) error { return h.SetWorkspace(driver.Ptr(uintptr(workspace)), int64(n)) })
}

//export fakeblasSetMathMode
func fakeblasSetMathMode(h unsafe.Pointer, mode C.int) C.int {
	return blasWith(h, func(h *fake.Handle) error { return h.SetMath(int(mode)) })
}

//export fakeblasSetAtomicsMode
func fakeblasSetAtomicsMode(h unsafe.Pointer, mode C.int) C.int {
	return blasWith(h, func(h *fake.Handle) error { return h.SetAtomics(int(mode)) })
}

// gemm refuses all types but float32 and all scales of the product but 1.
func gemm(h unsafe.Pointer, p driver.Product, alpha, beta unsafe.Pointer, types [3]C.int, compute, algorithm C.int) C.int {
	scale := *(*float32)(beta)
	if *(*float32)(alpha) != 1 || scale != 0 && scale != 1 || types != [3]C.int{real32F, real32F, real32F} || compute != compute32FPedantic || algorithm != gemmDefault {
		return invalidValue
	}
	p.Add = scale == 1
	return blasWith(h, func(h *fake.Handle) error { return h.Gemm(p) })
}

func at(p unsafe.Pointer) driver.Ptr { return driver.Ptr(uintptr(p)) }

//export fakeblasGemmEx
func fakeblasGemmEx(h unsafe.Pointer, ta, tb, m, n, k C.int, alpha, a unsafe.Pointer, typeA, lda C.int, b unsafe.Pointer, typeB, ldb C.int,
	beta, c unsafe.Pointer, typeC, ldc, compute, algorithm C.int) C.int {
	return gemm(h, driver.Product{
		M: int(m), N: int(n), K: int(k), A: at(a), B: at(b), C: at(c), RowA: int(lda), RowB: int(ldb), RowC: int(ldc), TransA: ta == 1, TransB: tb == 1,
	}, alpha, beta, [3]C.int{typeA, typeB, typeC}, compute, algorithm)
}

//export fakeblasGemmStridedBatchedEx
func fakeblasGemmStridedBatchedEx(h unsafe.Pointer, ta, tb, m, n, k C.int, alpha, a unsafe.Pointer, typeA, lda C.int, nextA C.longlong,
	b unsafe.Pointer, typeB, ldb C.int, nextB C.longlong, beta, c unsafe.Pointer, typeC, ldc C.int, nextC C.longlong, batch, compute, algorithm C.int) C.int {
	if batch < 1 {
		return invalidValue
	}
	return gemm(h, driver.Product{
		M: int(m), N: int(n), K: int(k), A: at(a), B: at(b), C: at(c), RowA: int(lda), RowB: int(ldb), RowC: int(ldc), TransA: ta == 1, TransB: tb == 1,
		Batch: int(batch), NextA: int64(nextA), NextB: int64(nextB), NextC: int64(nextC),
	}, alpha, beta, [3]C.int{typeA, typeB, typeC}, compute, algorithm)
}
