//go:build gocuda && cgo && linux

package cudrvtest

/*
#cgo CFLAGS: -I${SRCDIR}/..
#include <cuda.h>
#include <string.h>
#include "table.h"
*/
import "C"

import (
	"errors"
	"unsafe"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
)

// The state behind the calls. One goroutine has a context at a time, as in the
// tests that use this.
var (
	installed *fake.Driver
	current   driver.Context
	handles   = map[unsafe.Pointer]any{}
	strays    int
)

// Install makes the fake answer every call of cudrv from now on.
func Install(d *fake.Driver) error {
	for i := C.int(0); C.cudrvtest_name(i) != nil; i++ {
		if err := cudrv.Replace(C.GoString(C.cudrvtest_name(i)), C.cudrvtest_function(i)); err != nil {
			return err
		}
	}
	installed, current, primary.retained = d, nil, 0
	for i := C.int(0); C.cudrvtest_blas_name(i) != nil; i++ {
		if err := cudrv.ReplaceBLAS(C.GoString(C.cudrvtest_blas_name(i)), C.cudrvtest_blas_function(i)); err != nil {
			return err
		}
	}
	for i := C.int(0); C.cudrvtest_nccl_name(i) != nil; i++ {
		if err := cudrv.ReplaceNCCL(C.GoString(C.cudrvtest_nccl_name(i)), C.cudrvtest_nccl_function(i)); err != nil {
			return err
		}
	}
	return nil
}

// Handles is how many handles of the driver were not given back.
func Handles() int { return len(handles) }

// Strays is how many calls named a handle that does not exist, or no longer. A
// GPU's driver may crash on them.
func Strays() int { return strays }

func result(err error) C.CUresult {
	if err == nil {
		return C.CUDA_SUCCESS
	}
	var e *driver.Error
	if errors.As(err, &e) {
		return C.CUresult(e.Code)
	}
	return C.CUDA_ERROR_UNKNOWN
}

// handle gives an object an address, which C may keep.
func handle(object any, to *unsafe.Pointer) {
	p := C.malloc(1)
	handles[p] = object
	*to = p
}

// handing gives a handle for what a call has made.
func handing(to *unsafe.Pointer) func(object any, err error) error {
	return func(object any, err error) error {
		if err == nil {
			handle(object, to)
		}
		return err
	}
}

// with calls f for the object of a handle.
func with[T any](h unsafe.Pointer, f func(T) error) C.CUresult {
	o, ok := handles[h].(T)
	if !ok {
		strays++
		return C.CUDA_ERROR_INVALID_HANDLE
	}
	return result(f(o))
}

// drop is with for what ends a handle.
func drop[T any](h unsafe.Pointer, f func(T) error) C.CUresult {
	r := with(h, f)
	if _, ok := handles[h].(T); ok {
		delete(handles, h)
		C.free(h)
	}
	return r
}

// here calls f for the current context.
func here(f func(driver.Context) error) C.CUresult {
	if current == nil {
		return C.CUDA_ERROR_INVALID_CONTEXT
	}
	return result(f(current))
}

//export fakeDriverGetVersion
func fakeDriverGetVersion(version *C.int) C.CUresult {
	v, err := installed.Version()
	*version = C.int(v)
	return result(err)
}

var errorNames = map[C.CUresult]*C.char{}

//export fakeGetErrorName
func fakeGetErrorName(code C.CUresult, name **C.char) C.CUresult {
	if errorNames[code] == nil {
		errorNames[code] = C.CString(fake.ErrorName(int(code)))
	}
	*name = errorNames[code]
	return C.CUDA_SUCCESS
}

//export fakeDeviceGet
func fakeDeviceGet(device *C.CUdevice, ordinal C.int) C.CUresult {
	_, err := installed.Info(int(ordinal))
	*device = C.CUdevice(ordinal)
	return result(err)
}

//export fakeDeviceGetCount
func fakeDeviceGetCount(count *C.int) C.CUresult {
	n, err := installed.Devices()
	*count = C.int(n)
	return result(err)
}

//export fakeDeviceGetName
func fakeDeviceGetName(name *C.char, size C.int, device C.CUdevice) C.CUresult {
	i, err := installed.Info(int(device))
	b := unsafe.Slice((*byte)(unsafe.Pointer(name)), size)
	b[copy(b[:size-1], i.Name)] = 0
	return result(err)
}

//export fakeDeviceTotalMem
func fakeDeviceTotalMem(n *C.size_t, device C.CUdevice) C.CUresult {
	i, err := installed.Info(int(device))
	*n = C.size_t(i.Memory)
	return result(err)
}

//export fakeDeviceGetAttribute
func fakeDeviceGetAttribute(value *C.int, attribute C.CUdevice_attribute, device C.CUdevice) C.CUresult {
	i, err := installed.Info(int(device))
	v, ok := map[C.CUdevice_attribute]int{
		C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:          i.Capability / 10,
		C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:          i.Capability % 10,
		C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:              i.Processors,
		C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:       i.SharedPerBlock,
		C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: i.SharedOptIn,
		C.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:                     i.L2,
	}[attribute]
	if !ok {
		return C.CUDA_ERROR_INVALID_VALUE
	}
	*value = C.int(v)
	return result(err)
}

//export fakeCtxCreate
func fakeCtxCreate(ctx *unsafe.Pointer, _ C.uint, device C.CUdevice) C.CUresult {
	c, err := installed.Create(int(device))
	if err == nil {
		err = c.Enter()
	}
	if err == nil {
		current = c
		handle(c, ctx)
	}
	return result(err)
}

// primary is the handle of the primary context, which exists while anybody has retained it.
var primary struct {
	handle   unsafe.Pointer
	retained int
}

//export fakeDevicePrimaryCtxRetain
func fakeDevicePrimaryCtxRetain(ctx *unsafe.Pointer, device C.CUdevice) C.CUresult {
	if primary.retained == 0 {
		c, err := installed.Retain(int(device))
		if err != nil {
			return result(err)
		}
		handle(c, &primary.handle)
	}
	primary.retained++
	*ctx = primary.handle
	return C.CUDA_SUCCESS
}

//export fakeDevicePrimaryCtxRelease
func fakeDevicePrimaryCtxRelease(C.CUdevice) C.CUresult {
	if primary.retained == 0 {
		strays++
		return C.CUDA_ERROR_INVALID_CONTEXT
	}
	if primary.retained--; primary.retained > 0 {
		return C.CUDA_SUCCESS
	}
	return drop(primary.handle, driver.Context.Close)
}

// A context is left by making none current.
//
//export fakeCtxSetCurrent
func fakeCtxSetCurrent(ctx unsafe.Pointer) C.CUresult {
	if ctx == nil {
		return here(func(c driver.Context) error {
			current = nil
			return c.Leave()
		})
	}
	return with(ctx, func(c driver.Context) error {
		err := c.Enter()
		if err == nil {
			current = c
		}
		return err
	})
}

//export fakeCtxDestroy
func fakeCtxDestroy(ctx unsafe.Pointer) C.CUresult {
	current = nil
	return drop(ctx, driver.Context.Close)
}

//export fakeMemGetInfo
func fakeMemGetInfo(room, all *C.size_t) C.CUresult {
	return here(func(c driver.Context) error {
		n, err := c.Room()
		*room, *all = C.size_t(n), C.size_t(c.Info().Memory)
		return err
	})
}

//export fakeMemAlloc
func fakeMemAlloc(p *C.CUdeviceptr, n C.size_t) C.CUresult {
	return here(func(c driver.Context) error {
		a, err := c.Alloc(int64(n))
		*p = C.CUdeviceptr(a)
		return err
	})
}

//export fakeMemFree
func fakeMemFree(p C.CUdeviceptr) C.CUresult {
	return here(func(c driver.Context) error { return c.Free(driver.Ptr(p)) })
}

// Pinned memory is known to C by its own address, which the fake keeps alive.
//
//export fakeMemHostAlloc
func fakeMemHostAlloc(p *unsafe.Pointer, n C.size_t, flags C.uint) C.CUresult {
	if flags&C.CU_MEMHOSTALLOC_DEVICEMAP == 0 {
		return C.CUDA_ERROR_INVALID_VALUE
	}
	return here(func(c driver.Context) error {
		h, err := c.AllocHost(int(n))
		if err == nil {
			*p = unsafe.Pointer(&h.Bytes()[0])
			handles[*p] = h
		}
		return err
	})
}

//export fakeMemHostGetDevicePointer
func fakeMemHostGetDevicePointer(a *C.CUdeviceptr, p unsafe.Pointer, _ C.uint) C.CUresult {
	return with(p, func(h driver.HostMemory) error {
		*a = C.CUdeviceptr(h.Address())
		return nil
	})
}

//export fakeMemFreeHost
func fakeMemFreeHost(p unsafe.Pointer) C.CUresult {
	r := with(p, driver.HostMemory.Free)
	delete(handles, p)
	return r
}

//export fakeMemcpyHtoD
func fakeMemcpyHtoD(dst C.CUdeviceptr, src unsafe.Pointer, n C.size_t) C.CUresult {
	return here(func(c driver.Context) error { return c.CopyIn(driver.Ptr(dst), unsafe.Slice((*byte)(src), n)) })
}

//export fakeMemcpyDtoH
func fakeMemcpyDtoH(dst unsafe.Pointer, src C.CUdeviceptr, n C.size_t) C.CUresult {
	return here(func(c driver.Context) error { return c.CopyOut(unsafe.Slice((*byte)(dst), n), driver.Ptr(src)) })
}

//export fakeModuleLoadDataEx
func fakeModuleLoadDataEx(module *unsafe.Pointer, image unsafe.Pointer, n C.uint, options *C.CUjit_option, values *unsafe.Pointer) C.CUresult {
	var log []byte
	var place unsafe.Pointer
	for i, o := range unsafe.Slice(options, n) {
		switch v := unsafe.Slice(values, n)[i]; o {
		case C.CU_JIT_ERROR_LOG_BUFFER:
			place = v
		case C.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			log = unsafe.Slice((*byte)(place), uintptr(v))
		}
	}
	return here(func(c driver.Context) error {
		m, err := c.Load("image", []byte(C.GoString((*C.char)(image))))
		if err != nil {
			if len(log) > 0 {
				log[copy(log[:len(log)-1], err.Error())] = 0
			}
			return err
		}
		handle(m, module)
		return nil
	})
}

//export fakeModuleUnload
func fakeModuleUnload(module unsafe.Pointer) C.CUresult { return drop(module, driver.Module.Unload) }

// Functions belong to their module and are never given back.
//
//export fakeModuleGetFunction
func fakeModuleGetFunction(function *unsafe.Pointer, module unsafe.Pointer, name *C.char) C.CUresult {
	return with(module, func(m driver.Module) error {
		f, err := m.Function(C.GoString(name))
		if err == nil {
			p := C.malloc(1)
			functions[p] = f.(*fake.Function)
			*function = p
		}
		return err
	})
}

var functions = map[unsafe.Pointer]*fake.Function{}

//export fakeFuncSetAttribute
func fakeFuncSetAttribute(function unsafe.Pointer, attribute C.CUfunction_attribute, value C.int) C.CUresult {
	f := functions[function]
	switch {
	case f == nil:
		return C.CUDA_ERROR_INVALID_VALUE
	case attribute == C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		return result(f.Allow(int(value)))
	case attribute == C.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return result(f.Carve(int(value)))
	}
	return C.CUDA_ERROR_INVALID_VALUE
}

//export fakeLaunchKernel
func fakeLaunchKernel(function unsafe.Pointer, gx, gy, gz, bx, by, bz, shared C.uint, stream unsafe.Pointer, params, _ *unsafe.Pointer) C.CUresult {
	f := functions[function]
	if f == nil {
		return C.CUDA_ERROR_INVALID_HANDLE
	}
	l := driver.Launch{
		Function: f, Grid: [3]int{int(gx), int(gy), int(gz)}, Block: [3]int{int(bx), int(by), int(bz)}, Shared: int(shared),
	}
	for _, p := range unsafe.Slice(params, len(f.Params())) {
		l.Args = append(l.Args, *(*uint64)(p))
	}
	return with(stream, func(s driver.Stream) error { return s.Launch(l) })
}

//export fakeStreamCreate
func fakeStreamCreate(stream *unsafe.Pointer, _ C.uint) C.CUresult {
	return here(func(c driver.Context) error { return handing(stream)(c.NewStream()) })
}

//export fakeStreamDestroy
func fakeStreamDestroy(stream unsafe.Pointer) C.CUresult { return drop(stream, driver.Stream.Close) }

//export fakeStreamSynchronize
func fakeStreamSynchronize(stream unsafe.Pointer) C.CUresult {
	if stream == nil { // the default stream, on which copies are done when they return
		return 0
	}
	return with(stream, driver.Stream.Sync)
}

//export fakeStreamQuery
func fakeStreamQuery(stream unsafe.Pointer) C.CUresult {
	return asks(stream, driver.Stream.Query)
}

// asks is with for a question whether something is done.
func asks[T any](h unsafe.Pointer, query func(T) (bool, error)) C.CUresult {
	ready := true
	r := with(h, func(o T) (err error) {
		ready, err = query(o)
		return err
	})
	if r == C.CUDA_SUCCESS && !ready {
		return C.CUDA_ERROR_NOT_READY
	}
	return r
}

//export fakeMemsetD32Async
func fakeMemsetD32Async(dst C.CUdeviceptr, value C.uint, n C.size_t, stream unsafe.Pointer) C.CUresult {
	return with(stream, func(s driver.Stream) error { return s.Set(driver.Ptr(dst), uint32(value), int(n)) })
}

//export fakeEventCreate
func fakeEventCreate(e *unsafe.Pointer, flags C.uint) C.CUresult {
	return here(func(c driver.Context) error {
		if flags&C.CU_EVENT_DISABLE_TIMING == 0 {
			return handing(e)(c.NewClock())
		}
		return handing(e)(c.NewEvent())
	})
}

//export fakeEventDestroy
func fakeEventDestroy(e unsafe.Pointer) C.CUresult {
	if _, ok := handles[e].(*fake.Clock); ok {
		return drop(e, (*fake.Clock).Close)
	}
	return drop(e, (*fake.Event).Close)
}

//export fakeEventRecord
func fakeEventRecord(e, stream unsafe.Pointer) C.CUresult {
	return with(stream, func(s driver.Stream) error {
		if k, ok := handles[e].(*fake.Clock); ok {
			return s.Mark(k)
		}
		o, ok := handles[e].(*fake.Event)
		if !ok {
			return errors.New("no event")
		}
		return s.Record(o)
	})
}

// An external record belongs into a capture, and is refused elsewhere.
//
//export fakeEventRecordWithFlags
func fakeEventRecordWithFlags(e, stream unsafe.Pointer, flags C.uint) C.CUresult {
	return with(stream, func(s *fake.Stream) error {
		k, ok := handles[e].(*fake.Clock)
		if !ok || flags != C.CU_EVENT_RECORD_EXTERNAL || !s.Capturing() {
			return errors.New("cudrv records clocks in captures so")
		}
		return s.Mark(k)
	})
}

//export fakeEventElapsedTime
func fakeEventElapsedTime(ms *C.float, start, end unsafe.Pointer) C.CUresult {
	return with(end, func(k *fake.Clock) error {
		e, ok := handles[start].(*fake.Clock)
		if !ok {
			return errors.New("no clock")
		}
		d, err := k.Elapsed(e)
		*ms = C.float(d.Seconds() * 1e3)
		return err
	})
}

//export fakeEventQuery
func fakeEventQuery(e unsafe.Pointer) C.CUresult {
	return asks(e, (*fake.Event).Done)
}

//export fakeEventSynchronize
func fakeEventSynchronize(e unsafe.Pointer) C.CUresult {
	if _, ok := handles[e].(*fake.Clock); ok {
		return with(e, (*fake.Clock).Wait)
	}
	return with(e, (*fake.Event).Wait)
}

// The fake instantiates a graph as it ends a capture. Until
// cuGraphInstantiate takes it over, it goes with the graph.
type graph struct{ exec *fake.Graph }

//export fakeStreamBeginCapture
func fakeStreamBeginCapture(stream unsafe.Pointer, _ C.CUstreamCaptureMode) C.CUresult {
	return with(stream, (*fake.Stream).BeginCapture)
}

//export fakeStreamEndCapture
func fakeStreamEndCapture(stream unsafe.Pointer, g *unsafe.Pointer) C.CUresult {
	return with(stream, func(s *fake.Stream) error {
		exec, err := s.EndCapture()
		if err == nil {
			handle(&graph{exec}, g)
		}
		return err
	})
}

//export fakeGraphInstantiate
func fakeGraphInstantiate(exec *unsafe.Pointer, g unsafe.Pointer, _ C.ulonglong) C.CUresult {
	return with(g, func(g *graph) error {
		handle(g.exec, exec)
		g.exec = nil
		return nil
	})
}

//export fakeGraphDestroy
func fakeGraphDestroy(g unsafe.Pointer) C.CUresult {
	return drop(g, func(g *graph) error {
		if g.exec == nil {
			return nil
		}
		return g.exec.Close()
	})
}

//export fakeGraphLaunch
func fakeGraphLaunch(exec, stream unsafe.Pointer) C.CUresult {
	return with(exec, func(g *fake.Graph) error {
		s, ok := handles[stream].(driver.Stream)
		if !ok {
			return errors.New("no stream")
		}
		return s.Run(g)
	})
}

//export fakeGraphExecDestroy
func fakeGraphExecDestroy(exec unsafe.Pointer) C.CUresult { return drop(exec, (*fake.Graph).Close) }
