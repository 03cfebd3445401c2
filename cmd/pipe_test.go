package cmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

// piped runs a command whose process has a file for standard input.
func piped(t *testing.T, file string, args ...string) ran {
	t.Helper()
	in, err := os.Open(file)
	check(t, err)
	defer in.Close()
	old := os.Stdin
	defer func() { os.Stdin = old }()
	os.Stdin = in
	return privgrad(args...)
}

// A table that is piped makes a run that has no use for its file, and is resumed and evaluated by piping again.
func TestPipedTable(t *testing.T) {
	t.Chdir(t.TempDir())
	table := "x,y\n" + strings.Repeat("0.1,a\n0.9,b\n", 50)
	check(t, os.WriteFile("t.csv", []byte(table), 0o644))
	check(t, os.WriteFile("s.yaml", []byte("columns:\n  - {name: x, bounds: [0, 1]}\nlabel: {column: y, classes: [a, b]}\n"), 0o644))
	train := []string{"train", "--data", "csv:-", "--schema", "s.yaml", "--public-n", "100", "--delta", "1e-4", "--noise-multiplier", "0.1", "--batch", "50", "--steps", "20", "--lr", "2", "--out", "run"}
	if r := piped(t, "t.csv", train...); r.code != cli.ExitDone || !strings.Contains(r.stdout, "Trained logistic on csv:-") {
		t.Fatalf("%+v", r)
	}
	if r := piped(t, os.DevNull, append(train[:len(train)-1:len(train)-1], "none")...); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "table - cannot be read: nothing comes through standard input") {
		t.Errorf("nothing is piped: %+v", r)
	}
	check(t, os.WriteFile("new.csv", []byte("x\n0\n1\n"), 0o644))
	r := piped(t, "new.csv", "predict", "run", "-")
	if lines := strings.Split(r.stdout, "\n"); r.code != cli.ExitDone || len(lines) != 3 || !strings.HasPrefix(lines[0], "-[0]  a") || !strings.HasPrefix(lines[1], "-[1]  b") {
		t.Errorf("predictions: %+v", r)
	}
	if r := piped(t, "t.csv", "eval", "run", "--data", "csv:-", "--test-is-public"); r.code != cli.ExitDone || !strings.Contains(r.stdout, "100 test records of csv:-") {
		t.Errorf("evaluation: %+v", r)
	}
	check(t, os.Remove(filepath.Join("run", "result.json"))) // as if it had been killed
	if r := piped(t, os.DevNull, "resume", "run"); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "needs the same data again") {
		t.Errorf("resumed without data: %+v", r)
	}
	if r := piped(t, "t.csv", "resume", "run"); r.code != cli.ExitDone {
		t.Errorf("resumed: %+v", r)
	}
	if _, err := os.Stat("none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a run without data left a folder (%v)", err)
	}
}
