//go:build mpi

package mpi

import (
	"fmt"
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

// What a step adds up, for networks of so many parameters: `mpirun -n 2 mpi.test -test.run '^$' -test.bench . -test.benchtime 20x`, whose
// number of times must be fixed, so that all ranks make the same calls.
func BenchmarkSum(b *testing.B) {
	g, err := Open(time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{7_850, 102_550, 1_000_000, 5_851_338} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			values := make([]int64, n)
			b.SetBytes(int64(8 * n))
			for b.Loop() {
				if err := g.SumInt64(values); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
