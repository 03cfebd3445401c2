package objpert

import (
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/usage"
)

// problem is what is public of a run, from which regularizer, noise and solver follow.
type problem struct {
	linear            *dpoptim.Linear
	norm              float64 // of features
	lipschitz, smooth float64 // of a record's loss
	records           int
	epsilon, delta    float64
	regularizer       float64 // Λ
}

func describe(c dpoptim.Settings, f dpoptim.Facts) problem {
	p := problem{linear: f.Linear, norm: *c.FeatureNorm, records: f.Records, delta: usualDelta}
	p.lipschitz, p.smooth = f.Linear.Lipschitz(p.norm), f.Linear.Smoothness(p.norm)
	if c.Delta != nil {
		p.delta = *c.Delta
	}
	if c.Epsilon != nil {
		p.epsilon = *c.Epsilon
	}
	p.regularizer = c.L2 * float64(f.Records)
	return p
}

// published is the noise multiplier of Kifer, Smith and Thakurta 2012, algorithm 1, and adds their
// regularizer.
func (p *problem) published() float64 {
	p.regularizer += 2 * p.smooth / p.epsilon
	return math.Sqrt(8*math.Log(2/p.delta)+4*p.epsilon) / p.epsilon
}

const (
	// radius is how far away from 0 the minimum is taken to be, for a regularizer that was left open.
	radius = 10
	// share of ε is the most that the curvature may cost, whatever --l2 is.
	share = 0.25
)

// regularize settles Λ: N times --l2, or enough for the curvature to cost a share of ε. Where --l2 was left
// open, it is where the sum of Λ/2·R², which the regularizer adds to the losses, and of E‖b‖²/(2Λ), by which the
// tilt's minimum may be above the losses' own, is least.
func (p *problem) regularize(c dpoptim.Settings) error {
	noise, distance := 1.0, 1.0
	if c.Neighbouring == string(accountant.ReplaceOne) {
		distance = 2
	}
	switch {
	case c.NoiseMultiplier != nil:
		noise = *c.NoiseMultiplier
	case p.epsilon > 0:
		sigma, err := papers.AnalyticGaussian((1-share)*p.epsilon, p.delta)
		if err != nil {
			return usage.Wrap(err)
		}
		noise = distance * sigma
		p.regularizer = max(p.regularizer, p.smooth/math.Expm1(share*p.epsilon))
	}
	if c.L2 == 0 {
		p.regularizer = max(p.regularizer, math.Sqrt(float64(p.linear.Params()))*noise*p.lipschitz/radius)
	}
	return nil
}

// outputs is how many times the multiplier of the output's noise is that of the tilt: with it, the
// output costs a five hundredth of the noise.
const outputs = 16

// release is the noise at a multiplier, with what a solver needs to know of it.
func (p problem) release(multiplier float64) dpoptim.Release {
	return dpoptim.Release{
		Noise: accountant.ObjectivePerturbation{
			NoiseMultiplier: multiplier, Curvature: p.smooth / p.regularizer, TwoSided: !p.linear.Monotone(), OutputMultiplier: outputs * multiplier,
		},
		Bound: p.lipschitz, Within: p.minimum(multiplier).Within,
	}
}

// minimum is the solver for noise of a multiplier.
func (p problem) minimum(multiplier float64) convex.Minimum {
	tilt, rounding := mechanism.Tilts(multiplier, p.lipschitz)
	return convex.PlanMinimum(p.linear, p.norm, p.regularizer, tilt, rounding, p.records)
}
