package accountant

import (
	"fmt"
	"math"
)

// paperMethod is the curve of rdp under the papers' conversion: NO GUARANTEE.
var paperMethod = method{
	name:        Paper,
	slack:       1e-9,
	why:         WhyNotPaper,
	solve:       func(events []Event, o Options) (Result, error) { return solveRenyi(events, o, proposition1) },
	epsilonOnly: true,
}

// proposition1 is Mironov 2017, proposition 3, as the line-search paper uses
// it (Chen and Lee 2020, proposition 1): valid, and looser than tight.
func proposition1(rdp, order, delta float64) float64 {
	return rdp - math.Log(delta)/(order-1)
}

// paperClaim is the Rényi curve that Chen and Lee 2020 give a release.
func paperClaim(m Mechanism) (func(order float64) float64, error) {
	switch m := m.(type) {
	case Gaussian:
		rho := 1 / (2 * m.NoiseMultiplier * m.NoiseMultiplier)
		return func(a float64) float64 { return a * rho }, nil
	case Pure: // lemma 2
		return func(a float64) float64 { return a * m.Epsilon * m.Epsilon / 2 }, nil
	case NoisyBTLS:
		if m.Noise == BTLSLaplace {
			return m.search().Theorem2RDP, nil
		}
		return m.search().Theorem3RDP, nil
	}
	return nil, fmt.Errorf("mechanism %s: Chen and Lee 2020 price gradients, line searches and pure releases only", m.Name())
}

// lemma4 amplifies a release by itself: its divergence on a Poisson batch, at so
// many integer orders from 2 on.
func lemma4(q float64, claimed func(order float64) float64, orders int) ([]float64, error) {
	b := batch{q: q, bounds: []bound{{rdp: func(a float64) (float64, error) { return claimed(a), nil }}}}
	c := make([]float64, orders)
	var err error
	for i := range c {
		if c[i], err = b.rdp(float64(i+2), (*batch).poisson); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// paperEpsilon converts divergences at the integer orders from 2 on by
// proposition 1.
func paperEpsilon(rdp []float64, delta float64) (epsilon, order float64) {
	c := Curve{Orders: make([]float64, len(rdp)), RDP: rdp}
	for i := range rdp {
		c.Orders[i] = float64(i + 2)
	}
	epsilon, at := c.epsilon(delta, proposition1)
	return epsilon, c.Orders[at]
}

// PaperEpsilon is the ε that Chen and Lee 2020 state under add-remove: gradient
// and search amplified separately by lemma 4, the search priced by theorem 2 or
// 3, and proposition 1 at integer orders up to 63. It gives NO GUARANTEE: the
// batch is one, and neither theorem holds.
func (l LineSearch) PaperEpsilon(delta float64) (Result, error) {
	if err := checkDelta(delta); err != nil {
		return Result{}, err
	}
	if err := PoissonBatch(l.SamplingRate, l.Steps, l.Gradient, l.Search).Validate(); err != nil {
		return Result{}, err
	}
	claimed, err := paperClaim(l.Search)
	if err != nil {
		return Result{}, err
	}
	const orders = 62
	// Not paperClaim's, which rounds otherwise: calibrated noise follows the last bit.
	mu := 1 / l.Gradient.NoiseMultiplier
	gradient, err := lemma4(l.SamplingRate, func(a float64) float64 { return a * mu * mu / 2 }, orders)
	if err != nil {
		return Result{}, err
	}
	search, err := lemma4(l.SamplingRate, claimed, orders)
	if err != nil {
		return Result{}, err
	}
	total := make([]float64, orders)
	for i := range total {
		total[i] = float64(l.Steps) * (gradient[i] + search[i])
	}
	r := Result{Delta: delta, Accountant: Paper, Neighbouring: AddRemove, NotAGuarantee: WhyNotPaper}
	r.Epsilon, r.Order = paperEpsilon(total, delta)
	return r, nil
}
