package cuda_test

import (
	"testing"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/gputest"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/perexample"
)

// TestConformance runs the suite of all devices on a GPU, and a part of it by
// interpretation; which part says package devicetest.
func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) device.Device {
		d := open(t, fake.Options{})
		if gputest.On() {
			return d
		}
		return devicetest.Sampled(d, 37)
	})
}

// TestPrecisionsHavePrograms: what the suite runs in a precision has products that are in that precision on this device, and not all
// in float32. Each of them has several, so that one feeds another.
func TestPrecisionsHavePrograms(t *testing.T) {
	for _, precision := range []device.Precision{device.TF32, device.BF16} {
		found := 0
		for _, program := range devicetest.ProgramsIn(precision) {
			on, err := cuda.TensorProducts(private(t, program, perexample.Auto), device.Options{Capacity: 8, Precision: precision}, 227<<10)
			must(t, err)
			if on > 1 {
				found++
			}
		}
		if found < 3 {
			t.Errorf("in %s %d programs have two products or more on tensor cores, want three such programs", precision, found)
		}
	}
}

// TestLongPrecisions runs it on tensor cores.
func TestLongPrecisions(t *testing.T) {
	for _, p := range []device.Precision{device.TF32, device.BF16} {
		t.Run(p.String(), func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device {
				d := open(t, fake.Options{})
				if gputest.On() {
					return devicetest.At(d, p)
				}
				return devicetest.At(devicetest.Sampled(d, 97), p)
			})
		})
	}
}
