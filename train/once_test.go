package train

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/trained"
)

// onceConfig is a run of a method without a schedule on t.csv.
func onceConfig(optimizer string) Config {
	c := tableConfig()
	c.Optimizer = optimizer
	c.NoiseMultiplier, c.Batch, c.Steps, c.Delta = nil, nil, nil, nil
	if optimizer == majority {
		c.Epsilon = ptr(1.0)
	}
	return c
}

// At the minimum of the regularised loss its gradient is zero. The losses are
// written out here in float64, over the bytes that devices see.
func TestLBFGSFindsTheMinimum(t *testing.T) {
	for model, slope := range map[string]func(z, y float64) float64{
		"logistic":  func(z, y float64) float64 { return -y / (1 + math.Exp(y*z)) },
		"huber-svm": func(z, y float64) float64 { return -y * min(max((1+0.5-y*z)/(2*0.5), 0), 1) },
	} {
		t.Run(model, func(t *testing.T) {
			t.Chdir(t.TempDir())
			makeTable(t, "two", 1, 2000, 0.05)
			c := onceConfig(lbfgs)
			c.Model, c.L2, c.PublicN = model, 1e-2, ptr(1500)
			p := resolved(t, c, Options{})
			r, _ := runShown(t, c, nil)
			if r.Epsilon != nil || r.Guarantee || r.NoiseMultiplier != nil || r.Clip != nil || r.Delta != nil || r.Steps < 3 || r.Steps != *r.Committed || r.TestAccuracy == nil || *r.TestAccuracy < 0.85 {
				t.Errorf("the result is %+v", r)
			}
			w, _, err := rundir.ReadModel("run/"+rundir.Model, p.Network.Program)
			check(t, err)
			m, width := p.Set.Train, len(w)-1
			gradient, size := make([]float64, len(w)), 0.0
			for i, v := range w {
				gradient[i] = 1e-2 * float64(v)
			}
			for i, l := range m.Labels {
				if l > 1 {
					continue
				}
				x, y, z := m.Values[i*width:(i+1)*width], 2*float64(l)-1, float64(w[width])
				for k, b := range x {
					z += float64(w[k]) * float64(b)
				}
				d := slope(z, y) / 1500
				for k, b := range x {
					gradient[k] += d * float64(b)
				}
				gradient[width] += d
				size += math.Abs(d)
			}
			for i, g := range gradient {
				if math.Abs(g) > 2e-3*size {
					t.Errorf("the gradient's coordinate %d is %v at the end; single ones add up to %v", i, g, size)
				}
			}
		})
	}
}

// A search that was cut off begins again.
func TestLBFGSInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "three", 1, 500, 0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, onceConfig(lbfgs), Options{Out: "run"}); !errors.Is(err, ErrInterrupted) {
		t.Fatalf("a cancelled run: %v", err)
	}
	r, err := Run(context.Background(), onceConfig(lbfgs), Options{Out: "run", Resume: ResumeAuto})
	if err != nil || r.Steps < 3 {
		t.Fatalf("resumed: %v, %v", r, err)
	}
	again, err := Run(context.Background(), onceConfig(lbfgs), Options{Out: "run", Resume: ResumeAuto})
	if err != nil || again.Steps != r.Steps {
		t.Errorf("a finished run: %v, %v", again, err)
	}
}

// majority tells the class that most records have, at a pure ε.
func TestMajority(t *testing.T) {
	for _, schema := range []string{"two", "three"} {
		t.Run(schema, func(t *testing.T) {
			t.Chdir(t.TempDir())
			makeTable(t, schema, 1, 2000, 0)
			c := onceConfig(majority)
			r, _ := runShown(t, c, nil)
			if !r.Guarantee || r.Epsilon == nil || *r.Epsilon != 1 || r.EpsilonSoFar == nil || *r.EpsilonSoFar != 1 || r.Delta == nil || *r.Delta != 0 || *r.Accountant != "pure" || *r.Neighbouring != "add-remove" ||
				r.NoiseMultiplier != nil || r.Clip != nil || r.Steps != 1 || *r.Committed != 1 {
				t.Errorf("the result is %+v", r)
			}
			e, err := evaluated("run", trained.Options{Threads: 1})
			check(t, err)
			// Every record is taken for the class that has most.
			p := resolved(t, c, Options{})
			counts := make([]int, p.Set.Classes)
			for _, l := range p.Set.Train.Labels {
				counts[l]++
			}
			most := slices.Index(counts, slices.Max(counts))
			for _, row := range e.Confusion {
				for class, n := range row {
					if class != most && n > 0 {
						t.Errorf("%d records are taken for class %d, most have %d: %v", n, class, most, e.Confusion)
					}
				}
			}
			c.Neighbouring = "replace-one"
			if p, err = resolve(c, Options{}); err != nil || pureEpsilon(t, p) != 0.5 || *p.Epsilon != 1 {
				t.Errorf("where a record is replaced the release costs twice: ε %v, %v", pureEpsilon(t, p), err)
			}
		})
	}
}

// pureEpsilon is the price of the one release.
func pureEpsilon(t *testing.T, p *plan.Plan) float64 {
	t.Helper()
	r, err := p.Declaration.Asks[0].Release(0)
	check(t, err)
	return r.Noise.(accountant.Pure).Epsilon
}

// Two tables of one majority leave the same bytes: nothing but the released index
// gets out. At this ε the index is the majority's but for a chance below e⁻¹⁰⁰.
func TestMajorityTranscript(t *testing.T) {
	var shown [2]string
	var wrote [2]map[string]string
	place := filepath.Join(t.TempDir(), "place") // config.yaml and the page name it
	for i, damaged := range []float64{0, 0.3} {
		emptied(t, place)
		makeTable(t, "two", uint64(i), 2000-300*i, damaged)
		c := onceConfig(majority)
		_, shown[i] = runShown(t, c, nil)
		wrote[i] = files(t, "run")
	}
	if shown[0] != shown[1] {
		t.Errorf("what was shown depends on the table:\n%s\n%s", shown[0], shown[1])
	}
	sameFiles(t, wrote[0], wrote[1])
}

// A release that a crash lost stays spent and is not repeated.
func TestMajorityLost(t *testing.T) {
	c := small()
	fitted(majority, func(c *Config) { c.NoiseMultiplier, c.L2, c.Epsilon, c.Delta = nil, 0, ptr(1.0), nil })(&c)
	testCrashStaysCharged(t, c)
}

// The noise is drawn: at a small ε other classes win, too. Each of 12 seeds makes
// the larger of two classes win with probability about ½.
func TestMajorityIsNoisy(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 1, 500, 0)
	c := onceConfig(majority)
	c.Epsilon, c.Noise = ptr(1e-4), dpoptim.Seeded
	won := map[string]int{}
	for seed := range uint64(12) {
		c.Seed = seed
		r, _ := runShown(t, c, nil)
		if r.Guarantee || !slices.Contains(r.NoGuarantee, plan.SeededLabel) {
			t.Fatalf("seeded noise: guarantee %v because %v", r.Guarantee, r.NoGuarantee)
		}
		won[string(read(t, "run", rundir.Model))]++
		check(t, os.RemoveAll("run"))
	}
	if len(won) != 2 {
		t.Errorf("%d classes won in 12 runs of seeds that give both", len(won))
	}
}

// Settings of a schedule are refused where there is none.
func TestOnceRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 1, 100, 0)
	for _, c := range []struct {
		optimizer string
		change    func(*Config)
		want      string
	}{
		{lbfgs, func(c *Config) { c.SamplingRate = ptr(0.5) }, "leave out --batch"},
		{lbfgs, func(c *Config) { c.Epochs = ptr(1.0) }, "leave out --batch"},
		{lbfgs, func(c *Config) { c.Momentum = 0.5 }, "no learning rate"},
		{lbfgs, func(c *Config) { c.Epsilon = ptr(1.0) }, "takes neither epsilon"},
		{lbfgs, func(c *Config) { c.TrainLossNoise = ptr(1.0) }, "train-loss-noise"},
		{majority, func(c *Config) { c.TrainLossNoise = ptr(1.0) }, "releases no loss"},
	} {
		config := onceConfig(c.optimizer)
		c.change(&config)
		refusedOnATable(t, config, c.want)
	}
	resolvesAgain(t, onceConfig(lbfgs))
	resolvesAgain(t, onceConfig(majority))
}
