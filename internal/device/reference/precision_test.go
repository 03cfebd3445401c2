package reference_test

import (
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
)

// TestPrecisions holds the reference to the suite in each precision: strategies agree, and no share is longer than it may be.
func TestPrecisions(t *testing.T) {
	for _, p := range []device.Precision{device.TF32, device.BF16} {
		t.Run(p.String(), func(t *testing.T) {
			devicetest.Run(t, func(*testing.T) device.Device { return devicetest.At(devicetest.Sampled(reference.Open(), 41), p) })
		})
	}
}
