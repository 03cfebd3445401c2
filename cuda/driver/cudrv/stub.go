//go:build !gocuda || !cgo

package cudrv

import (
	"errors"

	"github.com/privgrad/privgrad/cuda/driver"
)

// Open fails: this binary was built without the driver.
func Open() (driver.Driver, error) {
	return nil, errors.New("this build has no CUDA: run make build on a machine with a C compiler, or build with CGO_ENABLED=1 and -tags gocuda")
}
