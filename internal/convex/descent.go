package convex

import "math"

// Descent is gradient descent from zero on the mean loss of all records with the penalty L2/2·‖w‖²:
// w ← w − Rate·(∇/Records + L2·w), where ∇ is the sum of the records' gradients.
type Descent struct {
	Steps    int
	Rate, L2 float64
	Radius   float64 // of the ball around zero in which w is kept; 0: all of space
	Records  int     // public number of them, by which sums are divided
}

// Solve gives the last iterate.
func (d Descent) Solve(t *Table, tilt []float64, stopped func() error) ([]float64, error) {
	w, g := make([]float64, t.Params()), make([]float64, t.Params())
	keep, rate := 1-d.Rate*d.L2, d.Rate/float64(d.Records)
	for range d.Steps {
		if err := stopped(); err != nil {
			return nil, err
		}
		t.Gradient(w, g)
		for i, v := range tilt {
			g[i] += v
		}
		move(w, g, keep, rate, d.Radius)
	}
	return w, nil
}

// move makes a step, w ← keep·w − rate·g, and brings w back into the ball.
func move(w, g []float64, keep, rate, radius float64) {
	sum := 0.0
	for i, v := range g {
		w[i] = keep*w[i] - rate*v
		sum += w[i] * w[i]
	}
	if norm := math.Sqrt(sum); radius > 0 && norm > radius {
		for i := range w {
			w[i] *= radius / norm
		}
	}
}

// Drift bounds how far from the exact result Solve may end without a tilt, whatever the records.
// docs/proofs/output-perturbation.md has the proof.
func (d Descent) Drift(m *Model, norm float64) float64 {
	a := arithmetic{Model: m, norm: norm, l2: d.L2, radius: d.Radius, terms: d.Records}
	last, _, _ := a.drift(d.Steps, func(int) float64 { return d.Rate })
	return last
}

// arithmetic is that of steps which take the mean of at most so many records' gradients.
type arithmetic struct {
	*Model
	norm, l2, radius float64
	terms            int
}

// drift is how far computed iterates may be from exact ones, the last one and any, and how long any of
// them is, for rates that do not rise. A step, counted from 1, brings no two points farther apart than by a
// factor of 1 − rate·l2. Of many steps, some are taken together, as if each had the block's largest rate, its least
// shrinkage and its longest iterate: 1024 blocks from one power of two to the next.
func (a arithmetic) drift(steps int, rate func(step int) float64) (last, most, reach float64) {
	const u = 0x1p-53
	lipschitz, smooth := a.Lipschitz(a.norm), a.Smoothness(a.norm)
	inner := float64(a.Inputs+6) * u             // roundings of a logit
	outer := float64(a.Outputs+24+a.terms) * u   // of a record's gradient, and of the sum of them
	ball := float64(a.Params()+8) * u * a.radius // of what brings an iterate back
	exact := 0.0                                 // norm of an iterate
	for step := 1; step <= steps; {
		block := min(max(step>>10, 1), steps-step+1)
		eta, shrink := rate(step), rate(step+block-1)*a.l2
		before := exact
		if exact = affine(exact, -shrink, eta*lipschitz, block); a.radius > 0 {
			exact = min(exact, a.radius)
		}
		long, start := max(before, exact), last
		off := eta*(inner*smooth*long+outer*lipschitz) + (6*long+4*eta*lipschitz)*u + ball
		last = affine(last, eta*inner*smooth+6*u-shrink, off, block)
		most = max(most, last)
		reach = max(reach, long+max(start, last))
		step += block
	}
	const higher = 1 + 0x1p-10 // terms of second order, and the roundings here
	return last * higher, most * higher, reach * higher
}

// affine is x behind so many steps x ← (1 + growth)·x + c.
func affine(x, growth, c float64, steps int) float64 {
	if growth == 0 {
		return x + float64(steps)*c
	}
	risen := math.Expm1(float64(steps) * math.Log1p(growth))
	return x + risen*(x+c/growth)
}
