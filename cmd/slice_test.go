//go:build unix

package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

// A run is made in slices by commands: out, away, in, and to the end. Its files then go together, and a slice is no second run.
func TestSliceCommands(t *testing.T) {
	data, dir := mnistFiles(t), t.TempDir()
	home, away := filepath.Join(dir, "home"), filepath.Join(dir, "away")
	cmd, _, _ := process(t, "", "train", "--data", "mnist", "--data-dir", data, "--published-set", "--model", "logistic", "--classes", "3,5", "--noise-multiplier", "20",
		"--accountant", "rdp", "--batch", "100", "--steps", "2000", "--eval-every", "50", "--threads", "1", "--out", home)
	await(t, "a step", func() bool { return lastStep(home) > 0 })
	check(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()

	fails(t, cli.ExitUsage, []string{"slice", "out", home}, "--slots")
	fails(t, cli.ExitUsage, []string{"slice", "out", home, "--slots", "5000", "--json"}, "slots 5000", "steps left of 2000")
	fails(t, cli.ExitUsage, []string{"slice", "in", home}, "--lost")
	fails(t, cli.ExitUsage, []string{"slice", "in", home, away, "--lost"}, "--lost")
	fails(t, cli.ExitUsage, []string{"slice", "in"}, "--lost")
	fails(t, cli.ExitUsage, []string{"slice", "in", home, "--lost"}, "no slice")

	text := ok(t, "slice", "out", home, "--slots", "30")
	folder := home + ".slice-1"
	for _, want := range []string{"slice 1 of " + home + " is in " + folder, "of 2000", "privgrad resume " + folder, "privgrad slice in " + home + " " + folder} {
		if !strings.Contains(text, want) {
			t.Errorf("slice out says %q, and not %q", text, want)
		}
	}
	fails(t, cli.ExitUsage, []string{"resume", home}, "is out", "privgrad slice in "+home+" --lost")
	lost := object(t, ok(t, "slice", "in", home, "--lost", "--json"))
	wantKeys(t, lost, "run", "slice", "lost", "updates", "step", "skipped", "returned", "committed_schedule", "charged")
	if lost["lost"] != true || lost["skipped"] != 30.0 || lost["charged"] != lost["step"].(float64)+30 {
		t.Errorf("a slice that is lost: %v", lost)
	}
	fails(t, cli.ExitUsage, []string{"resume", folder}, "starts once") // the run gave it up

	out := object(t, ok(t, "slice", "out", home, "--slots", "100", "--json"))
	wantKeys(t, out, "run", "folder", "slice", "first_step", "last_step", "committed_schedule", "charged")
	if out["slice"] != 2.0 || out["last_step"] != out["charged"] || out["first_step"] != lost["charged"].(float64)+1 {
		t.Errorf("the second slice: %v", out)
	}
	check(t, os.Rename(out["folder"].(string), away))
	r := privgrad("resume", away, "--threads", "2")
	if r.code != cli.ExitDone || !strings.Contains(r.stdout, "slice complete") || !strings.Contains(r.stdout, "privgrad slice in RUN "+away) || !strings.Contains(r.stderr, "30 charged steps") {
		t.Errorf("a slice is made: exit %d, %q, %q", r.code, r.stdout, r.stderr)
	}
	fails(t, cli.ExitUsage, []string{"resume", away}, "starts once")
	fails(t, cli.ExitUsage, []string{"eval", away}, "is a slice of a run")
	for _, command := range [][]string{{"verify", home, away}, {"report", home, away, "--out", filepath.Join(dir, "page.html")}} {
		fails(t, cli.ExitUsage, command, "is a slice of a run", "charges all")
	}
	in := object(t, ok(t, "slice", "in", home, away, "--json"))
	if in["updates"] != 100.0 || in["skipped"] != 0.0 || in["returned"] != 0.0 || in["charged"] != out["charged"] {
		t.Errorf("a slice that is in: %v", in)
	}
	fails(t, cli.ExitUsage, []string{"slice", "in", home, away}, "taken in already")

	result := object(t, ok(t, "resume", home, "--json"))
	if result["steps"] != 2000.0-30 || result["committed_schedule"] != 2000.0 || result["epsilon_so_far"] != result["epsilon"] {
		t.Errorf("the run ends with %v", result)
	}
	ok(t, "verify", home)
	ok(t, "report", home)
	fails(t, cli.ExitUsage, []string{"slice", "out", home, "--slots", "1"}, "has finished")
}
