package cuda_test

import (
	"testing"

	"github.com/privgrad/privgrad/cuda/driver/fake"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
)

// TestConformance runs a part of the suite of all devices; which part says package devicetest.
func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) device.Device { return devicetest.Sampled(open(t, fake.Options{}), 23) })
}
