package plan

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/source"
)

// A source of a program's own needs no directory, and is told the one that was given.
func TestOwnSourceNeedsNoDirectory(t *testing.T) {
	for _, given := range []string{"", t.TempDir()} {
		c := small()
		c.Classes, c.DataDir, c.PublicN, c.Delta = nil, given, ptr(400), ptr(1e-5)
		told := "nothing"
		own := map[string]source.Source{"made": {Open: func(dir string) (*datasets.Set, error) { told = dir; return made(1, 400), nil }}}
		_, err := Resolve(c, Options{Sources: own})
		check(t, err)
		if told != given {
			t.Errorf("the source was told %q, given was %q", told, given)
		}
	}
}

// Public test records without a class are told of.
func TestUnlabeledTestRecords(t *testing.T) {
	for bad, want := range map[int]string{0: "", 7: "7 of 80 public test records have a label that is none of the 4 classes"} {
		set := made(1, 400)
		for i := range bad {
			set.Test.Labels[3*i] = uint8(4 + i)
		}
		c := small()
		c.Classes = nil
		p, err := Resolve(c, Options{Sources: sources(set)})
		check(t, err)
		if said := strings.Join(p.Warnings, "; "); !strings.Contains(said, want) || (want == "") != (said == "") {
			t.Errorf("%d bad labels: %q, want %q", bad, said, want)
		}
	}
}
