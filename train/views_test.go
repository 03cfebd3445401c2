package train

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/nn"
)

func withViews(c *Config) { c.Views, c.Augment = 3, []string{"flip", "crop"} }

// A user's own graph takes views. A seeded run has the same bits for any number of threads. Other numbers of records at a time,
// strategies and devices move rounding alone: 8 steps of noise and sums that are rounded to 2⁻²⁴ of values up to about 10, and the
// 100 gradients of a sum move by some hundred times that where weights do. Views move the model by 1e-2 and more.
func TestOwnGraphTakesViews(t *testing.T) {
	trained := func(change func(*Config)) []float32 {
		t.Helper()
		x := G.NewTensor(G.NewGraph(), tensor.Float32, 4, G.WithShape(1, 1, 8, 8), G.WithName("x"))
		logits, err := nn.Apply(x, nn.Conv("edges", 5, 3, 1, 1, nn.Glorot(1)), nn.Tanh, nn.AvgPool(2, 2), nn.Flatten, nn.Dense("out", 4, nn.Glorot(3)))
		check(t, err)
		network, err := nn.Lower(logits, nn.WithName("mine"))
		check(t, err)
		c := small()
		withViews(&c)
		c.Classes, c.Model, c.Steps, c.Noise, c.Strategy = nil, "", ptr(8), dpoptim.Seeded, "materialise"
		change(&c)
		r := finished(t, c, Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Network: network})
		if r.Guarantee || r.Model != "mine" {
			t.Errorf("model %s, guarantee %v", r.Model, r.Guarantee)
		}
		return network.Params()
	}
	want := trained(func(*Config) {})
	far := func(got []float32) (most float64) {
		for i := range want {
			most = math.Max(most, math.Abs(float64(got[i]-want[i])))
		}
		return most
	}
	for _, threads := range []int{2, 3} {
		if d := far(trained(func(c *Config) { c.Threads = threads })); d != 0 {
			t.Errorf("%d threads: other bits, %v away", threads, d)
		}
	}
	for name, change := range map[string]func(*Config){
		"7 records": func(c *Config) { c.MaxPhysicalBatch = 7 },
		"1 record":  func(c *Config) { c.MaxPhysicalBatch = 1 },
		"ghost":     func(c *Config) { c.Strategy = "ghost" },
		"auto":      func(c *Config) { c.Strategy = "auto" },
		"reference": func(c *Config) { c.Device = "reference" },
	} {
		if d := far(trained(change)); d > 1e-3 {
			t.Errorf("%s: %v away", name, d)
		}
	}
	for name, change := range map[string]func(*Config){
		"one view":   func(c *Config) { c.Views = 1 },
		"no views":   func(c *Config) { c.Views, c.Augment = 0, nil },
		"flip alone": func(c *Config) { c.Augment = []string{"flip"} },
	} {
		if d := far(trained(change)); d < 1e-2 {
			t.Errorf("%s: the same model, %v away", name, d)
		}
	}
}

// What views are follows from a key that every process draws for itself, and that serves nothing else. Nothing but it differs between
// the two models here, of the same settings, batches, noise and first weights.
func TestViewsAreSecret(t *testing.T) {
	model := func(seed uint64) string {
		c := small()
		withViews(&c)
		c.Steps = ptr(3)
		k := injected(seed)
		k.Sampling, k.Noise = injected(1).Sampling, injected(1).Noise
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), keys: k}
		_, err := Run(context.Background(), c, o)
		check(t, err)
		return string(read(t, o.Out, rundir.Model))
	}
	a, b := model(1), model(1)
	if a != b {
		t.Error("the same keys make other models")
	}
	if a == model(2) {
		t.Error("another key of views makes the same model")
	}
	c := small()
	withViews(&c)
	p, err := resolve(c, Options{Sources: sources(made(1, 400))})
	check(t, err)
	one, err := p.Keys()
	check(t, err)
	two, err := p.Keys()
	check(t, err)
	if one.Views == two.Views || one.Views == one.Noise || one.Views == one.Sampling {
		t.Error("keys of views are not drawn for each process, or serve twice")
	}
}

// What views do not go with is refused before any record is read.
func TestViewsRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"takes no sums of the gradients of batches": func(c *Config) {
			c.Optimizer, c.NoiseMultiplier, c.L2, c.Batch = "objpert", nil, 0.1, nil
			c.Epsilon, c.Steps, c.LR = ptr(1.0), nil, nil
		},
		"features scatter are computed once": func(c *Config) { c.Features = "scatter" },
		"feature-norm 2 bounds":              func(c *Config) { c.FeatureNorm = ptr(2.0) },
		"feature-norm 1 bounds": func(c *Config) {
			c.Optimizer, c.Batch, c.NoiseMultiplier, c.LR, c.Epsilon = "noisy-gd", nil, nil, nil, ptr(1.0)
		},
	} {
		c := small()
		withViews(&c)
		change(&c)
		if _, err := resolve(c, Options{Sources: sources(made(1, 400))}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The rows of a table have a shape as images have, and no view is drawn of them.
func TestViewsRefuseTables(t *testing.T) {
	set := made(1, 400)
	set.Train.Unit, set.Test.Unit = true, true
	c := small()
	c.Augment = []string{"flip"}
	if _, err := resolve(c, Options{Sources: sources(set)}); err == nil || !strings.Contains(err.Error(), "no images") {
		t.Errorf("views of a table: %v", err)
	}
}
