package cuda_test

import (
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/cuda/gputest"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
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
