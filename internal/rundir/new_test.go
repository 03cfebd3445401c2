package rundir

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// Runs that begin in the same second get directories of their own.
func TestNewNeverCollides(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs", "20260101T000000Z-a-b-c")
	const runs = 20
	var group sync.WaitGroup
	made, errs := make([]string, runs), make([]error, runs)
	for i := range runs {
		group.Go(func() { made[i], errs[i] = New(name) })
	}
	group.Wait()
	for i := range runs {
		if errs[i] != nil || made[i] == "" {
			t.Fatal(errs[i])
		}
	}
	slices.Sort(made)
	if len(slices.Compact(made)) != runs || !slices.Contains(made, name) || !slices.Contains(made, name+"-2") || !slices.Contains(made, name+"-20") {
		t.Errorf("directories %q", made)
	}
}
