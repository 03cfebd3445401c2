//go:build mpi

package train

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/privgrad/privgrad/internal/collective/mpi"
	"github.com/privgrad/privgrad/internal/rundir"
)

// Processes that mpirun has started write the bytes of one process, if their noise is exact and their keys are the same.
func TestProcessesAreOneRun(t *testing.T) {
	g, err := mpi.Open(time.Minute)
	check(t, err)
	c := small()
	c.Noise = "exact"
	o := Options{Sources: sources(made(1, 390)), keys: injected(5), RunID: "0123456789abcdef0123456789abcdef"}
	o.Out, o.Group = filepath.Join(t.TempDir(), "run"), g
	finished(t, c, o)
	check(t, g.Close())
	if g.Rank() > 0 {
		return
	}
	together := o.Out
	o.Out, o.Group = filepath.Join(t.TempDir(), "run"), nil
	finished(t, c, o)
	for _, name := range []string{rundir.Model, rundir.Metrics, rundir.Ledger} {
		if string(read(t, together, name)) != string(read(t, o.Out, name)) {
			t.Errorf("%s of %d processes has other bytes than that of one", name, g.Size())
		}
	}
	t.Logf("model, metrics and ledger of %d processes have the bytes of one", g.Size())
}
