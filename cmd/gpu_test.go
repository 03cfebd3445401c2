package cmd

import (
	"errors"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
)

func TestGPUs(t *testing.T) {
	for _, c := range []struct {
		name    string
		driver  driver.Driver
		err     error
		version string
		devices int
		says    []string
	}{
		{"one", fake.New(fake.Options{Device: driver.Info{Capability: 90, Memory: 3 << 30}}), nil, "12.4", 1, []string{"0", "fake, compute capability 9.0, 3 GiB", "CUDA up to 12.4", "kernels load in", "cuBLAS 12.4.1 found"}},
		{"no cuBLAS", fake.New(fake.Options{BLAS: fake.BLAS{Absent: true}}), nil, "12.4", 1, []string{"own kernels", "cuBLAS was not found", "libcublas.so.13"}},
		{"no driver", nil, errors.New("libcuda.so.1: not found"), "", 0, []string{"none", "libcuda.so.1: not found"}},
		{"no version", failingDriver("cuDriverGetVersion"), nil, "", 0, []string{"cuDriverGetVersion: CUDA_ERROR_NO_DEVICE (100)"}},
		{"no count", failingDriver("cuDeviceGetCount"), nil, "12.4", 0, []string{"CUDA up to 12.4", "cuDeviceGetCount"}},
		{"no device", failingDriver("cuDeviceGet"), nil, "12.4", 0, []string{"cuDeviceGet: CUDA_ERROR_NO_DEVICE (100)"}},
		{"zero devices", none{fake.New(fake.Options{})}, nil, "12.4", 0, []string{"sees no device"}},
	} {
		i := gpus(func() (driver.Driver, error) { return c.driver, c.err })
		version := ""
		if i.Driver != nil {
			version = *i.Driver
		}
		if version != c.version || len(i.Devices) != c.devices || (i.Reason == "") != (c.devices > 0) {
			t.Errorf("%s: %+v", c.name, i)
		}
		var w strings.Builder
		describeGPUs(&w, i)
		for _, want := range c.says {
			if !strings.Contains(w.String(), want) {
				t.Errorf("%s: %q does not say %q", c.name, w.String(), want)
			}
		}
	}
}

// Machine code has a line where the GPU takes it, and none elsewhere.
func TestGPUsSayMachineCode(t *testing.T) {
	for _, cubins := range []*float64{nil, new(0.25)} {
		var w strings.Builder
		describeGPUs(&w, gpuInfo{Devices: []gpuDevice{{Name: "g", Capability: "9.0", Cold: new(18.0), Cached: new(0.5), Cubins: cubins}}})
		if got := strings.Contains(w.String(), "machine code for it is built in and loads in 0.25 s"); got != (cubins != nil) {
			t.Errorf("machine code in %v:\n%s", cubins, &w)
		}
	}
}

func failingDriver(call string) driver.Driver {
	return fake.New(fake.Options{Fail: func(c string, _ int) int {
		if c == call {
			return driver.NoDevice
		}
		return 0
	}})
}

type none struct{ driver.Driver }

func (none) Devices() (int, error) { return 0, nil }
