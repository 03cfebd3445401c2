package meta

import "math"

// A trajectory is a stretch of a simulation, with what its gradient needs: all steps, or
// a state every so many, from which they are made again.
type trajectory struct {
	*simulation
	every  int
	states []*state
	steps  []*step // nil where they are made again
	last   *state
	losses []float64 // f_t, after each step
	left   []float64 // share of the budget, after each step
}

// roll makes steps from a state. It keeps all of them, or, where every is not 0, a state
// in as many; √steps keeps memory least. The gradient is the same bit by bit.
func (s *simulation) roll(from *state, steps, every int) *trajectory {
	t := &trajectory{simulation: s, every: every}
	if every < 1 || every >= steps {
		t.every = steps
	}
	for i := range steps {
		if i%t.every == 0 {
			t.states = append(t.states, from)
		}
		p := s.step(from)
		if t.every == steps {
			t.steps = append(t.steps, p)
		}
		from = p.after
		t.losses = append(t.losses, s.task.Loss(from.params, nil))
		t.left = append(t.left, from.known.Left)
	}
	t.last = from
	return t
}

// overspent is h at the end.
func (t *trajectory) overspent() float64 { return -t.last.known.Left }

// An objective is a figure of a trajectory with its derivatives by the loss and by the
// share left after each step.
type objective struct {
	value      float64
	loss, left []float64
}

// stopped is F̂ = ΣI_t·f_t/ΣI_t with I_t = max(0, 1 − γ|h_t|), h_t being what is spent less
// the budget in shares of it, and its derivatives (appendix B.6, equation 19). γ is 1 in
// the paper; a larger one leaves the last part of the run, 1/γ of the budget. Where no
// step is so near the budget, only the last counts.
func (t *trajectory) stopped(gamma float64) objective {
	n := len(t.losses)
	o := objective{loss: make([]float64, n), left: make([]float64, n)}
	total := 0.0
	for i, left := range t.left {
		o.loss[i] = max(0, 1-gamma*math.Abs(left))
		total += o.loss[i]
		o.value += o.loss[i] * t.losses[i]
	}
	if total == 0 {
		o.value, o.loss[n-1] = t.losses[n-1], 1
		return o
	}
	o.value /= total
	for i, left := range t.left {
		if o.loss[i] > 0 {
			o.left[i] = -math.Copysign(gamma, left) * (t.losses[i] - o.value) / total
		}
		o.loss[i] /= total
	}
	return o
}

// average is the mean loss of a block (appendix B.6, equation 35).
func (t *trajectory) average() objective {
	n := len(t.losses)
	o := objective{value: sum(t.losses) / float64(n), loss: make([]float64, n), left: make([]float64, n)}
	fill(o.loss, 1/float64(n))
	return o
}

// constrain adds −z·h + h²/(2μ), h being what is spent more than was in the end.
func (o *objective) constrain(m multiplier, h float64) {
	o.value += m.value(h)
	o.left[len(o.left)-1] -= m.slope(h)
}

// gradient adds to the gradients of the weights.
func (t *trajectory) gradient(o objective, projector, scheduler *network) {
	a := t.newAdjoint()
	grad := make([]float64, len(a.params))
	for k := len(t.states) - 1; k >= 0; k-- {
		steps := t.steps
		if steps == nil {
			for from := t.states[k]; len(steps) < min(t.every, len(t.losses)-k*t.every); from = steps[len(steps)-1].after {
				steps = append(steps, t.step(from))
			}
		}
		for i := len(steps) - 1; i >= 0; i-- {
			at := k*t.every + i
			if o.loss[at] != 0 {
				t.task.Loss(steps[i].after.params, grad)
				axpy(o.loss[at], grad, a.params)
			}
			a.left += o.left[at]
			t.backward(steps[i], a, projector, scheduler)
		}
	}
}
