package cmd

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
)

// A dry run says of ε, noise and steps what the run would, and needs no record: the folder of
// its data does not exist, and neither does the table.
func TestDryRun(t *testing.T) {
	data, dir := mnistFiles(t), t.TempDir()
	t.Chdir(dir)
	whole := object(t, ok(t, small(data, "--epsilon", "3", "--json", "--out", filepath.Join(t.TempDir(), "run"))...))
	r := object(t, ok(t, small("nowhere", "--epsilon", "3", "--dry-run", "--json")...))
	wantKeys(t, r, "dataset", "model", "parameters", "optimizer", "recipe", "device", "threads", "epsilon", "delta", "noise_multiplier", "accountant", "neighbouring",
		"guarantee", "not_a_guarantee_because", "sampling_rate", "expected_batch", "public_n", "count_records", "steps", "memory_bytes", "seconds_estimate")
	for _, key := range []string{"epsilon", "delta", "noise_multiplier", "sampling_rate", "steps", "public_n", "parameters", "guarantee", "accountant"} {
		if !reflect.DeepEqual(r[key], whole[key]) {
			t.Errorf("%s is %v, the run has %v", key, r[key], whole[key])
		}
	}
	if r["seconds_estimate"].(float64) < 1 || r["memory_bytes"].(float64) < 1<<20 {
		t.Errorf("memory and time: %v", r)
	}
	if err := os.WriteFile("t.csv.schema.yaml", []byte(`columns:
  - {name: x, bounds: [0, 1]}
  - {name: y, bounds: [0, 1]}
label: {column: z, classes: [a, b]}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	absent := "privgrad: warning: " + filepath.Join(dir, "t.csv") + " does not exist: training needs it, and this estimate does not\n"
	for _, more := range [][]string{
		{"--data", "csv:t.csv", "--public-n", "500", "--delta", "1e-4", "--batch", "50", "--epsilon", "1"},
		{"--epsilon", "1", "--batch", "60", "--steps", "20", "--model", "logistic", "--optimizer", "dp-blsgd", "--accountant", "rdp"},
		{"--epsilon", "1", "--batch", "60", "--steps", "20", "--model", "logistic", "--clipping", "adaptive", "--accountant", "rdp"},
		{"--epsilon", "0.5", "--batch", "60", "--steps", "20", "--model", "cnn-mnist", "--optimizer", "l2p", "--protector", "mnist", "--accountant", "rdp"},
		{"--epsilon", "1", "--optimizer", "majority"},
		{"--model", "logistic", "--optimizer", "sgd", "--steps", "3"},
		{"--data", "csv:t.csv", "--public-n", "500", "--optimizer", "lbfgs"},
		{"--noise-multiplier", "0", "--model", "logistic", "--batch", "60", "--steps", "3"},
	} {
		args := append([]string{"train", "--dry-run", "--json"}, more...)
		said := privgrad(args...)
		if said.code != cli.ExitDone || strings.Contains(said.stderr, absent) != (more[1] == "csv:t.csv") {
			t.Fatalf("%v: exit %d, %q", more, said.code, said.stderr)
		}
		r := object(t, said.stdout)
		if once := more[len(more)-1] == "majority" || more[len(more)-1] == "lbfgs"; (r["seconds_estimate"] == nil) != once {
			t.Errorf("%v: the time is %v", more, r["seconds_estimate"])
		}
	}
	text := ok(t, "train", "--dry-run", "--epsilon", "1", "--optimizer", "majority")
	for _, want := range []string{"no record was read", "ε = 1, δ = 0", "Memory", "for records, features and a batch (result.json will say", "unknown: majority is no sequence of steps"} {
		if !strings.Contains(text, want) {
			t.Errorf("a dry run does not say %q:\n%s", want, text)
		}
	}
	there := filepath.Join(t.TempDir(), "t.csv")
	for name, text := range map[string]string{there + ".gz": "", there + ".schema.yaml": readFile(t, "t.csv.schema.yaml")} {
		check(t, os.WriteFile(name, []byte(text), 0o600))
	}
	ok(t, "train", "--dry-run", "--data", "csv:"+there, "--public-n", "500", "--delta", "1e-4", "--batch", "50", "--epsilon", "1", "--steps", "2")
	if left := tree(t, dir); len(left) != 1 {
		t.Errorf("it wrote %v", left)
	}
	fails(t, cli.ExitUsage, []string{"train", "--epsilon", "1", "--dry-run", "--resume", "--out", "x"}, "--resume")
	fails(t, cli.ExitUsage, []string{"train", "--dry-run", "--json"}, "--epsilon")
}

// A dry run asks no optimizer for more steps than its run has.
func TestDryRunOfFewSteps(t *testing.T) {
	needs := map[string]string{
		"banco":        "--data mnist --published-set --epsilon 1",
		"bassily-sgd":  "--classes 3,5 --epsilon 1 --radius 10",
		"dp-adam":      "--classes 3,5 --noise-multiplier 1", // to find noise for an ε takes longer
		"dp-adamw":     "--classes 3,5 --noise-multiplier 1",
		"dp-nesterov":  "--classes 3,5 --noise-multiplier 1",
		"dp-sgd":       "--classes 3,5 --noise-multiplier 1",
		"l2p":          "--classes 3,5 --epsilon 1 --protector mnist",
		"objpert":      "once --classes 3,5 --epsilon 1",
		"outpert-rsgd": "once --classes 3,5 --epsilon 1 --epochs 1 --batch 2000",
		"majority":     "once --classes 3,5 --epsilon 1",
		"lbfgs":        "once --classes 3,5",
		"adam":         "--classes 3,5",
		"sgd":          "--classes 3,5",
		"pur-a":        "--classes 3,5 --epsilon 1 --radius 10",
		"pur-b":        "--classes 3,5 --epsilon 1 --radius 10",
		"pur-c":        "--classes 3,5 --epsilon 1 --l2 0.01",
		"pur-constant": "--classes 3,5 --epsilon 1 --pur-sigma 0.01",
		"pur-oracle":   "--classes 3,5 --l2 0.01",
		"rrpsgd":       "--classes 3,5 --noise-multiplier 1 --public-n 100 --batch 2",
	}
	for _, name := range config.Optimizers() {
		need, known := needs[name]
		if !known {
			need = "--classes 3,5 --epsilon 1"
		}
		need, once := strings.CutPrefix(need, "once ")
		line := "train --dry-run --json --threads 1 --model logistic --optimizer " + name + " " + need
		lines := []string{line + " --steps 1", line + " --steps 5"}
		if once {
			lines = []string{line}
		}
		for _, line := range lines {
			r := privgrad(strings.Fields(line)...) // some warn
			if r.code != cli.ExitDone {
				t.Errorf("privgrad %s: exit %d, %s", line, r.code, r.stderr)
				continue
			}
			if seconds, timed := object(t, r.stdout)["seconds_estimate"].(float64); timed && !(seconds >= 1) {
				t.Errorf("privgrad %s: the time is %v", line, seconds)
			}
		}
	}
}

func TestResumeCommand(t *testing.T) {
	data, out := mnistFiles(t), filepath.Join(t.TempDir(), "run")
	args := small(data, "--epsilon", "3", "--noise", "seeded", "--eval-every", "1", "--out", out)
	ok(t, args...)
	whole := readFile(t, out, "model.safetensors")
	again := privgrad("resume", out, "--threads", "2")
	if again.code != cli.ExitDone || !strings.Contains(again.stderr, "had finished") || !strings.Contains(again.stdout, ": 4 steps (") {
		t.Errorf("a finished run: %+v", again)
	}
	// Interrupted before the result was written, it goes on and says how little it did.
	check(t, os.Remove(filepath.Join(out, "result.json")))
	if text := ok(t, "resume", out); !strings.Contains(text, ": 4 steps (") || readFile(t, out, "model.safetensors") != whole {
		t.Errorf("resumed: %s", text)
	}
	fails(t, cli.ExitUsage, []string{"resume", filepath.Join(out, "none")}, "no run to resume", "config.yaml")
	fails(t, cli.ExitUsage, []string{"resume"}, "a run directory")
	fails(t, cli.ExitUsage, []string{"resume", out, "--epsilon", "3"}, "unknown flag")
}
