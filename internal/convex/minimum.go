package convex

import "math"

// Minimum is the minimum of Σ losses + Λ/2·‖w‖² + ⟨tilt, w⟩ over the first Records records, found to within a
// distance that follows from public figures alone, as does the number of steps, whatever the
// records and the tilt. docs/proofs/objective-perturbation.md has the proof.
type Minimum struct {
	Regularization float64 // Λ
	Records        int     // public number of them; those beyond are left out
	Smoothness     float64 // M: 1.1 times that of the whole objective, at least 4Λ
	Steps          int
	Within         float64 // ‖result − minimum‖ is no more
}

// nearness is how close to the minimum a solver aims to come, in units of L/M: far less than
// the noise of the objective moves the minimum.
const nearness = 0x1p-12

// MostSteps is where a plan ends: of one with more, the minimum is out of reach.
const MostSteps = 1_000_000_000

// PlanMinimum plans the steps for features of a norm, and tilts with coordinates up to tilt whose rounding moved
// each of them by rounding at most.
func PlanMinimum(m *Model, norm, regularization, tilt, rounding float64, records int) Minimum {
	const u = 0x1p-53
	n := float64(records)
	lipschitz, beta := n*m.Lipschitz(norm), n*m.Smoothness(norm)
	smooth := max(1.1*(beta+regularization), 4*regularization)
	s := math.Sqrt(regularization / smooth)

	// The first iterate, −tilt/Λ, has at most so much more than the minimum.
	first := math.Sqrt(float64(m.Params())) * tilt / regularization
	excess := lipschitz * lipschitz / (2 * regularization)
	if m.Monotone() { // the losses are at least 0, and bounded at zero
		excess = min(excess, n*m.LossAtZero()+lipschitz*first)
	}
	away := math.Sqrt(4 * excess / regularization)
	reach := 1.01 * (first + 1.8*away) // of any iterate

	terms := blockRows + n/blockRows // a sum's longest chain
	gradient := u * ((float64(m.Inputs)/4+16)*beta*reach + (terms+40)*lipschitz +
		4*regularization*(first+reach) + 8*smooth*reach)
	floor := 5.6*gradient/regularization + 60*u*reach/(s*s) + math.Sqrt(float64(m.Params()))*rounding/regularization

	r := Minimum{Regularization: regularization, Records: records, Smoothness: smooth}
	r.Within = max(nearness*m.Lipschitz(norm)/smooth, 2*floor)
	r.Steps = int(min(max(1, math.Ceil(math.Log(2*away/r.Within)/(0.45*s))), MostSteps+1))
	return r
}

// Solve is Nesterov's accelerated gradient descent with constant momentum, from the minimum
// without records.
func (m Minimum) Solve(t *Table, tilt []float64, stopped func() error) ([]float64, error) {
	front := *t
	front.Most = m.Records
	x, y, g := make([]float64, len(tilt)), make([]float64, len(tilt)), make([]float64, len(tilt))
	for i, b := range tilt {
		x[i] = -b / m.Regularization
	}
	copy(y, x)
	s := math.Sqrt(m.Regularization / m.Smoothness)
	momentum := (1 - s) / (1 + s)
	for range m.Steps {
		if err := stopped(); err != nil {
			return nil, err
		}
		front.Gradient(y, g)
		for i, b := range tilt {
			next := y[i] - (g[i]+m.Regularization*y[i]+b)/m.Smoothness
			y[i] = next + momentum*(next-x[i])
			x[i] = next
		}
	}
	return x, nil
}
