//go:build !mpi

package mpi

import (
	"errors"
	"time"

	"github.com/privgrad/privgrad/internal/collective"
)

// Built says whether this program has MPI.
const Built = false

// Open says what is missing.
func Open(time.Duration) (collective.Group, error) {
	return nil, errors.New("this program was built without MPI: install Open MPI or MPICH, and build it by `make mpi`")
}
