package cmd

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

// tuneArgs are those of a short tuning, of the data of small.
func tuneArgs(data, out string, more ...string) []string {
	args := append([]string{"tune"}, small(data, "--epsilon", "3", "--grid", "lr=.1,.5;clip=.5,1", "--out", out)[1:]...)
	return append(args, more...)
}

// tune prints the keys of result.json. The other commands take its run for what it is.
func TestTuneJSON(t *testing.T) {
	data, out := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	args := tuneArgs(data, out, "--json", "--trials", "tnb:1,0.5")
	tuned := func(args ...string) string {
		t.Helper()
		r := privgrad(args...)
		if r.code != 0 {
			t.Fatalf("exit %d, %s", r.code, r.stderr)
		}
		return r.stdout
	}
	text := tuned(args...)
	r := object(t, text)
	wantKeys(t, r, append(slices.Clone(resultKeys), "tuning")...)
	if stored := object(t, readFile(t, out, "result.json")); !reflect.DeepEqual(r, stored) {
		t.Errorf("printed %v, stored %v", r, stored)
	}
	if e := r["epsilon"].(float64); r["tuning_charged"] != true || r["guarantee"] != true || e > 3 || e < 2.99 || r["run"] != out {
		t.Errorf("result %s", text)
	}
	if again := tuned(append(args, "--resume")...); again != text {
		t.Error("resuming a finished tuning changed its result")
	}
	if said := object(t, ok(t, "verify", out, "--json")); said["ok"] != true {
		t.Errorf("verify: %v", said)
	}
	if said := object(t, ok(t, "report", out, "--statement", "--json")); said["tuning_charged"] != true || said["epsilon"] != 3.0 {
		t.Errorf("statement: %v", said)
	}
	for name, words := range map[string]string{"model-card.md": "chosen settings: lr=", "report.html": "all trials of a tuning"} {
		if !strings.Contains(readFile(t, out, name), words) {
			t.Errorf("%s does not say %q", name, words)
		}
	}
	both := object(t, ok(t, "report", out, out, "--out", filepath.Join(t.TempDir(), "both.html"), "--json"))
	if both == nil {
		t.Error("no report of two")
	}
	shown := tuned(slices.DeleteFunc(append(args, "--resume"), func(a string) bool { return a == "--json" })...)
	for _, words := range []string{"Settings", "the best of a secret number of trials, 2 on average", "the grid, and all settings that are not in it"} {
		if !strings.Contains(shown, words) {
			t.Errorf("the summary does not say %q:\n%s", words, shown)
		}
	}
}

// The dry run says what a trial costs beside the whole, and writes nothing.
func TestTuneDryRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	args := []string{"tune", "--epsilon", "3", "--grid", "lr=.1,.5;clip=.5,1", "--model", "logistic", "--out", out, "--dry-run"}
	r := object(t, ok(t, append(args, "--json")...))
	wantKeys(t, r, "epsilon", "trial_epsilon", "delta", "accountant", "neighbouring", "trials", "expected_trials", "grid", "choices", "score", "noise_multipliers",
		"noise_multiplier_of_a_single_run")
	noise := r["noise_multipliers"].([]any)
	if r["choices"] != 4.0 || r["expected_trials"] != 10.0 || !(r["trial_epsilon"].(float64) < 2) || !(noise[0].(float64) > r["noise_multiplier_of_a_single_run"].(float64)) {
		t.Errorf("dry run: %v", r)
	}
	for _, words := range []string{"One trial", "10 on average", "settings chosen on public data"} {
		if shown := ok(t, args...); !strings.Contains(shown, words) {
			t.Errorf("the dry run does not say %q:\n%s", words, shown)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the dry run has written a directory")
	}
}

func TestTuneRefuses(t *testing.T) {
	fails(t, cli.ExitUsage, []string{"tune", "--epsilon", "3"}, "grid")
	fails(t, cli.ExitUsage, []string{"tune", "--grid", "lr=1,2"}, "--epsilon")
	fails(t, cli.ExitUsage, []string{"tune", "--epsilon", "3", "--grid", "lr=1,2", "--resume"}, "--out")
	fails(t, cli.ExitUsage, []string{"tune", "--epsilon", "3", "--grid", "lr=1,2", "--resume", "--dry-run"}, "--dry-run")
	fails(t, cli.ExitUsage, []string{"tune", "--epsilon", "3", "--grid", "lr=1,2", "--trials", "7"}, "poisson:MEAN")
	fails(t, cli.ExitRefused, []string{"tune", "--epsilon", "0.012", "--grid", "lr=1,2"}, "does not pay for the tuning")
}
