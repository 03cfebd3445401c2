package train

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn"
)

// coloured is the made set as small images of three channels for resnet-small.
func coloured() *datasets.Set {
	set := made(5, 40)
	for _, s := range []*datasets.Split{&set.Train, &set.Test} {
		var features []uint8
		for row := range s.Labels[:20] {
			image := s.Features[row*64 : (row+1)*64]
			for i := range 3 * 32 * 32 {
				features = append(features, image[i/32%32/4*8+i%32/4])
			}
		}
		s.Shape, s.Labels, s.Features = [3]int{3, 32, 32}, s.Labels[:20], features
	}
	set.PublicN, set.PerClass = 100, nil
	return set
}

// A residual network with group normalization trains privately with the settings that it has by default, and moves the
// scales and shifts of its normalizations too. Strategies and threads change nothing but rounding.
func TestResidualNetwork(t *testing.T) {
	c := Default()
	c.Data, c.Model, c.Steps, c.Batch, c.Threads = "made", "resnet-small", ptr(2), ptr(20.0), 1
	c.NoiseMultiplier, c.Delta = ptr(1.0), ptr(1e-3)
	run := func(c Config) (*nn.Network, []float32) {
		t.Helper()
		m, err := nn.Build(c.Model, nn.Options{Classes: 4, Seed: 1})
		check(t, err)
		network, err := m.Lower()
		check(t, err)
		c.Model = ""
		result := finished(t, c, Options{Network: network, Out: filepath.Join(t.TempDir(), "run"), Sources: sources(coloured())})
		if result.Guarantee != (c.Noise != "seeded") {
			t.Errorf("with %s noise the guarantee is %v", c.Noise, result.Guarantee)
		}
		return network, network.Params()
	}
	network, params := run(c)
	for _, op := range network.Program.Ops {
		if op.Kind != ir.GroupNorm {
			continue
		}
		scale, shift := params[network.Program.Params[op.Weight].Offset], params[network.Program.Params[op.Bias].Offset]
		if scale == 1 || shift == 0 || math.IsNaN(float64(scale)) || math.IsNaN(float64(shift)) {
			t.Errorf("%s has the scale %v and the shift %v after training", op.Name, scale, shift)
		}
	}
	c.Noise = "seeded"
	_, want := run(c)
	for _, other := range []func(*Config){func(c *Config) { c.Threads = 2 }, func(c *Config) { c.Strategy = "ghost" }} {
		d := c
		other(&d)
		_, got := run(d)
		for i := range want {
			if !(math.Abs(float64(got[i]-want[i])) <= 1e-3) {
				t.Fatalf("with %d threads and strategy %s parameter %d is %v, else %v", d.Threads, d.Strategy, i, got[i], want[i])
			}
		}
	}
}
