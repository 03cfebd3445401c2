package cuda_test

import (
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
)

// TestConformanceOnGPU runs the whole suite where there is a GPU that this build can use.
func TestConformanceOnGPU(t *testing.T) {
	d, err := cudrv.Open()
	if err != nil {
		t.Skipf("only a machine with NVIDIA's driver and a GPU runs this; the same suite runs on the interpreted GPU: %v", err)
	}
	if n, err := d.Devices(); err != nil || n == 0 {
		t.Skipf("there are %d GPUs (%v)", n, err)
	}
	devicetest.Run(t, func(t *testing.T) device.Device {
		g, err := cuda.Open(d, 0)
		must(t, err)
		return g
	})
}
