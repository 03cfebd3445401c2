// Package bassily has private stochastic gradient descent as Bassily, Smith and Thakurta 2014
// published it ("Private Empirical Risk Minimization", algorithm 1), with small batches, as
// Zhang, Zheng, Mou and Wang 2017 compare with it. It is a baseline: the noise is that of their
// theorem, and the price is what this noise costs, which is far less.
//
// A step is w ← Π(w − η_t((1/m)·(Σ∇f + N(0, σ²·I)) + λw)) over a Poisson batch of m records
// on average, with σ = L·√(32·ln(n/δ)·ln(1/δ))/ε. Π scales w to the norm of --radius at most.
//
// Defaults: m = 50; (n/m)² steps, where one record a step has n²; η_t = 2R/√(t(G²+dσ²/m²)), or
// 1/(λt) with a penalty. --lr is η_1.
package bassily

import (
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
)

const Name = "bassily-sgd"

const defaultBatch = 50

// Family lists the method.
var Family = dpoptim.Plain{
	Kind: dpoptim.Kind{Name: Name, About: "SGD with the noise of Bassily et al. 2014, to compare with", Topic: setting.Convex.Topic, Reads: []string{"radius"}},
	Make: func() dpoptim.Method { return &Method{} },
}

// Method is that descent.
type Method struct {
	radius  float64 // 0 where none is given
	release dpoptim.Release
	decay   float64 // of step sizes: t^−decay
}

func (*Method) Traits() dpoptim.Traits {
	return dpoptim.Traits{Name: Name, Private: true, Relation: accountant.ReplaceOne}
}

func (m *Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) {
	if c.NoiseMultiplier != nil && *c.NoiseMultiplier != 0 {
		return c, usage.Errorf("noise multiplier %v: the noise of optimizer %s is the published one; give --epsilon, or use --optimizer dp-sgd", *c.NoiseMultiplier, Name)
	}
	return c, c.CheckPlain(Name)
}

// Complete fills in what the theorem says.
func (m *Method) Complete(c dpoptim.Settings, n dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	notes, err := m.complete(&c, n)
	return c, notes, err
}

func (m *Method) complete(c *dpoptim.Settings, n dpoptim.Network) (dpoptim.Notes, error) {
	notes := dpoptim.Notes{DefaultsFrom: dpoptim.FromBounds}
	if err := n.NeedLinear(Name); err != nil {
		return notes, err
	}
	if c.Radius != nil {
		m.radius = *c.Radius
	}
	if m.radius == 0 && c.L2 == 0 {
		return notes, usage.Errorf("optimizer %s stays on a ball: give its radius, a public bound on the norm of good weights, by --radius, such as 10", Name)
	}
	c.FeatureNorm = c.NormOr1()
	clip := n.Linear.Lipschitz(*c.FeatureNorm)
	if err := c.BoundClip(Name, clip); err != nil {
		return notes, err
	}
	records := float64(n.Records)
	batch := math.Min(defaultBatch, records)
	switch {
	case c.Batch != nil:
		batch = *c.Batch
	case c.SamplingRate != nil:
		batch = *c.SamplingRate * records
	default:
		c.SamplingRate = new(batch / records)
	}
	m.release = dpoptim.Release{Bound: clip}
	if m.decay = 0.5; c.L2 > 0 {
		m.decay = 1
	}
	if c.Epsilon == nil { // no noise
		if c.LR == nil {
			c.LR = new(papers.Bassily{}.FirstRate(m.radius, clip+c.L2*m.radius, 0, c.L2, n.Params))
		}
		return notes, nil
	}
	b, err := papers.NewBassily(n.Records, batch, *c.Epsilon, *c.Delta)
	if err != nil {
		return notes, usage.Wrap(err)
	}
	m.release.Noise = accountant.Gaussian{NoiseMultiplier: b.NoiseMultiplier}
	if c.Steps == nil && c.Epochs == nil {
		c.Steps = &b.Steps
	}
	if c.LR == nil {
		c.LR = new(b.FirstRate(m.radius, clip+c.L2*m.radius, clip, c.L2, n.Params))
	}
	notes.Warnings = append(notes.Warnings, "bassily-sgd draws the noise of its theorem for the ε asked for; what that noise costs is shown as ε, and is less")
	return notes, nil
}

func (m *Method) Declare(dpoptim.Settings, dpoptim.Facts) (dpoptim.Declaration, error) {
	if m.release.Noise == nil {
		return dpoptim.Declaration{Asks: []dpoptim.Ask{dpoptim.GaussianSum(m.release.Bound)}}, nil
	}
	return dpoptim.Declaration{Budget: dpoptim.Planned, Asks: []dpoptim.Ask{{
		Question: dpoptim.Gradients, Alike: true, At: func(int) (dpoptim.Release, error) { return m.release, nil },
	}}}, nil
}

func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	rate := e.Facts().Rate
	return dpoptim.Projected{Radius: m.radius, Rate: func(step int) float64 {
		return rate.At(step) * math.Pow(float64(step), -m.decay)
	}}.Open(e)
}
