package train

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
)

func choosing() Config {
	c := small()
	c.Optimizer, c.Batch, c.LR, c.Steps = "privgene", nil, nil, ptr(24)
	return c
}

// Without noise, a round takes the move of one weight that lowers the objective most.
func TestPrivGeneMoves(t *testing.T) {
	for _, model := range []string{"logistic", "huber-svm"} {
		c := choosing()
		c.Model, c.Steps, c.L2, c.NoiseMultiplier, c.PrivGene.Decay = model, ptr(6), 0.01, ptr(0.0), ptr(0.9)
		set := made(1, 200)
		r, params := trainedOn(t, c, set, Options{})
		if r.Epsilon != nil || r.Guarantee {
			t.Errorf("%s: without noise the result says %+v", model, r)
		}
		p := resolved(t, c, Options{Sources: sources(set)})
		var x [][]float64
		var y []float64
		im := p.Set.Train
		for i, label := range im.Labels {
			v := make([]float64, 65)
			for j, b := range im.Features[64*i:][:64] {
				v[j] = float64(b)/127.5 - 1
			}
			v[64] = 1
			x, y = append(x, v), append(y, 2*float64(label)-1)
		}
		objective := func(w []float64) (sum float64) {
			for i := range x {
				if m := y[i] * dot(x[i], w); model == "logistic" {
					sum += math.Log1p(math.Exp(-m))
				} else if h := 0.5; m < 1-h {
					sum += 1 - m
				} else if m < 1+h {
					sum += (1 + h - m) * (1 + h - m) / (4 * h)
				}
			}
			return sum + 400*0.01/2*dot(w, w)
		}
		w, step := make([]float64, 65), 0.5
		for range 6 {
			best, next := math.Inf(1), w
			for j := range w {
				for _, by := range []float64{step, -step} {
					moved := slices.Clone(w)
					if moved[j] += by; objective(moved) < best {
						best, next = objective(moved), moved
					}
				}
			}
			w, step = next, step*0.9
		}
		for j, v := range params {
			if math.Abs(float64(v)-w[j]) > 1e-6 {
				t.Errorf("%s: parameter %d is %v, want %v", model, j, v, w[j])
			}
		}
	}
}

// The run is charged for as many choices as it made, at the bounded range of its noise, which Gumbel noise
// of scale z on utilities of sensitivity 1 has: 2/z.
func TestPrivGenePrice(t *testing.T) {
	for _, relation := range []accountant.Neighbouring{accountant.ReplaceOne, accountant.AddRemove} {
		c := choosing()
		c.NoiseMultiplier, c.Epsilon, c.Steps = nil, ptr(8.0), nil
		if relation == accountant.AddRemove { // the other is the default
			by := Default()
			by.Neighbouring = string(relation)
			c.Override(&by, map[string]bool{"neighbouring": true})
		}
		o := Options{Sources: sources(made(1, 200)), Out: filepath.Join(t.TempDir(), "run")}
		r := finished(t, c, o)
		// N of two of four classes is 200, and 200·8/800 = 2.
		if r.Steps != 2 || *r.Committed != 2 || r.Neighbouring == nil || *r.Neighbouring != string(relation) || r.SamplingRate != 1 {
			t.Fatalf("%s: the result says %+v", relation, r)
		}
		a, err := accountant.Account([]accountant.Event{{Mechanisms: []accountant.Mechanism{accountant.BoundedRange{Epsilon: 2 / *r.NoiseMultiplier}}, Count: 2}},
			accountant.Options{Accountant: accountant.PLD, Neighbouring: relation, Delta: *r.Delta})
		check(t, err)
		if math.Abs(a.Epsilon-*r.Epsilon) > 1e-9 || *r.Epsilon > 8 || *r.Epsilon < 8*(1-1e-4) {
			t.Errorf("%s: ε %v, of two choices %v", relation, *r.Epsilon, a.Epsilon)
		}
		s := charges(t, o.Out)
		if s.Reserved != 2 {
			t.Errorf("%s: %d rounds were charged", relation, s.Reserved)
		}
	}
}

// With δ = 0 the rounds divide ε.
func TestPrivGenePure(t *testing.T) {
	c := choosing()
	c.NoiseMultiplier, c.Epsilon, c.Delta, c.Steps = nil, ptr(2.0), ptr(0.0), ptr(8)
	p := resolved(t, c, Options{Sources: sources(made(1, 200))})
	events, err := p.Events()
	check(t, err)
	if len(events) != 1 || events[0].Count != 8 || math.Abs(events[0].Mechanisms[0].(accountant.Pure).Epsilon-2.0/8/2) > 1e-12 {
		t.Errorf("the rounds are %v", events)
	}
	r, _ := trainedOn(t, c, made(1, 200), Options{})
	if *r.Epsilon != 2 || *r.EpsilonSoFar != 2 || *r.Delta != 0 || *r.Accountant != "pure" || r.Steps != 8 || !r.Guarantee {
		t.Errorf("the result says %+v", r)
	}
}

// Nothing but the choices gets out: the same records in another order, and among ones that count as zero,
// leave the same bytes where the noise is the same.
func TestPrivGeneLeavesChoicesAlone(t *testing.T) {
	c := choosing()
	c.Noise, c.Steps = dpoptim.Seeded, ptr(7)
	var wrote [2]map[string]string
	for i := range wrote {
		set := made(1, 160)
		if i == 1 {
			im := &set.Train
			slices.Reverse(im.Labels)
			slices.Reverse(im.Features)
			for j := range im.Labels {
				slices.Reverse(im.Features[64*j:][:64])
			}
			im.Labels = append(im.Labels, slices.Repeat([]uint8{200}, 31)...)
			im.Features = append(im.Features, make([]uint8, 31*64)...)
		}
		t.Chdir(t.TempDir())
		finished(t, c, Options{Sources: sources(set), Out: "run", RunID: "00112233445566778899aabbccddeeff"})
		wrote[i] = files(t, "run")
	}
	sameFiles(t, wrote[0], wrote[1])
}

func TestPrivGeneRefuses(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"optimizer privgene is written for the losses of":       func(c *Config) { c.Model = "svm" },
		"step_decay 2: must be in (0, 1]":                       func(c *Config) { c.PrivGene.Decay = ptr(2.0) },
		"optimizer privgene takes all records":                  func(c *Config) { c.Batch = ptr(10.0) },
		"optimizer privgene moves one parameter":                func(c *Config) { c.Momentum = 0.9 },
		"optimizer privgene has a step that falls":              func(c *Config) { c.LRSchedule = "cosine" },
		"clipping adaptive: optimizer privgene":                 func(c *Config) { c.Clipping = "adaptive" },
		"noise exact: optimizer privgene":                       func(c *Config) { c.Noise = dpoptim.Exact },
		"makes as many rounds as --epsilon":                     func(c *Config) { c.Steps = nil },
		"step_decay 0.5: optimizer dp-sgd does not read it":     func(c *Config) { c.Optimizer, c.PrivGene.Decay = "dp-sgd", ptr(0.5) },
		"delta 0: optimizer privgene divides":                   func(c *Config) { c.Delta = ptr(0.0) },
		"radius 1: optimizer privgene does not read it":         func(c *Config) { c.Radius = ptr(1.0) },
		"accountant gdp bounds Gaussian releases only: use pld": func(c *Config) { c.Accountant = accountant.GDP },
	} {
		c := choosing()
		change(&c)
		refusedBefore(t, c, Options{Sources: sources(made(1, 400))}, want)
	}
}
