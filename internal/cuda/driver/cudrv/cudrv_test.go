package cudrv_test

import (
	"errors"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/internal/cuda/driver/drivertest"
	"github.com/privgrad/privgrad/internal/cuda/gputest"
)

// Where there is a GPU, it does what the fake is held to.
func TestGPU(t *testing.T) {
	if gputest.On() {
		drivertest.Run(t, gputest.Driver(t))
		return
	}
	d, err := cudrv.Open()
	if err != nil {
		t.Skipf("only a machine with NVIDIA's driver can test it: %v", err)
	}
	n, err := d.Devices()
	if e := (*driver.Error)(nil); errors.As(err, &e) && e.Code == driver.NoDevice || n == 0 {
		t.Skip("NVIDIA's driver is here, and sees no GPU to test on")
	}
	drivertest.Run(t, d)
}
