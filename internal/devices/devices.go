// Package devices opens what runs a network: the processor, a GPU, or the reference.
package devices

import (
	"fmt"
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

// Open opens a device by its name on the command line. "auto" is the first
// GPU where there is one that this build can use, else the processor.
func Open(name string, threads int) (device.Device, error) {
	switch {
	case name == "auto":
		if d, err := openGPU(0); err == nil {
			return d, nil
		}
		return cpu.Open(threads)
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
	driver, err := cudrv.Open()
	if err != nil {
		return nil, err
	}
	return cuda.Open(driver, ordinal)
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
