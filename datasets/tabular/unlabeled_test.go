package tabular

import (
	"strings"
	"testing"
)

// A file to predict needs no labels, but every other column. Its own names must change: the
// schema is the model's.
func TestUnlabeledNeedsEveryFeature(t *testing.T) {
	dir := t.TempDir()
	trained := write(t, dir, "trained.csv", "a,b,y\n1,2,0\n")
	write(t, dir, "trained.csv.schema.yaml", "columns: [{name: a, bounds: [0, 4]}, {name: b, bounds: [0, 4]}]\nlabel: {column: y, classes: [0, 1]}\n")

	m, err := Unlabeled(write(t, dir, "new.csv", "b,a\n2,1\n"), trained, Options{})
	if err != nil || m.Len() != 1 {
		t.Errorf("a file without labels: %v, %+v", err, m)
	}
	_, err = Unlabeled(write(t, dir, "narrow.csv", "a\n1\n"), trained, Options{})
	if err == nil || !strings.Contains(err.Error(), `no column "b", which the model takes: give the file all columns`) {
		t.Errorf("a file without column b: %v", err)
	}
}
