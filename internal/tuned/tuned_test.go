package tuned

import (
	"testing"

	"github.com/privgrad/privgrad/internal/rundir"
)

func TestSettings(t *testing.T) {
	tuning := Tuning{Grid: "lr=0.1,0.5;clip=1,2", Chosen: map[string]any{"clip": 2.0, "lr": 0.5}}
	if got := tuning.Settings(); got != "lr=0.5, clip=2" {
		t.Errorf("the settings are %q", got)
	}
	tuning.Chosen = nil
	if got := tuning.Settings(); got != "the initial model, since no trial was made" {
		t.Errorf("without a trial, they are %q", got)
	}
}

func TestRead(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	if r, err := Read(dir); r != nil || err != nil {
		t.Errorf("of no tuning: %v, %v", r, err)
	}
	for _, text := range []string{"", "{}", "no JSON"} {
		if err := dir.Write(rundir.Tuning, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if r, err := Read(dir); err == nil {
			t.Errorf("%q is read as %v", text, r)
		}
	}
}
