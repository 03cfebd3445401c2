package meta

import (
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/dpoptim/l2p"
)

// A rule is a protector under training, in float64. Without a projector it is gradient
// descent, and without a scheduler the noise is the planned one.
type rule struct {
	projector, scheduler *network
	scale                float64
}

// A simulation is a private training run of a task, with ordinary pseudo-random noise.
type simulation struct {
	rule
	task    Task
	setting l2p.Setting
	rate    float64 // of Poisson sampling
	seed    uint64  // of the start, the batches and the noise
	curved  bool    // gradients go through the sums of clipped gradients too
}

// A state is all that a run has between two steps. Nothing writes to it.
type state struct {
	params, projector, scheduler []float64
	known                        l2p.Released // of the step to come
}

func (s *simulation) start() *state {
	n := s.task.Params()
	b := &state{params: make([]float64, n), known: l2p.Released{Step: 1, Left: 1}}
	s.task.Start(rand.New(rand.NewPCG(s.seed, 0)), b.params)
	if s.projector != nil {
		b.projector = make([]float64, n*s.projector.States())
	}
	if s.scheduler != nil {
		b.scheduler = make([]float64, s.scheduler.States())
	}
	return b
}

// A step is what its gradient needs of it.
type step struct {
	before, after        *state
	multiplier           float64
	cost                 float64 // share of the budget
	output, energy       float64 // of the scheduler, and what it read
	rows                 []int   // of the batch
	mean, noise, x       []float64
	gain                 float64
	projected, scheduled *pass
}

// cost is the share of the budget that a step takes: ρ is proportional to 1/σ² (lemma
// A.5), and T steps of the planned noise take all. A real run asks the accountant.
func cost(s l2p.Setting, multiplier float64) float64 {
	share := 1 / float64(s.Steps)
	if s.Planned > 0 {
		share *= s.Planned / multiplier * s.Planned / multiplier
	}
	return share
}

func (s *simulation) schedule(b *state) *step {
	p := &step{before: b, multiplier: s.setting.Planned}
	if s.scheduler != nil && s.setting.Planned > 0 {
		x, context := s.setting.Scheduled(b.known)
		var y [1]float64
		p.energy = x
		p.scheduled = s.scheduler.forward([]float64{x}, context[:], b.scheduler, y[:])
		p.output = sigmoid(y[0])
		p.multiplier = s.setting.Multiplier(p.output)
	}
	p.cost = cost(s.setting, p.multiplier)
	return p
}

func (s *simulation) step(b *state) *step {
	p := s.schedule(b)
	n, set := len(b.params), s.setting
	r := rand.New(rand.NewPCG(s.seed, uint64(b.known.Step)))
	p.rows = make([]int, 0, s.task.Records())
	for i := range s.task.Records() {
		if s.rate >= 1 || r.Float64() < s.rate {
			p.rows = append(p.rows, i)
		}
	}
	p.mean, p.noise, p.x = make([]float64, n), make([]float64, n), make([]float64, n)
	s.task.ClippedSum(b.params, p.rows, set.Clip, p.mean)
	unit, l2 := set.Clip/set.Batch, s.task.L2()
	p.gain = set.Gain(p.multiplier)
	norm2 := 0.0
	for i := range n {
		p.noise[i] = unit * r.NormFloat64()
		p.mean[i] = p.mean[i]/set.Batch + p.multiplier*p.noise[i]
		norm2 += p.mean[i] * p.mean[i]
		p.x[i] = (p.mean[i] + l2*b.params[i]) * p.gain
	}
	a := &state{params: make([]float64, n), projector: b.projector, scheduler: b.scheduler}
	copy(a.params, b.params)
	if s.projector != nil {
		y, context := make([]float64, n), set.Context(b.known, p.multiplier)
		p.projected = s.projector.forward(p.x, context[:], b.projector, y)
		a.projector = p.projected.state
		axpy(s.scale, y, a.params)
	} else {
		axpy(-s.scale/p.gain, p.x, a.params)
	}
	if p.scheduled != nil {
		a.scheduler = p.scheduled.state
	}
	a.known = l2p.Released{Step: b.known.Step + 1, Left: b.known.Left - p.cost, Multiplier: p.multiplier, Norm2: norm2}
	p.after = a
	return p
}

// An adjoint is the gradient with respect to a state.
type adjoint struct {
	params, projector, scheduler []float64
	left, multiplier, norm2      float64
}

func (s *simulation) newAdjoint() *adjoint {
	a := &adjoint{params: make([]float64, s.task.Params())}
	if s.projector != nil {
		a.projector = make([]float64, len(a.params)*s.projector.States())
	}
	if s.scheduler != nil {
		a.scheduler = make([]float64, s.scheduler.States())
	}
	return a
}

// backward takes the gradient with respect to the state after a step to that before it,
// and adds to the gradients of the weights. The sum of clipped gradients counts as
// constant (Andrychowicz et al. 2016, section 2.1), unless s is curved.
func (s *simulation) backward(p *step, a *adjoint, projector, scheduler *network) {
	n, set, l2 := len(a.params), s.setting, s.task.L2()
	unit := set.Clip / set.Batch
	var read [l2p.ProjectorContext]float64
	dgain, dmultiplier := 0.0, a.multiplier
	dx, dy := make([]float64, n), make([]float64, n)
	axpy(s.scale, a.params, dy)
	s.projector.backward(p.projected, p.x, dy, a.projector, dx, read[:], projector)
	mean := make([]float64, n)
	for i, d := range dx {
		dgain += d * p.x[i] / p.gain
		mean[i] = d*p.gain + 2*p.mean[i]*a.norm2
		dmultiplier += mean[i] * p.noise[i]
		a.params[i] += l2 * d * p.gain
	}
	if s.curved {
		s.curve(p, mean, a.params)
	}
	// unit² = (σC/B)² + C²/P, of which gain is the inverse root and level the share.
	gainSlope := -p.gain * p.gain * p.gain * p.multiplier * unit * unit
	dmultiplier += dgain*gainSlope + read[2]*unit*(p.gain+p.multiplier*gainSlope)
	if p.multiplier > 0 {
		dmultiplier += a.left * 2 * p.cost / p.multiplier
	}
	a.left += read[1]
	a.norm2, a.multiplier = 0, 0
	if p.scheduled == nil {
		return
	}
	var energy [1]float64
	var known [l2p.SchedulerContext]float64
	du := dmultiplier * 2 * (set.Planned - set.Least) * p.output * (1 - p.output)
	s.scheduler.backward(p.scheduled, []float64{p.energy}, []float64{du}, a.scheduler, energy[:], known[:], scheduler)
	a.left += known[1]
	if b := p.before.known; b.Step > 1 {
		// energy = log(norm²·gain²/P + c), at the noise of the step before.
		gain := set.Gain(b.Multiplier)
		slope := energy[0] * math.Exp(-p.energy) * gain / float64(n)
		a.norm2 = slope * gain
		a.multiplier = slope * b.Norm2 * 2 * -gain * gain * gain * b.Multiplier * unit * unit
	}
}

// curve adds to params the gradient that mean, with respect to the mean gradient, gives
// through the clipped gradients: the difference quotient of their sum along it. That is
// the product with their Jacobian, of which the transpose is meant: the same where no
// gradient is clipped, and where a clipped one's curvature lies along itself.
func (s *simulation) curve(p *step, mean, params []float64) {
	at := p.before.params
	norm := math.Sqrt(dot(mean, mean))
	if norm == 0 {
		return
	}
	h := 1e-5 * (1 + math.Sqrt(dot(at, at)))
	shifted, sum := make([]float64, len(at)), make([]float64, len(at))
	for _, side := range []float64{h, -h} {
		copy(shifted, at)
		axpy(side/norm, mean, shifted)
		s.task.ClippedSum(shifted, p.rows, s.setting.Clip, sum)
		axpy(norm/(2*side*s.setting.Batch), sum, params)
	}
}
