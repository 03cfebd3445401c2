package features

import (
	"io"
	"slices"
	"testing"
)

// A rehearsal of a size that is not shipped makes no constants, and its rows are as wide as those of the front end.
func TestRehearse(t *testing.T) {
	for _, spec := range small {
		fitted := 0
		for i := range kinds {
			was := kinds[i].fit
			kinds[i].fit = func(shape [3]int, progress func(float64)) (map[string][]float32, error) {
				fitted++
				return was(shape, progress)
			}
			defer func() { kinds[i].fit = was }()
		}
		f, err := Rehearse(spec)
		if err != nil || fitted > 0 {
			t.Fatalf("%s: constants of %d kinds were made, %v", spec.name(), fitted, err)
		}
		if took := f.FitTime(); fitted > 0 || spec.Whiten != None && took == 0 {
			t.Errorf("%s: constants of %d kinds were made for an estimate of %v", spec.name(), fitted, took)
		}
		like, err := New(spec, nil)
		if err != nil || fitted == 0 {
			t.Fatalf("%s: constants of %d kinds were made, %v", spec.name(), fitted, err)
		}
		if f.Out() != like.Out() || f.Spec() != like.Spec() {
			t.Errorf("%s: rows of shape %v, want %v", spec.name(), f.Out(), like.Out())
		}
		if row := f.Rows(Images{Values: drawn(f.In(), 1)}, 1, nil); slices.Contains(row, notANumber) {
			t.Errorf("%s: a row is not finite", spec.name())
		}
		if digest, err := f.Digest(); digest != "" || err != nil {
			t.Errorf("%s: made-up constants have the digest %q, %v", spec.name(), digest, err)
		}
		if f.Write(io.Discard) == nil {
			t.Errorf("%s: made-up constants are written", spec.name())
		}
	}
}

// What comes with the package is there, and takes no time.
func TestRehearseShipped(t *testing.T) {
	spec := shipped[0]
	f, err := Rehearse(spec)
	if err != nil {
		t.Fatal(err)
	}
	like, err := New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := f.Digest()
	want, _ := like.Digest()
	if got != want || f.FitTime() != 0 {
		t.Errorf("digest %q, want %q; its constants take %v", got, want, f.FitTime())
	}
	if _, err := Rehearse(Spec{Kind: "none"}); err == nil {
		t.Error("features that are none are rehearsed")
	}
}
