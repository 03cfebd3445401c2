package cudrv_test

import (
	"errors"
	"testing"

	"github.com/privgrad/privgrad/cuda/driver"
	"github.com/privgrad/privgrad/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/cuda/driver/drivertest"
	"github.com/privgrad/privgrad/cuda/gputest"
)

// Where there is a GPU, it does what the fake is held to.
func TestGPU(t *testing.T) {
	if gputest.On() {
		drivertest.Run(t, gputest.Driver(t))
		return
	}
	d, err := cudrv.Open()
	if err != nil {
		t.Skip(err)
	}
	n, err := d.Devices()
	if e := (*driver.Error)(nil); errors.As(err, &e) && e.Code == driver.NoDevice || n == 0 {
		t.Skip("the driver sees no device")
	}
	drivertest.Run(t, d)
}
