package train

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/nn"
)

func refusedBefore(t *testing.T, c Config, o Options, want string) error {
	t.Helper()
	o.Out = filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), c, o)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
	if _, err := os.Stat(o.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: a refused run left %s behind", want, o.Out)
	}
	return err
}

// Whatever is refused is refused with the value, before anything is written.
func TestBadSettings(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"delta 0":                                           func(c *Config) { c.Delta = ptr(0.0) },
		"clip floor 0.5: clipping flat":                     func(c *Config) { c.ClipFloor = ptr(0.5) },
		"clip ceiling 2: clipping per-layer":                func(c *Config) { c.Clipping, c.ClipCeiling = "per-layer", ptr(2.0) },
		"clip quantile NaN":                                 func(c *Config) { c.Clipping, c.ClipQuantile = "adaptive", ptr(math.NaN()) },
		"clip ceiling 2: must be a finite number, at least": func(c *Config) { c.Clipping, c.ClipFloor, c.ClipCeiling = "adaptive", ptr(3.0), ptr(2.0) },
		"clip floor 1e-30":                                  func(c *Config) { c.Clipping, c.ClipFloor = "adaptive", ptr(1e-30) },
		"clip ceiling 1e+30":                                func(c *Config) { c.Clipping, c.ClipCeiling = "adaptive", ptr(1e30) },
		"clip floor NaN":                                    func(c *Config) { c.Clipping, c.ClipFloor = "adaptive", ptr(math.NaN()) },
		"clip norm 1: adaptive clipping keeps it in [2, 3]": func(c *Config) { c.Clipping, c.ClipFloor, c.ClipCeiling = "adaptive", ptr(2.0), ptr(3.0) },
		"device cuda:99: ":                                  func(c *Config) { c.Device = "cuda:99" },
		"subtract-noise-variance true: optimizer adam does not read it": func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.Adam.SubtractNoise = "adam", nil, true },
		"beta1 0.5: optimizer dp-sgd":                                   func(c *Config) { c.Adam.Beta1 = ptr(0.5) },
		"beta2 1: must":                                                 func(c *Config) { c.Optimizer, c.Adam.Beta2 = "dp-adam", ptr(1.0) },
		"adam_epsilon 0: must":                                          func(c *Config) { c.Optimizer, c.Adam.Epsilon = "dp-adam", ptr(0.0) },
		"average NaN":                                                   func(c *Config) { c.Average = math.NaN() },
		"adam has moments":                                              func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.Momentum = "adam", nil, 0.9 },
	} {
		c := small()
		change(&c)
		refusedBefore(t, c, Options{Sources: sources(made(1, 400))}, want)
	}
	c := small()
	c.NoiseMultiplier, c.Accountant = nil, accountant.RDP
	c.Clipping, c.Epsilon, c.Batch = "adaptive", ptr(1.0), ptr(1.0)
	if _, err := resolve(c, Options{Sources: sources(made(1, 400))}); !errors.Is(err, accountant.ErrBudget) {
		t.Errorf("an ε that the count alone overruns: %v", err)
	}
	own := made(1, 400)
	own.PerClass, own.PublicN = nil, 0
	c = small()
	c.Classes, c.Delta = nil, ptr(1e-3)
	refusedBefore(t, c, Options{Sources: sources(own)}, "give --public-n")
	c.PublicN, c.Delta = ptr(400), nil
	refusedBefore(t, c, Options{Sources: sources(own)}, "--delta, well below")
	c = small()
	c.PublishedSet, c.DataDir = true, "tab\there"
	own = made(1, 400)
	own.Published = true
	files := map[string]Source{"made": {Open: func(string) (*datasets.Set, error) { return own, nil }}}
	refusedBefore(t, c, Options{Sources: files}, "cannot be written to config.yaml")
}

// Test data that were not declared public are not evaluated.
func TestPrivateTestDataStayUnseen(t *testing.T) {
	set := made(1, 400)
	set.TestIsPublic = false
	r, _ := trainedOn(t, small(), set, Options{})
	if r.TestAccuracy != nil || r.TestLoss != nil {
		t.Errorf("test accuracy %v and loss %v of private test data", r.TestAccuracy, r.TestLoss)
	}
}

// What a user's own graph starts from is not charged, and a run says so.
func TestOwnGraphIsAnAssumption(t *testing.T) {
	set := made(1, 400)
	build := func() *nn.Network {
		n, err := plan.BuildNetwork("logistic", set.Train.Shape, 2, "", 1)
		check(t, err)
		return n
	}
	out := filepath.Join(t.TempDir(), "run")
	c := small()
	first := build()
	r := finished(t, c, Options{Sources: sources(set), Out: out, Network: first})
	if !slices.Contains(r.Assumptions, "initial_parameters_are_public") {
		t.Errorf("assumptions %v", r.Assumptions)
	}
	// A finished run, asked again, fills the graph as well.
	second := build()
	if _, err := Run(context.Background(), c, Options{Sources: sources(set), Out: out, Network: second, Resume: ResumeAuto}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first.Params(), second.Params()) || rms(second.Params()) == 0 {
		t.Error("a finished run left the graph as it was")
	}
}

func TestDiagnosticsArePrivate(t *testing.T) {
	c := small()
	c.PrivateDiagnostics = true
	out := filepath.Join(t.TempDir(), "run")
	private := out + ".private"
	check(t, os.Mkdir(private, 0o755))
	r := finished(t, c, Options{Sources: sources(made(1, 400)), Out: out})
	if i, err := os.Stat(private); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("the diagnostics' directory: %v, %v", i, err)
	}
	if !r.Diagnostics || !r.Guarantee || r.TrainLoss != nil {
		t.Errorf("diagnostics %v, guarantee %v, training loss %v", r.Diagnostics, r.Guarantee, r.TrainLoss)
	}
	lines := strings.Split(strings.TrimSpace(string(read(t, private, "diagnostics.jsonl"))), "\n")
	if len(lines) != 5 { // after 5, 10, 15, 20 and 24
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		var d rundir.Diagnostic
		if err := json.Unmarshal([]byte(line), &d); err != nil || !d.Private || d.TrainLoss == nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	var took rundir.Cost
	if err := json.Unmarshal(read(t, private, "cost.json"), &took); err != nil || !took.Private || !(took.Seconds > 0) || took.PeakRSS < 1<<20 {
		t.Errorf("the process took %+v: %v", took, err)
	}
}

// Once something was released, a run without its ledger or its settings is not
// taken for a new one.
func TestForgottenFiles(t *testing.T) {
	for _, test := range []struct {
		remove []string
		want   string
	}{
		{[]string{rundir.Ledger}, "no ledger"},
		{[]string{rundir.Ledger, rundir.Checkpoints}, "no ledger"},
		{[]string{rundir.Ledger, rundir.Checkpoints, rundir.Model}, "no ledger"},
		{[]string{rundir.Config}, "no config.yaml"},
		{[]string{rundir.Checkpoints}, "no checkpoint to go on from"},
	} {
		c := small()
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 5}
		ctx, stop := stopAt(t, o, 12, true)
		ends(ctx, t, c, stop, ErrInterrupted)
		for _, name := range test.remove {
			check(t, os.RemoveAll(filepath.Join(o.Out, name)))
		}
		before := files(t, o.Out)
		_, err := Run(context.Background(), c, o)
		var u *UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("without %v: %v", test.remove, err)
		}
		sameFiles(t, before, files(t, o.Out))
	}
}

// A run is resumed where there is one. Where there is none, which may be a slip, it
// begins only on request, and nothing is made.
func TestNothingToResume(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"missing": func(string) error { return nil },
		"empty":   func(dir string) error { return os.Mkdir(dir, 0o755) },
		"a leftover file": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "config.yaml.tmp"), []byte("x"), 0o644))
		},
	} {
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeRun}
		check(t, prepare(o.Out))
		before, _ := os.ReadDir(o.Out)
		_, err := Run(context.Background(), small(), o)
		var u *UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), "no run to resume") || !strings.Contains(err.Error(), "--resume=auto") {
			t.Errorf("%s: %v", name, err)
		}
		after, _ := os.ReadDir(o.Out)
		if len(after) != len(before) {
			t.Errorf("%s: a refused run left %v", name, after)
		}
		if _, err := os.Stat(o.Out); name == "missing" && err == nil {
			t.Error("a refused run made its directory")
		}
		o.Resume = ResumeAuto
		for range 2 { // it begins, and is there
			if _, err := Run(context.Background(), small(), o); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Time and memory follow private batches and records: they are rounded until a record
// is lost in them, and rates are of the expected batch.
func TestTimeAndMemoryAreCoarse(t *testing.T) {
	r, _ := trainedOn(t, small(), made(1, 400), Options{})
	if r.PeakRSS <= 0 || r.PeakRSS%(64<<20) != 0 {
		t.Errorf("peak memory is told as %d bytes, not in units of 64 MiB", r.PeakRSS)
	}
	if r.Seconds < 1 || r.Seconds != math.Trunc(r.Seconds) || r.ExamplesPerSecond != 40*24/r.Seconds {
		t.Errorf("%v examples a second in %v seconds", r.ExamplesPerSecond, r.Seconds)
	}
	for bytes, want := range map[int64]int64{0: 0, 1: 64 << 20, 64 << 20: 64 << 20, 64<<20 + 1: 128 << 20} {
		if got := devices.Coarse(bytes, 0); got != want {
			t.Errorf("%d bytes are told as %d, want %d", bytes, got, want)
		}
	}
}
