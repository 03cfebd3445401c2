package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/bench/compare"
	"github.com/privgrad/privgrad/internal/cli"
)

// only is the single element of a list in a JSON object.
func only(t *testing.T, o map[string]any, key string) map[string]any {
	t.Helper()
	list, _ := o[key].([]any)
	if len(list) == 0 {
		t.Fatalf("no %s in %v", key, o)
	}
	return list[0].(map[string]any)
}

func TestBenchKernels(t *testing.T) {
	gemm := []string{"bench", "gemm", "--model", "mlp-fmnist", "--batch", "8", "--threads", "1", "--seconds", "0.005"}
	r := object(t, ok(t, append(gemm, "--json")...))
	wantKeys(t, r, "isa", "peak_isa", "products")
	wantKeys(t, only(t, r, "products"), "m", "k", "n", "kind", "threads", "gflops", "peak_gflops", "fraction", "isa")
	if human := ok(t, gemm...); !strings.Contains(human, "8×784×256") || !strings.Contains(human, "of peak") {
		t.Errorf("bench gemm shows\n%s", human)
	}

	noise := []string{"bench", "noise", "--threads", "1", "--seconds", "0.005"}
	wantKeys(t, only(t, object(t, ok(t, append(noise, "--json")...)), "ciphers"), "noise", "cipher", "threads", "seconds_per_draw_per_core", "draws_per_second")
	if human := ok(t, noise...); !strings.Contains(human, "ChaCha20") {
		t.Errorf("bench noise shows\n%s", human)
	}

	sampler := []string{"bench", "sampler", "--public-n", "500", "--batch", "20", "--seconds", "0.005"}
	wantKeys(t, only(t, object(t, ok(t, append(sampler, "--json")...)), "samplers"),
		"sampler", "cipher", "records", "sampling_rate", "batches_timed", "batch_seconds_median", "rows_per_second")
	if human := ok(t, sampler...); !strings.Contains(human, "poisson") || !strings.Contains(human, "0.04") {
		t.Errorf("bench sampler shows\n%s", human)
	}

	fails(t, cli.ExitUsage, []string{"bench", "noise", "--seconds", "0"}, "seconds 0")
	fails(t, cli.ExitUsage, []string{"bench", "sampler", "--batch", "0"}, "batch 0")
}

// Without Python there is one line about it, and this program's own steps are
// measured: here by the test binary, as a child.
func TestBenchCompareWithoutPeers(t *testing.T) {
	t.Setenv(childVariable, "command")
	dir := t.TempDir()
	out := filepath.Join(dir, "c.json")
	python := filepath.Join(dir, "python")
	r := privgrad("bench", "compare", "--model", "mlp-fmnist", "--rounds", "1", "--seconds", "0.01", "--threads", "1",
		"--python", python, "--out", out, "--json", "--progress", "off")
	if r.code != cli.ExitDone || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "privgrad: every peer is left out: ") || !strings.Contains(r.stderr, python) {
		t.Fatalf("exit %d, said %q", r.code, r.stderr)
	}
	printed := object(t, r.stdout)
	wantKeys(t, printed, "date", "device", "draws_per_second", "machine", "precision", "threads", "seconds", "rounds", "versions", "models", "skipped")
	wantKeys(t, printed["machine"].(map[string]any), "cpu", "cores", "os", "arch", "memory_bytes", "kernels", "load_average")
	model := only(t, printed, "models")
	wantKeys(t, model, "model", "parameters", "batch", "activation", "entries", "ratios")
	beside := model["ratios"].(map[string]any)
	if plain, noise := beside["private_over_plain"].(float64), beside["private_over_plain_and_noise"].(float64); !(0 < noise && noise < plain) {
		t.Errorf("a private step takes %v plain ones, and %v with their noise", plain, noise)
	}
	if entries := model["entries"].([]any); len(entries) != 2 || model["model"] != "mlp-fmnist" || model["batch"] != 300.0 {
		t.Errorf("measured %v", model)
	}
	var written compare.Result
	if err := json.Unmarshal([]byte(readFile(t, out)), &written); err != nil || len(written.Models) != 1 || written.Models[0].Entries[0].Peer != "privgrad" {
		t.Errorf("%v in the file %+v", err, written)
	}

	svg, md := filepath.Join(dir, "c.svg"), filepath.Join(dir, "c.md")
	if human := ok(t, "bench", "compare", out, "--out", svg); !strings.Contains(human, "mlp-fmnist, 269322 parameters, batch 300") || !strings.Contains(human, "times our plain step is our private one") {
		t.Errorf("bench compare shows\n%s", human)
	}
	if picture := readFile(t, svg); !strings.Contains(picture, "<svg") || !strings.Contains(picture, "privgrad plain") {
		t.Errorf("no picture: %.80q", picture)
	}
	ok(t, "bench", "compare", out, "--out", md)
	if text := readFile(t, md); !strings.Contains(text, "\n| `mlp-fmnist` | 300 | ") {
		t.Errorf("bench compare writes\n%s", text)
	}
}

func TestBenchCompareRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.json")
	check(t, os.WriteFile(empty, []byte("{}"), 0o600))
	for args, want := range map[string]string{
		"--out a.gif":         ".json, .md, .svg, .png",
		"--device cuda:1":     "cuda:1",
		dir + "/none":         "none",
		empty:                 "no measurements",
		empty + " --rounds 2": "--rounds",
	} {
		fails(t, cli.ExitUsage, append([]string{"bench", "compare"}, strings.Fields(args)...), want)
	}
	if help := ok(t, "bench", "compare", "--help"); !strings.Contains(help, "peers/bin/pip install ") || !strings.Contains(help, "opacus==") {
		t.Errorf("the help does not say how to install the peers:\n%s", help)
	}
}
