package train

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/usage"
)

// Who multiplies the matrices of dense layers.
const (
	GEMMOwn    = "own"    // the project's kernels
	GEMMCuBLAS = "cublas" // NVIDIA's library, on a GPU
)

func (c *Config) cuBLAS() bool { return c.GEMM == GEMMCuBLAS }

// CheckGEMM says whether a device multiplies by what a setting names, in some precision.
func CheckGEMM(d device.Device, gemm string, in device.Precision) error {
	switch gemm {
	case GEMMOwn:
		return nil
	case GEMMCuBLAS:
	default:
		return usage.Errorf("unknown gemm %q: choose one of %s, %s", gemm, GEMMOwn, GEMMCuBLAS)
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
