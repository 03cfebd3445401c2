package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/dpoptim/objpert"
	"github.com/privgrad/privgrad/dpoptim/outpert"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/stream"
)

// outpertConfig is a run of output perturbation on t.csv.
func outpertConfig(optimizer string) Config {
	c := tableConfig()
	c.Optimizer, c.NoiseMultiplier, c.Batch, c.Steps, c.Epsilon = optimizer, nil, nil, nil, ptr(1.0)
	return c
}

// Two tables that differ in every record, in their number and in what is damaged, behind one
// release, leave the same bytes and show the same.
func TestOutpertTranscript(t *testing.T) {
	for name, change := range map[string]func(*Config){
		outpert.GD: func(*Config) {},
		"pure":     func(c *Config) { c.Delta = ptr(0.0) },
		"paper":    func(c *Config) { c.Outpert.Form = outpert.Paper },
		outpert.RSGD: func(c *Config) {
			c.Optimizer, c.Outpert.Average = outpert.RSGD, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := outpertConfig(outpert.GD)
			change(&c)
			tablesReplayed(t, c, "two", [2]int{2000, 2345}, func(r *Result) { // the second one is larger than it may be
				if !r.Guarantee || r.Epsilon == nil || *r.Epsilon > 1 || r.Steps != 1 || *r.Committed != 1 || r.Clip != nil || *r.Neighbouring != "replace-one" {
					t.Errorf("the result is %+v", r)
				}
			})
		})
	}
}

// At next to no noise the model is that of the recursion, in float64 over the records that devices
// see, features at a norm of 0.7. Records beyond the public number count for nothing.
func TestOutpertFollowsTheRecursion(t *testing.T) {
	const norm, l2, records = 0.7, 0.02, 150
	for name, c := range map[string]Config{outpert.GD: outpertConfig(outpert.GD), outpert.RSGD: outpertConfig(outpert.RSGD), "average": outpertConfig(outpert.RSGD)} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			makeTable(t, "two", 1, 200, 0.1)
			c.Epsilon, c.NoiseMultiplier, c.Noise, c.PublicN = nil, ptr(1e-5), dpoptim.Seeded, ptr(records)
			c.L2, c.FeatureNorm = l2, ptr(norm)
			if c.Optimizer == outpert.GD {
				c.Steps, c.LR = ptr(40), ptr(1.3)
			} else {
				c.Epochs, c.Batch, c.Outpert.Average = ptr(3.0), ptr(7.0), name == "average"
			}
			p := resolved(t, c, Options{})
			runShown(t, c, nil)
			got, _, err := rundir.ReadModel("run/"+rundir.Model, p.Network.Program)
			check(t, err)
			m, width := p.Set.Train, len(got)-1
			w := make([]float64, len(got))
			add := func(g []float64, i int) {
				if i >= m.Len() || m.Labels[i] > 1 {
					return
				}
				x, square := make([]float64, width+1), 0.0
				for k, v := range m.Values[i*width : (i+1)*width] {
					x[k] = float64(v)
					square += x[k] * x[k]
				}
				for k := range width {
					x[k] *= min(1, norm/math.Sqrt(square))
				}
				x[width] = 1
				y, z := 2*float64(m.Labels[i])-1, 0.0
				for k := range w {
					z += w[k] * x[k]
				}
				for k := range w {
					g[k] -= y * x[k] / (1 + math.Exp(y*z))
				}
			}
			average, steps := make([]float64, len(w)), 0
			step := func(places []int32, divisor, rate float64) {
				g := make([]float64, len(w))
				for _, i := range places {
					add(g, int(i))
				}
				steps++
				for k := range w {
					w[k] -= rate * (g[k]/divisor + l2*w[k])
					average[k] += (w[k] - average[k]) * 2 / float64(steps+1) // weights in proportion to the step
				}
			}
			if c.Optimizer == outpert.GD {
				all := make([]int32, records)
				for i := range all {
					all[i] = int32(i)
				}
				for range 40 {
					step(all, records, 1.3)
				}
			} else {
				b, err := batches.Shuffle.Of(records, 1)
				check(t, err)
				s, err := b.Sampler(records, stream.KeyFromSeed(c.Seed, "sampling"), stream.ChaCha20)
				check(t, err)
				order, smooth := s.Batch(0, nil), (norm*norm+1)/4
				for range 3 {
					for rest := range slices.Chunk(order, 7) {
						step(rest, 7, min(1/(smooth+l2), 1/(l2*float64(steps+1))))
					}
				}
			}
			if name == "average" {
				w = average
			}
			for k, v := range w {
				if math.Abs(v-float64(got[k])) > 1e-5*(1+math.Abs(v)) {
					t.Errorf("parameter %d is %v, the recursion gives %v", k, got[k], v)
				}
			}
		})
	}
}

// lasts is a context that is cancelled when it has been asked so often.
type lasts struct {
	context.Context
	left int
}

func (c *lasts) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Ctrl-C on the way to a fit leaves nothing charged and no iterate; the run begins again, under other noise where
// that is not seeded.
func TestFitsInterrupted(t *testing.T) {
	for _, optimizer := range []string{outpert.GD, outpert.RSGD, objpert.Name} {
		t.Chdir(t.TempDir())
		makeTable(t, "two", 1, 500, 0)
		c := outpertConfig(optimizer)
		if optimizer == objpert.Name {
			c = objpertConfig()
		}
		c.Noise = dpoptim.Seeded // so that runs can be compared
		whole := finished(t, c, Options{Out: "whole"})
		_, err := Run(&lasts{context.Background(), 25}, c, Options{Out: "run"})
		if !errors.Is(err, ErrInterrupted) || !strings.Contains(err.Error(), "nothing was charged") {
			t.Fatalf("%s: %v", optimizer, err)
		}
		if h := headerOf(t, "run"); h.Committed != 1 {
			t.Errorf("%s: the ledger has %+v", optimizer, h)
		}
		for name, text := range files(t, "run") {
			if strings.HasPrefix(name, "checkpoint") {
				continue
			}
			if strings.Contains(name, "safetensors") || strings.Contains(name, "result") {
				t.Errorf("%s left %s behind: %d bytes", optimizer, name, len(text))
			}
		}
		beginsAtZero := func(dir string) error {
			state, err := rundir.Dir(dir).ReadCheckpoint(6, nil)
			if err == nil && (state == nil || slices.ContainsFunc(state.Params, func(v float32) bool { return v != 0 })) {
				err = fmt.Errorf("the checkpoint is %+v", state)
			}
			return err
		}
		if err := beginsAtZero("run"); err != nil {
			t.Errorf("%s: %v", optimizer, err)
		}
		secure := c // whose charged slots are lost where they were not used
		secure.Noise = dpoptim.Secure
		if _, err := Run(&lasts{context.Background(), 25}, secure, Options{Out: "secure"}); !errors.Is(err, ErrInterrupted) {
			t.Fatalf("%s: %v", optimizer, err)
		}
		unused := beginsAtZero("secure")
		r, err := Run(context.Background(), secure, Options{Out: "secure", Resume: ResumeAuto})
		if err != nil || unused != nil || r.Steps != 1 || !r.Guarantee {
			t.Errorf("%s: what was stopped before the release has charged it: %+v, %v, %v", optimizer, r, err, unused)
		}
		again, err := Run(context.Background(), secure, Options{Out: "secure", Resume: ResumeAuto})
		if err != nil || *again.TestLoss != *r.TestLoss || slices.Equal(read(t, "secure", rundir.Model), read(t, "whole", rundir.Model)) {
			t.Errorf("%s: a finished run, or one with noise of its own: %v, %v", optimizer, again, err)
		}
		r = finished(t, c, Options{Out: "run", Resume: ResumeAuto})
		if r.Steps != 1 || *r.TestLoss != *whole.TestLoss || !slices.Equal(read(t, "run", rundir.Model), read(t, "whole", rundir.Model)) {
			t.Errorf("%s: after a new begin the loss is %v, without a stop %v", optimizer, *r.TestLoss, *whole.TestLoss)
		}
		again, err = Run(context.Background(), c, Options{Out: "run", Resume: ResumeAuto})
		if err != nil || *again.TestLoss != *r.TestLoss {
			t.Errorf("%s: a finished run: %v, %v", optimizer, again, err)
		}
	}
}

func TestOutpertRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 1, 100, 0)
	for _, c := range []struct {
		optimizer string
		change    func(*Config)
		want      string
	}{
		{outpert.GD, func(c *Config) { c.Batch = ptr(10.0) }, "leave out --batch"},
		{outpert.GD, func(c *Config) { c.Epochs = ptr(10.0) }, "leave out --batch"},
		{outpert.RSGD, func(c *Config) { c.SamplingRate = ptr(0.1) }, "leave out --sampling-rate"},
		{outpert.RSGD, func(c *Config) { c.SamplingRate = ptr(1.0) }, "leave out --sampling-rate"}, // its config.yaml could not be read again
		{outpert.RSGD, func(c *Config) { c.Steps = ptr(10) }, "give --epochs"},
		{outpert.RSGD, func(c *Config) { c.Epochs = ptr(1.5) }, "whole passes"},
		{outpert.RSGD, func(c *Config) { c.Batch = ptr(1.5) }, "whole batches"},
		{outpert.RSGD, func(c *Config) { c.Batch = ptr(2001.0) }, "batches of 2001 of 2000"},
		{outpert.GD, func(c *Config) { c.Momentum = 0.5 }, "leave out --momentum"},
		{outpert.GD, func(c *Config) { c.Average = 0.5 }, "leave out --momentum"},
		{outpert.GD, func(c *Config) { c.LRSchedule = "cosine" }, "leave out --momentum"},
		{outpert.GD, func(c *Config) { c.Clipping = "adaptive" }, "clips features"},
		{outpert.GD, func(c *Config) { c.TrainLossNoise = ptr(1.0) }, "releases no loss"},
		{outpert.GD, func(c *Config) { c.Noise = dpoptim.Exact }, "noise exact"},
		{outpert.GD, func(c *Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(0.0) }, "give --epsilon"},
		{outpert.GD, func(c *Config) { c.Epsilon, c.NoiseMultiplier, c.Delta = nil, ptr(1.0), ptr(0.0) }, "give --epsilon"},
		{outpert.GD, func(c *Config) { c.Outpert.Average = true }, "outpert_average true: optimizer outpert-gd does not read it"},
		{outpert.RSGD, func(c *Config) { c.Outpert.Form = outpert.Paper }, "outpert_form paper"},
		{outpert.GD, func(c *Config) { c.Outpert.Form, c.Epsilon, c.Delta = outpert.Paper, ptr(60.0), ptr(1e-3) }, "keeps no epsilon 60"},
		{outpert.GD, func(c *Config) { c.LR = ptr(4.1) }, "learning rate 4.1"}, // 2/β is 4
		{outpert.GD, func(c *Config) { c.LR, c.L2 = ptr(3.9), 0.1 }, "learning rate 3.9"},
		{outpert.GD, func(c *Config) { c.Model = "svm" }, "huber-svm"},
		{"dp-sgd", func(c *Config) { c.Outpert.Form = outpert.Tight }, "outpert_form"},
	} {
		config := outpertConfig(c.optimizer)
		c.change(&config)
		refusedOnATable(t, config, c.want)
	}
	resolvesAgain(t, outpertConfig(outpert.GD))
	resolvesAgain(t, outpertConfig(outpert.RSGD))
}

// The price: a pure ε halves where records are replaced, and published noise costs what it does.
func TestOutpertPrices(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 1, 100, 0)
	c := outpertConfig(outpert.GD)
	p := resolved(t, c, Options{})
	if math.Abs(*p.Epsilon-1) > 1e-6 || p.Config.Accountant != "gdp" {
		t.Errorf("ε %v by %s", *p.Epsilon, p.Config.Accountant)
	}
	c.Delta = ptr(0.0)
	if p, err := resolve(c, Options{}); err != nil || pureEpsilon(t, p) != 0.5 || *p.Epsilon != 1 {
		t.Errorf("ε %v of the release, %v", pureEpsilon(t, p), err)
	}
	c = outpertConfig(outpert.GD)
	c.Outpert.Form, c.Steps, c.LR = outpert.Paper, ptr(50), ptr(1.0)
	published := resolved(t, c, Options{})
	c.Outpert.Form = ""
	p = resolved(t, c, Options{})
	// 3·√(2·ln(2/δ))/ε against 2·σ/Δ of the analytic Gaussian at ε = 1, δ = 1e-5 (3.73, Balle and Wang 2018).
	if *published.Epsilon >= 0.6 || math.Abs(published.Sigma/p.Sigma-3*math.Sqrt(2*math.Log(2e5))/(2*3.730631634816464)) > 1e-4 {
		t.Errorf("the published noise is %v at ε %v, ours %v", published.Sigma, *published.Epsilon, p.Sigma)
	}
}
