package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// American spellings are read, and the stored ones kept. A slip is told what was meant.
func TestSpellings(t *testing.T) {
	read := func(text string) (Config, error) {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Default()
		err := ReadConfig(path, &c)
		return c, err
	}
	if c, err := read("neighboring: replace-one\nstrategy: materialize\n"); err != nil || c.Neighbouring != "replace-one" || !c.given["neighbouring"] {
		t.Errorf("%v: %q", err, c.Neighbouring)
	}
	if _, err := read("neighboring: replace-one\nneighbouring: add-remove\n"); err == nil {
		t.Error("both spellings are accepted")
	}
	if _, err := read("epsilno: 3\n"); err == nil || !strings.Contains(err.Error(), "did you mean epsilon?") {
		t.Error(err)
	}
}
