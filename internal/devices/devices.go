// Package devices opens what runs a network: the processor, a GPU, or the reference.
package devices

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// names are those of all devices.
var names = []string{"auto", "cpu", "cuda", "cuda:N", "reference"}

// openDriver and nvidia say what this machine has; others in tests.
var openDriver, nvidia = cudrv.Open, hasNVIDIA

// Open opens a device by its name on the command line. "auto" is the first
// GPU where there is one that this build can use, else the processor, whose Info says why where a GPU seems to be here.
func Open(name string, threads int) (device.Device, error) {
	switch {
	case name == "auto":
		d, err := openGPU(0)
		if err == nil {
			return d, nil
		}
		host, failed := cpu.Open(threads)
		if failed != nil || !nvidia() {
			return host, failed
		}
		return instead{host, err.Error()}, nil
	case name == "cpu":
		return cpu.Open(threads)
	case name == "reference":
		return reference.Open(), nil
	}
	kind, number, numbered := strings.Cut(name, ":")
	ordinal := 0
	var err error
	if numbered {
		ordinal, err = written.Whole(number)
	}
	if kind != "cuda" || err != nil || ordinal < 0 {
		if strings.EqualFold(kind, "gpu") { // which is nearer to cpu, letter by letter
			return nil, usage.Errorf("unknown device %q (did you mean cuda%s?): choose one of %s", name, name[len("gpu"):], strings.Join(names, ", "))
		}
		return nil, usage.Unknown("device", name, names)
	}
	d, err := openGPU(ordinal)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w, or use --device cpu", name, err)
	}
	return d, nil
}

func openGPU(ordinal int) (device.Device, error) {
	driver, err := openDriver()
	if err != nil {
		return nil, err
	}
	return cuda.Open(driver, ordinal)
}

// instead is a device that was opened in the place of a GPU.
type instead struct {
	device.Device
	why string
}

func (d instead) Info() device.Info {
	i := d.Device.Info()
	i.Instead = d.why
	return i
}

// hasNVIDIA says whether this machine seems to have a GPU by NVIDIA: its driver's device files, or a display controller on the bus.
func hasNVIDIA() bool {
	if nodes, _ := filepath.Glob("/dev/nvidia[0-9]*"); len(nodes) > 0 {
		return true
	}
	vendors, _ := filepath.Glob("/sys/bus/pci/devices/*/vendor")
	for _, file := range vendors {
		vendor, _ := os.ReadFile(file)
		class, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "class"))
		if strings.TrimSpace(string(vendor)) == "0x10de" && strings.HasPrefix(string(class), "0x03") {
			return true
		}
	}
	return false
}

// Who multiplies the matrices of dense layers.
const (
	GEMMOwn    = "own"    // the project's kernels
	GEMMCuBLAS = "cublas" // NVIDIA's library, on a GPU
)

// CheckGEMM says whether a device multiplies by what a setting names, in some precision.
func CheckGEMM(d device.Device, gemm string, in device.Precision) error {
	switch gemm {
	case GEMMOwn:
		return nil
	case GEMMCuBLAS:
	default:
		return usage.Unknown("gemm", gemm, []string{GEMMOwn, GEMMCuBLAS})
	}
	if in != device.Float32 {
		return usage.Errorf("gemm %s: cuBLAS is told to multiply in float32, not in %s; use --gemm %s, or --precision %s", gemm, in, GEMMOwn, device.Float32)
	}
	l, ok := d.(device.Library)
	if !ok {
		return usage.Errorf("gemm %s: device %s has no cuBLAS; use --device cuda, or --gemm %s", gemm, d.Info().Name, GEMMOwn)
	}
	if _, err := l.CuBLAS(); err != nil {
		return fmt.Errorf("gemm %s: %w", gemm, err)
	}
	return nil
}
