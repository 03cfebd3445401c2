package train

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/nn"
)

// Where a run goes on is said by a command that can: a run with something of a user's own, by the program that has it.
func TestGoOn(t *testing.T) {
	set := made(1, 400)
	network, err := plan.BuildNetwork("logistic", nn.Options{Input: set.Train.Shape, Classes: 2, Seed: 1})
	check(t, err)
	front, err := features.Own("same", set.Train.Shape, set.Train.Shape, func(dst, image []float32) { copy(dst, image) })
	check(t, err)
	const program, command = "running your program again, with Resume: train.ResumeAuto", "`privgrad resume "
	for name, c := range map[string]struct {
		data   string
		change func(*Config, *Options)
		want   string
	}{
		"nothing": {"fmnist", nil, command},
		"data":    {"made", nil, program},
		"network": {"fmnist", func(_ *Config, o *Options) { o.Network = network }, program},
		"method": {"fmnist", func(_ *Config, o *Options) {
			o.Method = &own{traits: dpoptim.Traits{Name: "own", Private: true}, asks: 1}
		}, program},
		"features": {"fmnist", func(_ *Config, o *Options) { o.Features = front }, program},
		"filter": {"made", func(c *Config, _ *Options) {
			c.Optimizer, c.NoiseMultiplier, c.Epsilon, c.LR = "dp-blsgd-ac", nil, ptr(2.0), nil
		}, program},
	} {
		t.Run(name, func(t *testing.T) {
			settings := small()
			settings.Data = c.data
			o := Options{Sources: map[string]Source{c.data: sources(set)["made"]}, Out: filepath.Join(t.TempDir(), "run"), block: 5}
			if c.change != nil {
				c.change(&settings, &o)
			}
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			interrupted := o
			interrupted.Watch = []Watcher{watch(func(Measurement) { stop() })}
			_, err := Run(ctx, settings, interrupted)
			if !errors.Is(err, ErrInterrupted) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("interrupted: %v", err)
			}
			if _, err = Run(context.Background(), settings, o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("started twice: %v", err)
			}
			o.Resume = ResumeAuto
			if _, err = Run(context.Background(), settings, o); err != nil {
				t.Errorf("the same call goes on: %v", err)
			}
		})
	}
}

// A watch is a Watcher.
type watch func(Measurement)

func (w watch) Evaluated(m Measurement) { w(m) }

// A full disk is told of with how the run goes on, once there is one.
func TestFullDiskGoesOn(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	o := Options{Sources: sources(made(1, 400)), Out: out}
	p := resolved(t, small(), o)
	r := &run{plan: p, options: o}
	full := fmt.Errorf("writing x: %w", syscall.ENOSPC)
	if got := r.full(full); got != full {
		t.Errorf("nothing has begun, and %v", got)
	}
	finished(t, small(), o)
	if got := r.full(full); !errors.Is(got, syscall.ENOSPC) || !strings.HasSuffix(got.Error(), "; continue by running your program again, with Resume: train.ResumeAuto") {
		t.Errorf("a run has begun, and %v", got)
	}
	if got := r.full(errCrash); got != errCrash {
		t.Errorf("another error became %v", got)
	}
}

// A log without a Progress gets ten lines, of the same words at every start and for any records.
func TestLogTellsHowItGoes(t *testing.T) {
	lines := func(set int, change func(*Config), o Options) (all []string) {
		c := small()
		c.Noise, c.Steps, c.EvalEvery = "seeded", ptr(200), 50
		if change != nil {
			change(&c)
		}
		var b strings.Builder
		o.Sources, o.Out = sources(made(uint64(set), 400)), filepath.Join(t.TempDir(), "run")
		o.Log = slog.New(slog.NewTextHandler(&b, nil))
		finished(t, c, o)
		for line := range strings.Lines(b.String()) {
			if _, text, ok := strings.Cut(line, `msg="step `); ok {
				all = append(all, strings.TrimSuffix(text, "\"\n"))
			}
		}
		return all
	}
	told := lines(1, nil, Options{})
	if len(told) != 10 || !strings.HasPrefix(told[0], "20, 10% of the run (NOT PRIVATE") || !regexp.MustCompile(`^60, 30% of the run, ε [0-9.]+ so far, test accuracy [0-9.]+% at the last evaluation \(NOT`).MatchString(told[2]) ||
		!regexp.MustCompile(`^200, 100% of the run, ε [0-9.]+ so far, test accuracy [0-9.]+% \(NOT`).MatchString(told[9]) {
		t.Errorf("told\n%s", strings.Join(told, "\n"))
	}
	other := lines(1, func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.LR, c.Noise = "sgd", nil, ptr(0.1), "secure" }, Options{})
	if len(other) != 10 || strings.Contains(strings.Join(other, ""), "ε") {
		t.Errorf("without privacy it told\n%s", strings.Join(other, "\n"))
	}
	if silent := lines(1, nil, Options{Progress: nothing{}}); silent != nil {
		t.Errorf("beside a Progress the log has\n%s", strings.Join(silent, "\n"))
	}
}

// nothing is a Progress that shows nothing.
type nothing struct{}

func (nothing) Start(int)                    {}
func (nothing) Step(int, *float64, *float64) {}
func (nothing) Finish()                      {}

// After an edit of config.yaml, a run that would go on says which settings are others, and what they were.
func TestEditedSettingsAreNamed(t *testing.T) {
	o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), block: 5, Resume: ResumeAuto}
	ctx, stop := stopAt(t, o, 12, true)
	ends(ctx, t, small(), stop, ErrInterrupted)
	dir := rundir.Dir(o.Out)
	whole := string(read(t, o.Out, rundir.Config))
	for _, edit := range []struct {
		from, to string
		want     []string
	}{
		{"lr: 0.5\n", "lr: 0.7\n", []string{"lr is 0.7, was 0.5"}},
		{"noise_multiplier: 1.0\n", "noise_multiplier: 2.0\n", []string{"noise_multiplier is 2, was 1"}},
		{"momentum: 0.0\nl2: 0.0\n", "momentum: 0.5\nl2: 0.1\naverage: 0.9\n", []string{"average is 0.9, was not given; l2 is 0.1, was 0; momentum is 0.5, was 0"}},
		{"classes: [0, 1]\n", "classes: [0, 2]\n", []string{"classes is 0,2, was 0,1"}},
	} {
		if !strings.Contains(whole, edit.from) {
			t.Fatalf("%q is not in:\n%s", edit.from, whole)
		}
		check(t, dir.Write(rundir.Config, []byte(strings.Replace(whole, edit.from, edit.to, 1))))
		var c Config
		check(t, ReadRun(nil, o.Out, &c))
		_, err := Run(context.Background(), c, o)
		var u *UsageError
		if !errors.Is(err, ledger.ErrMismatch) || !errors.As(err, &u) || regexp.MustCompile(`[0-9a-f]{32}`).MatchString(err.Error()) {
			t.Errorf("%q: %v", edit.to, err)
		}
		for _, want := range append(edit.want, o.Out, rundir.Config) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing in %v", want, err)
			}
		}
	}
	// A run of an earlier version kept no copy. It is refused as before, and has one from its next start on.
	check(t, os.Remove(dir.Path(rundir.Begun)))
	other := small()
	other.Seed++
	check(t, os.Remove(dir.Path(rundir.Config)))
	check(t, dir.Write(rundir.Config, []byte(strings.Replace(whole, "seed: 1\n", "seed: 2\n", 1))))
	if _, err := Run(context.Background(), other, o); !errors.Is(err, ledger.ErrMismatch) || !strings.Contains(err.Error(), "an earlier version of privgrad began the run") {
		t.Errorf("without a copy: %v", err)
	}
	check(t, dir.Write(rundir.Config, []byte(whole)))
	if r, err := Run(context.Background(), small(), o); err != nil || r.Steps != 24 || !dir.Has(rundir.Begun) {
		t.Errorf("with what stood there: %v", err)
	}
}
