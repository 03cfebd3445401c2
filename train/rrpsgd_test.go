package train

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/rundir"
)

// Seeds of the operating system's randomness under which runs of the suite draw as many rounds as
// their tests need, of 24, and as many as each other, of 6.
var (
	manyRounds uint64 = 8
	sameRounds        = [2]uint64{1, 7}
)

// roundsRun is a short one, of single records unless that changes.
func roundsRun(set func(*Config)) Config {
	c := small()
	onAll("rrpsgd", func(c *Config) { c.NoiseMultiplier = ptr(1.0) })(&c)
	set(&c)
	return c
}

// A run that is interrupted any number of times makes the rounds that it began with, each once, and is
// charged for all that might have been.
func TestRoundsStay(t *testing.T) {
	for range 4 {
		c := roundsRun(func(*Config) {})
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto, block: 5}
		state := func() string {
			c, err := rundir.Dir(o.Out).ReadCheckpoint(65, nil)
			check(t, err)
			return c.Method
		}
		var r *Result
		first := ""
		for stop := 0; r == nil; stop += 4 {
			ctx, o := stopAt(t, o, stop, true)
			done, err := Run(ctx, c, o)
			if first == "" {
				first = state()
			}
			if err != nil && !errors.Is(err, ErrInterrupted) {
				t.Fatal(err)
			}
			r = done
		}
		if want := fmt.Sprintf(`{"rounds":%d}`, *r.Rounds); first != want || state() != want || r.Steps != *r.Rounds || r.Steps > *r.Committed {
			t.Errorf("%d steps of %d, the checkpoint of the first process says %s, of the last %s", r.Steps, *r.Rounds, first, state())
		}
		s, _, err := ledger.Read(filepath.Join(o.Out, rundir.Ledger))
		if check(t, err); s.Reserved != *c.Steps || *r.EpsilonSoFar != *r.Epsilon {
			t.Errorf("%d slots of %d were charged, ε so far is %v of %v", s.Reserved, *c.Steps, *r.EpsilonSoFar, *r.Epsilon)
		}
	}
}

// Places that no record takes give a zero gradient, and records past the public number are never drawn:
// with other such records, or without them, a run is the same.
func TestRoundsOverPlaces(t *testing.T) {
	c := roundsRun(func(c *Config) {
		c.Noise, c.Batch, c.Accountant, c.Classes, c.Model = dpoptim.Seeded, ptr(7.0), accountant.RDP, nil, "logistic"
	})
	trained := func(records int) []float32 {
		set := made(1, records)
		if records > 400 {
			for i := range set.Train.Features[400*64:] {
				set.Train.Features[400*64+i] ^= 0xff
			}
		}
		_, params := trainedOn(t, c, set, Options{})
		return params
	}
	whole := trained(400)
	if !slices.Equal(whole, trained(700)) {
		t.Error("records past the public number change the result")
	}
	few := trained(30)
	if slices.Equal(whole, few) || slices.ContainsFunc(few, func(x float32) bool { return math.IsNaN(float64(x)) }) {
		t.Error("missing records change nothing, or leave no number")
	}
}

func TestRoundsRefuse(t *testing.T) {
	published := func(c *Config) { c.RRPSGDForm, c.NoiseMultiplier, c.Epsilon = "paper", nil, ptr(1.0) }
	for want, set := range map[string]func(*Config){
		"relation add-remove: optimizer rrpsgd":   func(c *Config) { c.Relate(accountant.AddRemove) },
		"makes plain steps":                       func(c *Config) { c.Momentum = 0.5 },
		"give a whole number as --batch":          func(c *Config) { c.Batch = ptr(2.5) },
		"leave out --sampling-rate":               func(c *Config) { c.SamplingRate = ptr(0.1) },
		"takes steps of at most 1/smoothness":     func(c *Config) { c.LR = ptr(10.0) },
		"smoothness 2: that of a linear model":    func(c *Config) { c.Smoothness = ptr(2.0) },
		"smoothness 2: optimizer dp-sgd does not": func(c *Config) { c.Optimizer, c.Smoothness, c.LR = "dp-sgd", ptr(2.0), ptr(1.0) },
		"noise multiplier 1: the noise of":        func(c *Config) { c.RRPSGDForm = "paper" },
		"is published for epsilon up to 1":        func(c *Config) { published(c); c.Epsilon = ptr(2.0) },
		"at most N² = 40000 rounds of one record": func(c *Config) { published(c); c.Batch = ptr(2.0) },
		"begins at zero; leave out --init":        func(c *Config) { c.Init = "model.safetensors" },
		"train-loss-noise 1: optimizer rrpsgd":    func(c *Config) { c.TrainLossNoise = ptr(1.0) },
		"clipping adaptive: optimizer rrpsgd":     func(c *Config) { c.Clipping = "adaptive" },
	} {
		refusedBefore(t, roundsRun(set), Options{Sources: sources(made(1, 400))}, want)
	}
}
