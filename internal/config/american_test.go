package config

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
		check(t, os.WriteFile(path, []byte(text), 0o600))
		c := Default()
		err := Read(path, &c)
		return c, err
	}
	for _, text := range []string{"neighboring: replace-one\nstrategy: materialize\n", "{neighboring: replace-one, strategy: materialize}\n", "{strategy: materialize,\n  \"neighboring\": replace-one}"} {
		if c, err := read(text); err != nil || c.Neighbouring != "replace-one" || !c.Given["neighbouring"] {
			t.Errorf("%q: %v: %q", text, err, c.Neighbouring)
		}
	}
	if _, err := read("{neighboring: replace-one, neighbouring: add-remove}"); err == nil {
		t.Error("both spellings are accepted in braces")
	}
	if _, err := read("neighboring: replace-one\nneighbouring: add-remove\n"); err == nil {
		t.Error("both spellings are accepted")
	}
	if _, err := read("epsilno: 3\n"); err == nil || !strings.Contains(err.Error(), "did you mean epsilon?") {
		t.Error(err)
	}
}
