package train

import (
	"context"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// Beside a large table a run has memory collected early, and leaves collection as it was.
func TestGarbageIsBounded(t *testing.T) {
	usual := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	before := debug.SetGCPercent(90)
	defer debug.SetGCPercent(before)
	set := made(1, 400)
	for len(set.Train.Features) < 2<<20 {
		set.Train.Features = append(set.Train.Features, set.Train.Features...)
		set.Train.Labels = append(set.Train.Labels, set.Train.Labels...)
	}
	c, o := small(), Options{}
	o.Sources, o.Out = sources(set), filepath.Join(t.TempDir(), "run")
	within := 0
	o.onRelease = func(int) error {
		within = usual()
		return nil
	}
	if _, err := Run(context.Background(), c, o); err != nil {
		t.Fatal(err)
	}
	if within < 1 || within >= 90 {
		t.Errorf("in a step, collection is at %d%%", within)
	}
	if got := usual(); got != 90 {
		t.Errorf("after the run, collection is at %d%%, want 90", got)
	}
}
