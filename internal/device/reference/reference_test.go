package reference_test

import (
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/devicetest"
	"github.com/privgrad/privgrad/internal/device/reference"
)

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(*testing.T) device.Device { return reference.Open() })
}
