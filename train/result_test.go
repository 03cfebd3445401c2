package train

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/rundir"
)

// A result that lost what a guarantee consists of is refused when its run is asked for it.
func TestEditedResult(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	c, o := small(), Options{Sources: sources(made(1, 400)), Out: out, Resume: ResumeAuto}
	finished(t, c, o)
	path := filepath.Join(out, rundir.Result)
	whole, err := os.ReadFile(path)
	check(t, err)
	for _, key := range []string{"run", "epsilon", "delta", "accountant", "neighbouring"} {
		var all map[string]any
		check(t, json.Unmarshal(whole, &all))
		delete(all, key)
		text, err := json.Marshal(all)
		check(t, err)
		check(t, os.WriteFile(path, text, 0o644))
		if _, err := Run(context.Background(), c, o); err == nil || !strings.Contains(err.Error(), "is not what a run writes") {
			t.Errorf("without %s: %v", key, err)
		}
	}
	check(t, os.WriteFile(path, whole, 0o644))
	finished(t, c, o)
}
