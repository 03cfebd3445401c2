package cmd

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

// The measurements are made by the test binary, as children.
func TestBenchScale(t *testing.T) {
	t.Setenv(childVariable, "command")
	t.Setenv("TMPDIR", t.TempDir())
	short := []string{"bench", "scale", "--model", "mlp-fmnist", "--batch", "8,16", "--public-n", "100,300",
		"--rounds", "1", "--seconds", "0.005", "--threads", "1", "--progress", "off"}
	r := object(t, ok(t, append(short, "batch", "disk", "--json")...))
	wantKeys(t, r, "date", "machine", "version", "device", "threads", "seconds", "rounds", "limit", "sweeps")
	sweeps := r["sweeps"].([]any)
	if len(sweeps) != 2 {
		t.Fatalf("sweeps are %v", sweeps)
	}
	for i, want := range []struct{ sweep, model, table string }{{"batch", "mlp-fmnist", "memory"}, {"disk", "mlp-100", "disk"}} {
		s := sweeps[i].(map[string]any)
		wantKeys(t, s, "sweep", "model", "activation", "parameters", "record_bytes", "table", "entries", "cost_spread", "memory_spread")
		e := only(t, s, "entries")
		wantKeys(t, e, "records", "expected_batch", "sampling_rate", "record_seconds_median", "record_seconds_rounds", "over_first", "step_seconds_median",
			"sampler_seconds_median", "physical_batch", "table_bytes", "peak_rss_bytes", "memory_beyond_table_bytes", "most_beyond_table_bytes")
		if s["sweep"] != want.sweep || s["model"] != want.model || s["table"] != want.table {
			t.Errorf("sweep %d is %v", i, s)
		}
		if e["over_first"] != 1.0 || !(e["record_seconds_median"].(float64) > 0) {
			t.Errorf("the first entry of sweep %d is %v", i, e)
		}
	}

	human := ok(t, append(short, "records")...)
	for _, want := range []string{"records of 100 bytes, in memory", "µs per record", "beyond it", "goal: at most 5%"} {
		if !strings.Contains(human, want) {
			t.Errorf("no %q in\n%s", want, human)
		}
	}
}

func TestBenchScaleRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--point 7x":        "leave it out",
		"--point {} --json": "batch 0",
		"--batch ten":       "batch",
	} {
		fails(t, cli.ExitUsage, append([]string{"bench", "scale"}, strings.Fields(args)...), want)
	}
	if help := ok(t, "bench", "scale", "--help"); strings.Contains(help, "--point") || !strings.Contains(help, "--batch ") {
		t.Errorf("the help is\n%s", help)
	}
}
