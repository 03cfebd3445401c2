//go:build mpi

package mpi

import (
	"testing"
	"time"

	"github.com/privgrad/privgrad/internal/collective/collectivetest"
)

// Alone, or as `mpirun -n 4 mpi.test`.
func TestConformance(t *testing.T) {
	g, err := Open(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := collectivetest.Run(g); err != nil {
		t.Errorf("rank %d: %v", g.Rank(), err)
	}
	t.Logf("rank %d of %d", g.Rank(), g.Size())
	if err := g.Close(); err != nil || g.Barrier() == nil {
		t.Errorf("a closed group goes on, or %v", err)
	}
}
