package convex

import "math"

// Minimum is the minimum of Σ losses + Λ/2·‖w‖² + ⟨tilt, w⟩ over the first Records records, found to within a
// distance that follows from public figures alone, as does the number of steps, whatever the
// records and the tilt. docs/proofs/objective-perturbation.md has the proof.
type Minimum struct {
	Regularization float64 // Λ
	Records        int     // public number of them; those beyond are left out
	Smoothness     float64 // M: of the whole objective, at least 4Λ
	Steps          int
	Within         float64 // ‖result − minimum‖ is no more
}

// nearness is how close to the minimum a solver aims to come, in units of L/M: far less than
// the noise of the objective moves the minimum.
const nearness = 0x1p-12

// NewMinimum plans the steps for features of a norm, and tilts with coordinates up to tilt whose rounding moved
// each of them by rounding at most.
func NewMinimum(m *Model, norm, regularization, tilt, rounding float64, records int) Minimum {
	const u = 0x1p-53
	n, params := float64(records), math.Sqrt(float64(m.Params()))
	lipschitz, beta := n*m.Lipschitz(norm), n*m.Smoothness(norm)
	smooth := max(beta+regularization, 4*regularization)
	s := math.Sqrt(regularization / smooth)

	tilt *= params
	reach := 1.01 * (2.5*lipschitz + tilt) / regularization // of any iterate
	terms := blockRows + n/blockRows + 4                    // added up one after the other
	gradient := u * (float64(m.Inputs+8)*beta*reach + (32+terms)*lipschitz +
		4*(regularization*reach+tilt+lipschitz) + 8*smooth*reach)
	floor := 4.3*gradient/(s*regularization) + 24*u*reach/(s*s) + params*rounding/regularization

	r := Minimum{Regularization: regularization, Records: records, Smoothness: smooth}
	r.Within = max(nearness*m.Lipschitz(norm)/smooth, 2*floor)
	r.Steps = max(1, int(math.Ceil(2/s*math.Log(3*lipschitz/(regularization*r.Within)))))
	return r
}

// Solve is Nesterov's accelerated gradient descent with constant momentum, from the minimum
// without records.
func (m Minimum) Solve(t *Table, tilt []float64, stopped func() error) ([]float64, error) {
	t = t.first(m.Records)
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
		t.Gradient(y, g)
		for i, b := range tilt {
			next := y[i] - (g[i]+m.Regularization*y[i]+b)/m.Smoothness
			y[i] = next + momentum*(next-x[i])
			x[i] = next
		}
	}
	return x, nil
}

// first is the table of its first records.
func (t *Table) first(records int) *Table {
	if len(t.target) <= records {
		return t
	}
	part := *t
	part.target, part.factor = t.target[:records], t.factor[:records]
	return &part
}
