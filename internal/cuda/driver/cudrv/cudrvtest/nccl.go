//go:build gocuda && cgo && linux

package cudrvtest

/*
#cgo CFLAGS: -I${SRCDIR}/..
#include "nccl.h"
#include "cuda.h"
*/
import "C"

import (
	"errors"
	"unsafe"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
)

// Results of NCCL, from its reference.
const (
	inProgress          = 7
	ncclInvalidArgument = 4
	ncclInternalError   = 3
	ncclMagic           = 0xcafebeef
	ncclConfigSince     = 21400
	ncclUint8, ncclSum  = 1, 0
)

func ncclResult(err error) C.int {
	if err == nil {
		return 0
	}
	var e *driver.Error
	if errors.As(err, &e) {
		return C.int(e.Code)
	}
	return ncclInternalError
}

func ncclWith(h unsafe.Pointer, f func(*fake.Rank) error) C.int {
	r, ok := handles[h].(*fake.Rank)
	if !ok {
		strays++
		return ncclInvalidArgument
	}
	return ncclResult(f(r))
}

//export fakencclGetVersion
func fakencclGetVersion(version *C.int) C.int {
	v, err := installed.NCCL()
	*version = C.int(v)
	return ncclResult(err)
}

//export fakencclGetUniqueId
func fakencclGetUniqueId(id *C.nccl_id) C.int {
	made, err := installed.NewNCCLID()
	*(*driver.NCCLID)(unsafe.Pointer(id)) = made
	return ncclResult(err)
}

//export fakencclCommInitRankConfig
func fakencclCommInitRankConfig(rank *unsafe.Pointer, size C.int, id C.nccl_id, number C.int, config *C.nccl_config) C.int {
	if config.size != C.sizeof_nccl_config || config.magic != ncclMagic || config.version != ncclConfigSince || config.blocking != 0 || current == nil {
		return ncclInvalidArgument
	}
	r, err := current.(*fake.Context).Join(*(*driver.NCCLID)(unsafe.Pointer(&id)), int(number), int(size))
	if err == nil {
		handle(r, rank)
	}
	return ncclResult(err)
}

//export fakencclCommGetAsyncError
func fakencclCommGetAsyncError(rank unsafe.Pointer, result *C.int) C.int {
	return ncclWith(rank, func(r *fake.Rank) error {
		ready, err := r.Ready()
		if *result = ncclResult(err); err == nil && !ready {
			*result = inProgress
		}
		return nil
	})
}

//export fakencclCommAbort
func fakencclCommAbort(rank unsafe.Pointer) C.int {
	if _, ok := handles[rank].(*fake.Rank); !ok {
		strays++
		return ncclInvalidArgument
	}
	return C.int(drop(rank, (*fake.Rank).Close))
}

// on calls f for a rank whose buffers are one, on a stream. NCCL begins a call and gives inProgress.
func on(from, to, rank, stream unsafe.Pointer, f func(*fake.Rank) error) C.int {
	s, ok := handles[stream].(*fake.Stream)
	if !ok || from != to {
		return ncclInvalidArgument
	}
	r := ncclWith(rank, func(r *fake.Rank) error { return errors.Join(r.SetStream(s), f(r)) })
	if r == 0 {
		return inProgress
	}
	return r
}

//export fakencclAllReduce
func fakencclAllReduce(from, to unsafe.Pointer, n C.size_t, kind, operation C.int, rank, stream unsafe.Pointer) C.int {
	if operation != ncclSum {
		return ncclInvalidArgument
	}
	return on(from, to, rank, stream, func(r *fake.Rank) error { return r.Sum(at(to), int(n), driver.Number(kind)) })
}

//export fakencclBroadcast
func fakencclBroadcast(from, to unsafe.Pointer, n C.size_t, kind, root C.int, rank, stream unsafe.Pointer) C.int {
	if kind != ncclUint8 {
		return ncclInvalidArgument
	}
	return on(from, to, rank, stream, func(r *fake.Rank) error { return r.Broadcast(at(to), int(n), int(root)) })
}
