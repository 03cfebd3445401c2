//go:build gocuda && cgo

package cudrv_test

import (
	"debug/elf"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/cuda/driver"
	"github.com/privgrad/privgrad/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/cuda/driver/cudrv/cudrvtest"
	"github.com/privgrad/privgrad/cuda/driver/drivertest"
	"github.com/privgrad/privgrad/cuda/driver/fake"
)

// open puts a fake in the place of libcuda.
func open(t *testing.T, o fake.Options) (driver.Driver, *fake.Driver) {
	t.Helper()
	f := fake.New(o)
	if err := cudrvtest.Install(f); err != nil {
		t.Fatal(err)
	}
	d, err := cudrv.Open()
	if err != nil {
		t.Fatal(err)
	}
	return d, f
}

// The whole way through cudrv, cu, the shim and C to the fake keeps the rules,
// and gives every handle back.
func TestThroughTheShim(t *testing.T) {
	d, f := open(t, fake.Options{Seed: 1})
	drivertest.Run(t, d)
	if f.Live() != 0 || cudrvtest.Handles() != 0 {
		t.Errorf("%d objects and %d handles live after all contexts are closed", f.Live(), cudrvtest.Handles())
	}
}

// A code that the driver gives arrives with the call's name and its own.
func TestErrorsArrive(t *testing.T) {
	for _, call := range []string{
		"cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuCtxCreate", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemcpyHtoD", "cuMemcpyDtoH",
		"cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncSetAttribute", "cuStreamCreate", "cuLaunchKernel", "cuMemsetD32Async", "cuStreamSynchronize",
		"cuStreamQuery", "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphLaunch",
		"cuGraphExecDestroy", "cuEventDestroy", "cuMemFreeHost", "cuModuleUnload", "cuStreamDestroy", "cuCtxDestroy",
	} {
		d, f := open(t, fake.Options{Fail: func(c string, n int) int {
			if c == call && n == 1 {
				return driver.Lost
			}
			return 0
		}})
		err := drivertest.Everything(d)
		var e *driver.Error
		if !errors.As(err, &e) || e.Call != call || e.Code != driver.Lost || e.Name != "CUDA_ERROR_LAUNCH_FAILED" {
			t.Errorf("%s fails with 719: got %v", call, err)
		}
		if f.Live() != 0 || cudrvtest.Handles() != 0 {
			t.Errorf("%s fails with 719: %d objects and %d handles live", call, f.Live(), cudrvtest.Handles())
		}
	}
	d, _ := open(t, fake.Options{})
	if err := drivertest.Everything(d); err != nil {
		t.Error(err)
	}
}

// What is not given back goes with the context, through the driver's own calls.
func TestCloseGivesBack(t *testing.T) {
	d, f := open(t, fake.Options{})
	r := drivertest.NewRig(t, d)
	drivertest.Got(r.Context.Alloc(8))(t)
	drivertest.Got(r.Context.AllocHost(8))(t)
	drivertest.Got(r.Stream.Record())(t)
	drivertest.Got(r.Stream.Capture(func() error { return nil }))(t)
	r.OK(r.Context.Close())
	if f.Live() != 0 || cudrvtest.Handles() != 0 {
		t.Errorf("%d objects and %d handles live", f.Live(), cudrvtest.Handles())
	}
	for _, call := range []string{"cuMemFreeHost", "cuEventDestroy", "cuGraphExecDestroy", "cuStreamDestroy", "cuModuleUnload", "cuCtxDestroy"} {
		if f.Calls(call) != 1 {
			t.Errorf("%s was called %d times", call, f.Calls(call))
		}
	}
}

// Objects of another driver are refused, not misread.
func TestForeignObjects(t *testing.T) {
	d, _ := open(t, fake.Options{})
	r := drivertest.NewRig(t, d)
	l := r.AddLaunch(0, 1, 0)
	l.Function = (*fake.Function)(nil)
	if err := r.Stream.Launch(l); err == nil || !strings.Contains(err.Error(), "fake.Function") {
		t.Errorf("got %v", err)
	}
	if err := r.Stream.Run((*fake.Graph)(nil)); err == nil || !strings.Contains(err.Error(), "fake.Graph") {
		t.Errorf("got %v", err)
	}
}

// The binary starts on machines that have nothing but libc.
func TestNeedsLibcAlone(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(name)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	if err != nil || !slices.Equal(libs, []string{"libc.so.6"}) {
		t.Errorf("the test binary needs %v (%v)", libs, err)
	}
}
