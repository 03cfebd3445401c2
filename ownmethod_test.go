package privgrad_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/privgrad/privgrad/train"
)

// A module of its own implements a method, and trains privately by it.
func TestOwnMethod(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command("go", "run", ".", out)
	cmd.Dir = filepath.Join("testdata", "ownmethod")
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	var r train.Result
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if r.Optimizer != "dp-signsgd" || !r.Guarantee || r.Epsilon == nil || *r.Epsilon > 1 || *r.Epsilon < 0.99 || r.Steps != 40 || r.TestAccuracy == nil || *r.TestAccuracy < 0.9 {
		t.Errorf("the run says %s", b)
	}
}
