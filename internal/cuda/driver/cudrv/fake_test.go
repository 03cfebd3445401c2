//go:build gocuda && cgo && linux

package cudrv_test

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv/cudrvtest"
	"github.com/privgrad/privgrad/internal/cuda/driver/drivertest"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
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
	if f.Live() != 0 || cudrvtest.Handles() != 0 || cudrvtest.Strays() != 0 {
		t.Errorf("%d objects and %d handles live after all contexts are closed, %d calls had wrong handles", f.Live(), cudrvtest.Handles(), cudrvtest.Strays())
	}
}

// Machine code that a driver refuses is an error like any other, and the context goes on.
func TestMachineCode(t *testing.T) {
	d, _ := open(t, fake.Options{})
	c, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Load("m", append([]byte("\x7fELF"), make([]byte, 60)...))
	var e *driver.Error
	if !errors.As(err, &e) || e.Code != 209 || e.Name != "CUDA_ERROR_NO_BINARY_FOR_GPU" {
		t.Errorf("machine code is refused with %v", err)
	}
	if _, err := c.Load("kernels", drivertest.PTX); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A code that the driver gives arrives with the call's name and its own.
func TestErrorsArrive(t *testing.T) {
	for _, call := range []string{
		"cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuCtxSetCurrent", "cuMemGetInfo", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemcpyHtoD", "cuMemcpyDtoH",
		"cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncSetAttribute", "cuStreamCreate", "cuLaunchKernel", "cuMemsetD32Async", "cuStreamSynchronize",
		"cuStreamQuery", "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphLaunch",
		"cuGraphExecDestroy", "cuEventDestroy", "cuMemFreeHost", "cuModuleUnload", "cuStreamDestroy",
		"cuEventCreate", "cuEventRecordWithFlags", "cuEventElapsedTime", "cublasGetProperty", "cublasCreate", "cublasSetStream", "cublasSetWorkspace",
		"cublasSetMathMode", "cublasSetAtomicsMode", "cublasGemmEx", "cublasGemmStridedBatchedEx", "cublasDestroy",
		"ncclGetVersion", "ncclGetUniqueId", "cuDevicePrimaryCtxRetain", "ncclCommInitRankConfig", "ncclCommGetAsyncError", "ncclAllReduce", "ncclBroadcast",
		"ncclCommAbort", "cuDevicePrimaryCtxRelease",
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
		if f.Live() != 0 || cudrvtest.Handles() != 0 || cudrvtest.Strays() != 0 {
			t.Errorf("%s fails with 719: %d objects and %d handles live, %d calls had wrong handles", call, f.Live(), cudrvtest.Handles(), cudrvtest.Strays())
		}
	}
	d, _ := open(t, fake.Options{})
	if err := drivertest.Everything(d); err != nil {
		t.Error(err)
	}
}

// A block's memory and the multiprocessor's are asked for by two calls; if the second fails, that is told.
func TestSharedMemoryIsTwoCalls(t *testing.T) {
	d, f := open(t, fake.Options{Fail: func(call string, n int) int {
		if call == "cuFuncSetAttribute" && n == 2 {
			return driver.OutOfMemory
		}
		return 0
	}})
	r := drivertest.NewRig(t, d)
	r.Fails(r.Turn.AllowShared(64<<10), driver.OutOfMemory)
	r.OK(r.Turn.AllowShared(64 << 10))
	if n := f.Calls("cuFuncSetAttribute"); n != 4 {
		t.Errorf("cuFuncSetAttribute was called %d times", n)
	}
}

// What is not given back goes with the context, through the driver's own calls.
func TestCloseGivesBack(t *testing.T) {
	d, f := open(t, fake.Options{})
	r := drivertest.NewRig(t, d)
	drivertest.Got(r.Context.Alloc(8))(t)
	drivertest.Got(r.Context.AllocHost(8))(t)
	drivertest.Got(r.Context.NewEvent())(t)
	drivertest.Got(r.Stream.Capture(func() error { return nil }))(t)
	r.OK(r.Context.Close())
	if f.Live() != 0 || cudrvtest.Handles() != 0 {
		t.Errorf("%d objects and %d handles live", f.Live(), cudrvtest.Handles())
	}
	for _, call := range []string{"cuMemFreeHost", "cuEventDestroy", "cuGraphExecDestroy", "cuStreamDestroy", "cuModuleUnload", "cuDevicePrimaryCtxRelease"} {
		if f.Calls(call) != 1 {
			t.Errorf("%s was called %d times", call, f.Calls(call))
		}
	}
}

// A GPU in exclusive mode has one context, which a run and its sums over several GPUs share. What one of them leaves goes when it
// closes, not when the context does.
func TestExclusive(t *testing.T) {
	d, f := open(t, fake.Options{Exclusive: true})
	r := drivertest.NewRig(t, d)
	drivertest.Got(r.Context.Alloc(8))(t)
	r.OK(r.Context.Leave())
	other := drivertest.Got(d.Open(0))(t)
	drivertest.Got(other.Alloc(8))(t)
	drivertest.Got(other.NewStream())(t)
	r.OK(other.Leave())
	before := f.Live()
	r.OK(other.Close())
	if n := before - f.Live(); n != 2 {
		t.Errorf("a closed context gave back %d objects of 2, and others use the GPU", n)
	}
	r.OK(r.Context.Enter())
	r.Holds(r.Floats(5), 5)
	r.OK(r.Context.Close())
	if f.Live() != 0 || cudrvtest.Handles() != 0 || cudrvtest.Strays() != 0 {
		t.Errorf("%d objects and %d handles live, %d calls had wrong handles", f.Live(), cudrvtest.Handles(), cudrvtest.Strays())
	}
}

// A GPU that another process has for itself is refused with what to do.
func TestUnavailable(t *testing.T) {
	d, f := open(t, fake.Options{Exclusive: true})
	another := drivertest.Got(f.Create(0))(t)
	_, err := d.Open(0)
	if err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_DEVICE_UNAVAILABLE (46): another process has this GPU") {
		t.Errorf("got %v", err)
	}
	if err := another.Close(); err != nil {
		t.Error(err)
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

// libraries are made into libcuda.so.1, and what Open, Version and Devices then say.
var libraries = []struct{ name, source, want string }{
	{"damaged", "", "no NVIDIA driver found (LIB: file too short); install one"},
	{"no device", "int cuInit(unsigned f) { return 100; }", "the NVIDIA driver sees no GPU (cuInit of libcuda.so.1: unknown error (100)); check nvidia-smi and CUDA_VISIBLE_DEVICES"},
	{"no device, named", `
		int cuInit(unsigned f) { return 100; }
		int cuGetErrorName(int e, const char **s) { *s = "CUDA_ERROR_NO_DEVICE"; return 0; }`,
		"the NVIDIA driver sees no GPU (cuInit of libcuda.so.1: CUDA_ERROR_NO_DEVICE (100)); check nvidia-smi and CUDA_VISIBLE_DEVICES"},
	{"no cuInit", "int x;", "the NVIDIA driver does not start (cuInit of libcuda.so.1: unknown error (302)); check nvidia-smi, or install the driver anew"},
	{"works", `
		int cuInit(unsigned f) { return 0; }
		int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
		int cuDeviceGetCount(int *n) { *n = 2; return 0; }`, "version 13000, 2 devices"},
	{"lacks a function", `
		int cuInit(unsigned f) { return 0; }
		int cuDriverGetVersion(int *v) { *v = 11000; return 0; }`, "cuDeviceGetCount: unknown error (302)"},
}

// The shim finds libcuda.so.1 and its functions, or says what is wrong with it.
func TestLibrary(t *testing.T) {
	if os.Getenv("CUDRV_TEST_OPEN") != "" {
		fmt.Println(try())
		return
	}
	cc := cmp.Or(os.Getenv("CC"), "gcc")
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("only a C compiler can build the library that stands for the driver: %v", err)
	}
	for _, l := range libraries {
		dir := t.TempDir()
		lib := filepath.Join(dir, "libcuda.so.1")
		if l.source == "" {
			if err := os.WriteFile(lib, nil, 0o755); err != nil {
				t.Fatal(err)
			}
		} else {
			build := exec.Command(cc, "-shared", "-fPIC", "-o", lib, "-x", "c", "-")
			build.Stdin = strings.NewReader(l.source)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		c := exec.Command(os.Args[0], "-test.run=^TestLibrary$")
		c.Env = append(os.Environ(), "CUDRV_TEST_OPEN=1", "LD_LIBRARY_PATH="+dir)
		out, err := c.CombinedOutput()
		got, _, _ := strings.Cut(string(out), "\n")
		if want := strings.ReplaceAll(l.want, "LIB", lib); err != nil || got != want {
			t.Errorf("%s: got %q, want %q (%v)", l.name, got, want, err)
		}
	}
}

func try() string {
	d, err := cudrv.Open()
	if err != nil {
		return err.Error()
	}
	v, err := d.Version()
	if err != nil {
		return err.Error()
	}
	n, err := d.Devices()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("version %d, %d devices", v, n)
}

// The binary starts on machines that have nothing but glibc.
func TestNeedsGlibcAlone(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(name)
	if err != nil {
		t.Skipf("the program is no ELF file, so nothing lists its libraries: %v", err)
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	for _, l := range libs {
		// A linker may keep the parts of glibc that net names.
		if !slices.Contains([]string{"libc.so.6", "libresolv.so.2", "libpthread.so.0", "libdl.so.2"}, l) {
			t.Errorf("the test binary needs %s", l)
		}
	}
	if err != nil || len(libs) == 0 {
		t.Errorf("the test binary needs %v (%v)", libs, err)
	}
}
