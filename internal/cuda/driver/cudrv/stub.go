//go:build !gocuda || !cgo || !linux

package cudrv

import (
	"errors"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

// Open fails: this binary was built without the driver.
func Open() (driver.Driver, error) {
	return nil, errors.New("this build has no CUDA: run make build on Linux with a C compiler")
}
