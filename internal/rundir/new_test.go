package rundir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// A damaged model file is named, with what to do.
func TestDamagedModel(t *testing.T) {
	file := filepath.Join(t.TempDir(), Model)
	if err := os.WriteFile(file, []byte("half a fi"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadTensors(file); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "put back a copy") {
		t.Errorf("the error is %v", err)
	}
}
