//go:build gocuda && cgo && linux

package cudrv

// #include "cuda.h"
// #include "nccl.h"
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

var (
	_ driver.NCCL        = library{}
	_ driver.NCCLContext = (*context)(nil)
)

// openNCCL makes NCCL reachable; a variable for the reason that open is one.
var openNCCL = sync.OnceValue(func() error {
	var why [600]C.char
	if C.nccl_bind(&why[0], C.size_t(len(why))) != 0 {
		return errors.New(C.GoString(&why[0]))
	}
	return nil
})

// ReplaceNCCL is Replace for a call of NCCL, named without nccl.
func ReplaceNCCL(name string, function unsafe.Pointer) error {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	if C.nccl_replace(c, function) == 0 {
		return fmt.Errorf("no call of NCCL is named %s", name)
	}
	openNCCL = func() error { return nil }
	return nil
}

var results = map[C.int]string{
	1: "ncclUnhandledCudaError", C.NCCL_SYSTEM_ERROR: "ncclSystemError", 3: "ncclInternalError", 4: "ncclInvalidArgument", 5: "ncclInvalidUsage", 6: "ncclRemoteError",
}

// outcome is the error of a call, which may have been begun only.
func outcome(call string, r C.int) error {
	if r == C.NCCL_SUCCESS || r == C.NCCL_IN_PROGRESS {
		return nil
	}
	name := results[r]
	if name == "" {
		return failure("nccl"+call, int(r)) // a driver's code comes through
	}
	return &driver.Error{Call: "nccl" + call, Code: int(r), Name: name, Log: C.GoString(C.nccl_last_error())}
}

// NCCL opens the library, which stays open.
func (library) NCCL() (int, error) {
	if err := openNCCL(); err != nil {
		return 0, err
	}
	var v C.int
	err := outcome("GetVersion", C.nccl_GetVersion(&v))
	return int(v), err
}

func (library) NewNCCLID() (id driver.NCCLID, err error) {
	err = outcome("GetUniqueId", C.nccl_name(unsafe.Pointer(&id[0])))
	return id, err
}

func (c *context) NewRank(on driver.Stream, id driver.NCCLID, rank, size int) (driver.Rank, error) {
	if err := c.enter("ncclCommInitRankConfig"); err != nil {
		return nil, err
	}
	s, ok := on.(*stream)
	if !ok || s.context != c {
		return nil, fmt.Errorf("cannot add up on %T of this driver", on)
	}
	if rank < 0 || rank >= size || size > math.MaxInt32 {
		return nil, fmt.Errorf("there is no rank %d of %d", rank, size)
	}
	var h unsafe.Pointer
	if err := outcome("CommInitRankConfig", C.nccl_join(&h, C.int(size), unsafe.Pointer(&id[0]), C.int(rank))); err != nil {
		if h != nil {
			err = errors.Join(err, outcome("CommAbort", C.nccl_CommAbort(h)))
		}
		return nil, err
	}
	return &member{c.hold("ncclCommAbort", func() error { return outcome("CommAbort", C.nccl_CommAbort(h)) }), h, s}, nil
}

// member implements driver.Rank.
type member struct {
	*holding
	handle unsafe.Pointer
	stream *stream
}

// enter is the start of every call. The library does not see that a rank has left.
func (m *member) enter(call string) error {
	if err := m.context.enter("nccl" + call); err != nil {
		return err
	}
	if !slices.Contains(m.context.held, m.holding) {
		return failure("nccl"+call, int(C.CUDA_ERROR_INVALID_HANDLE))
	}
	return nil
}

func (m *member) Ready() (bool, error) {
	const call = "CommGetAsyncError"
	if err := m.enter(call); err != nil {
		return false, err
	}
	r := C.int(C.NCCL_SUCCESS)
	if err := outcome(call, C.nccl_CommGetAsyncError(m.handle, &r)); err != nil {
		return false, err
	}
	return r == C.NCCL_SUCCESS, outcome(call, r)
}

func (m *member) Sum(at driver.Ptr, n int, of driver.Number) error {
	const call = "AllReduce"
	if err := m.enter(call); err != nil {
		return err
	}
	p := pointer(at)
	return outcome(call, C.nccl_AllReduce(p, p, C.size_t(n), C.int(of), C.NCCL_SUM, m.handle, unsafe.Pointer(m.stream.handle)))
}

func (m *member) Broadcast(at driver.Ptr, bytes, root int) error {
	const call = "Broadcast"
	if err := m.enter(call); err != nil {
		return err
	}
	p := pointer(at)
	return outcome(call, C.nccl_Broadcast(p, p, C.size_t(bytes), C.NCCL_UINT8, C.int(root), m.handle, unsafe.Pointer(m.stream.handle)))
}
