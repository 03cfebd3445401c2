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
	"github.com/privgrad/privgrad/dpoptim"
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
		"epsilon 0": func(c *Config) { c.NoiseMultiplier, c.Epsilon = nil, ptr(0.0) },
		"epsilon 3 and noise multiplier 1 were both given": func(c *Config) { c.Epsilon = ptr(3.0) },
		"no privacy budget given":                          func(c *Config) { c.NoiseMultiplier = nil },
		"noise multiplier 1e-200":                          func(c *Config) { c.NoiseMultiplier = ptr(1e-200) },
		"noise multiplier -1":                              func(c *Config) { c.NoiseMultiplier = ptr(-1.0) },
		"clip norm 0":                                      func(c *Config) { c.Clip = 0 },
		"clip norm 1e-42":                                  func(c *Config) { c.Clip = 1e-42 },
		"clip norm 1e+39":                                  func(c *Config) { c.Clip = 1e39 },
		"delta 1":                                          func(c *Config) { c.Delta = ptr(1.0) },
		"sampling rate 0:":                                 func(c *Config) { c.Batch, c.SamplingRate = nil, ptr(0.0) },
		"sampling rate 1.5":                                func(c *Config) { c.Batch, c.SamplingRate = nil, ptr(1.5) },
		"batch 40 and sampling rate 0.1":                   func(c *Config) { c.SamplingRate = ptr(0.1) },
		"batch 201 is larger than the 200":                 func(c *Config) { c.Batch = ptr(201.0) },
		"expected batch of 1e-20":                          func(c *Config) { c.Batch = ptr(1e-20) },
		"steps 24 and epochs 2":                            func(c *Config) { c.Epochs = ptr(2.0) },
		"steps 0":                                          func(c *Config) { c.Steps = ptr(0) },
		"make no step":                                     func(c *Config) { c.Steps, c.Epochs = nil, ptr(0.1) },
		"learning rate -1":                                 func(c *Config) { c.LR = ptr(-1.0) },
		"momentum 1":                                       func(c *Config) { c.Momentum = 1 },
		`unknown model "vgg"`:                              func(c *Config) { c.Model = "vgg" },
		`unknown data set "imagenet"`:                      func(c *Config) { c.Data = "imagenet" },
		`unknown optimizer "lion"`:                         func(c *Config) { c.Optimizer = "lion" },
		`unknown clipping "soft"`:                          func(c *Config) { c.Clipping = "soft" },
		"clipping per-layer: optimizer sgd":                func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.Clipping = "sgd", nil, "per-layer" },
		"clipping adaptive: optimizer adam":                func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.Clipping = "adam", nil, "adaptive" },
		"clip quantile 0.5: clipping automatic":            func(c *Config) { c.Clipping, c.ClipQuantile = "automatic", ptr(0.5) },
		"clip quantile 1: must":                            func(c *Config) { c.Clipping, c.ClipQuantile = "adaptive", ptr(1.0) },
		`unknown strategy "magic"`:                         func(c *Config) { c.Strategy = "magic" },
		`unknown accountant "clt"`:                         func(c *Config) { c.Accountant = "clt" },
		`unknown neighbouring relation "all"`:              func(c *Config) { c.Neighbouring = "all" },
		`unknown device "tpu"`:                             func(c *Config) { c.Device = "tpu" },
		"is not private and takes neither":                 func(c *Config) { c.Optimizer = "sgd" },
		"public-n 0":                                       func(c *Config) { c.PublicN = ptr(0) },
		"subtract_noise_variance true: optimizer sgd does not read it":    func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.Adam.SubtractNoise = "sgd", nil, true },
		"subtract_noise_variance true: optimizer dp-sgd does not read it": func(c *Config) { c.Adam.SubtractNoise = true },

		"the noise of clipping adaptive moves": func(c *Config) { c.Optimizer, c.Adam.SubtractNoise, c.Clipping = "dp-adam", true, "adaptive" },
		`unknown lr-schedule "step"`:           func(c *Config) { c.LRSchedule = "step" },
		"warmup 25: must be 0 to 24":           func(c *Config) { c.Warmup = 25 },
		"warmup -1":                            func(c *Config) { c.Warmup = -1 },
		"average 1: must":                      func(c *Config) { c.Average = 1 },
		"dp-adam has moments":                  func(c *Config) { c.Optimizer, c.Momentum = "dp-adam", 0.9 },
		"memory 2B: logistic":                  func(c *Config) { c.Memory = "2B" },
		"threads 3000000":                      func(c *Config) { c.Threads = 3000000 },
		`memory "lots"`:                        func(c *Config) { c.Memory = "lots" },
		"cnn-mnist":                            func(c *Config) { c.Model = "cnn-mnist" },
		"model file":                           func(c *Config) { c.Init = "nowhere.safetensors" },
		"--strategy ghost does not work with --noise exact":             func(c *Config) { c.Noise, c.Strategy = dpoptim.Exact, "ghost" },
		"noise multipliers up to 262144, not 300000":                    func(c *Config) { c.Noise, c.NoiseMultiplier = dpoptim.Exact, ptr(3e5) },
		"clipping per-layer: exact noise":                               func(c *Config) { c.Noise, c.Clipping = dpoptim.Exact, "per-layer" },
		"clipping adaptive: exact noise":                                func(c *Config) { c.Noise, c.Clipping = dpoptim.Exact, "adaptive" },
		`unknown precision "half"`:                                      func(c *Config) { c.Precision = "half" },
		"precision tf32: device cpu":                                    func(c *Config) { c.Precision, c.Device = "tf32", "cpu" },
		"precision tf32: exact noise":                                   func(c *Config) { c.Precision, c.Noise = "tf32", dpoptim.Exact },
		`unknown noise "strong"`:                                        func(c *Config) { c.Noise = "strong" },
		"delta 0":                                                       func(c *Config) { c.Delta = ptr(0.0) },
		"clip floor 0.5: clipping flat":                                 func(c *Config) { c.ClipFloor = ptr(0.5) },
		"clip ceiling 2: clipping per-layer":                            func(c *Config) { c.Clipping, c.ClipCeiling = "per-layer", ptr(2.0) },
		"clip quantile NaN":                                             func(c *Config) { c.Clipping, c.ClipQuantile = "adaptive", ptr(math.NaN()) },
		"clip ceiling 2: must be a finite number, at least":             func(c *Config) { c.Clipping, c.ClipFloor, c.ClipCeiling = "adaptive", ptr(3.0), ptr(2.0) },
		"clip floor 1e-30":                                              func(c *Config) { c.Clipping, c.ClipFloor = "adaptive", ptr(1e-30) },
		"clip ceiling 1e+30":                                            func(c *Config) { c.Clipping, c.ClipCeiling = "adaptive", ptr(1e30) },
		"clip floor NaN":                                                func(c *Config) { c.Clipping, c.ClipFloor = "adaptive", ptr(math.NaN()) },
		"clip norm 1: adaptive clipping keeps it in [2, 3]":             func(c *Config) { c.Clipping, c.ClipFloor, c.ClipCeiling = "adaptive", ptr(2.0), ptr(3.0) },
		"device cuda:99: ":                                              func(c *Config) { c.Device = "cuda:99" },
		"subtract_noise_variance true: optimizer adam does not read it": func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.Adam.SubtractNoise = "adam", nil, true },
		"beta1 0.5: optimizer dp-sgd does not read it":                  func(c *Config) { c.Adam.Beta1 = ptr(0.5) },
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
		n, err := plan.BuildNetwork("logistic", nn.Options{Input: set.Train.Shape, Classes: 2, Seed: 1})
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
