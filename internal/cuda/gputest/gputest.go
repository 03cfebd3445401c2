// Package gputest chooses what tests of GPU code run on: the interpreter and
// the fake driver, or, where PRIVGRAD_GPU is set, the installed driver and its
// first GPU. There is then no falling back: a GPU that is missing is a failure.
package gputest

import (
	"os"
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/cudrv"
)

// Variable is 1 to test on the GPU, or bare to do so with buffers that end where
// a kernel's arrays do, for compute-sanitizer, which watches their ends itself.
const Variable = "PRIVGRAD_GPU"

// On says whether tests take the GPU.
func On() bool { return os.Getenv(Variable) != "" }

// Driver is the installed driver, which sees a GPU. A test in a build without
// the driver is skipped: it could not pass anywhere.
func Driver(t testing.TB) driver.Driver {
	t.Helper()
	d, err := cudrv.Open()
	if err != nil {
		if !built {
			t.Skipf("%s is set, but %v", Variable, err)
		}
		t.Fatalf("no GPU to test on, though %s is set: %v", Variable, err)
	}
	n, err := d.Devices()
	if err != nil || n == 0 {
		t.Fatalf("no GPU to test on, though %s is set: the driver sees %d devices (%v)", Variable, n, err)
	}
	return d
}
