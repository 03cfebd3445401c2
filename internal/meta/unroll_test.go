package meta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/device"
)

// A linear task has a loss a·θ + λ/2·‖θ‖² and clipped sums that do not depend on θ: the
// same in every step, or, where records are there, those of a recorded run.
type linear struct {
	a, sum   []float64
	l2       float64
	recorded [][]float64
	at       *int
}

func (l linear) Params() int                          { return len(l.a) }
func (l linear) Records() int                         { return 1 }
func (l linear) L2() float64                          { return l.l2 }
func (l linear) Start(r *rand.Rand, params []float64) { copy(params, normals(r, len(params), 1)) }
func (l linear) Loss(params, grad []float64) float64 {
	if grad != nil {
		copy(grad, l.a)
	}
	return dot(l.a, params) + penalty(l.l2, params, grad)
}
func (l linear) ClippedSum(_ []float64, _ []int, _ float64, sum []float64) {
	copy(sum, l.sum)
	if l.recorded != nil {
		copy(sum, l.recorded[*l.at])
		*l.at++
	}
}

// linearSimulation is one with random weights, large enough for the noise to move.
func linearSimulation(logSign bool) (*simulation, []float64, []float64) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 4
	s := &simulation{
		task:    linear{a: normals(r, n, 1), sum: normals(r, n, 30), l2: 0.1},
		setting: l2p.Setting{Steps: 6, Params: n, Clip: 2, Batch: 40, Least: 4, Planned: 10},
		rate:    0.5,
		seed:    7,
	}
	projector := device.LSTM{Layers: 2, Hidden: 3, Context: l2p.ProjectorContext, LogSign: logSign}
	scheduler := device.LSTM{Layers: 2, Hidden: 4, Context: l2p.SchedulerContext}
	p, q := normals(r, projector.Weights(), 0.6), normals(r, scheduler.Weights(), 0.6)
	s.rule = rule{projector: newNetwork(projector, p), scheduler: newNetwork(scheduler, q), scale: 0.3}
	return s, p, q
}

func gradientOf(t *trajectory, o objective) (p, q []float64) {
	p, q = make([]float64, t.projector.Weights()), make([]float64, t.scheduler.Weights())
	t.gradient(o, newNetwork(t.projector.LSTM, p), newNetwork(t.scheduler.LSTM, q))
	return p, q
}

// The whole meta-gradient, through parameters, states, noise, budget, stop weights
// and the augmented Lagrangian, against central differences, where second derivatives
// of the task vanish: with one sum in all steps, and with those that a quadratic gave.
func TestMetaGradient(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		gamma := map[bool]float64{false: 1, true: 1.1}[recorded]
		for _, logSign := range []bool{false, true} {
			s, p, q := linearSimulation(logSign)
			at := 0
			if recorded {
				quadratic := Quadratics{Records: 9}.Draw(rand.New(rand.NewPCG(1, 1)))
				l := s.task.(linear)
				for i := range s.setting.Steps {
					g := make([]float64, len(l.a))
					quadratic.ClippedSum([]float64{1 - float64(i)/3, 2}, []int{i, i + 1}, 2, g[:2])
					quadratic.ClippedSum([]float64{-1, float64(i)}, []int{i, i + 2}, 2, g[2:])
					l.recorded = append(l.recorded, g)
				}
				l.at = &at
				s.task = l
			}
			m := multiplier{Z: 0.7, Mu: 0.05}
			value := func() (*trajectory, objective) {
				at = 0
				run := s.roll(s.start(), s.setting.Steps, 0)
				o := run.stopped(gamma)
				o.constrain(m, run.overspent())
				return run, o
			}
			run, o := value()
			if h := run.overspent(); math.Abs(h) < 0.01 || slices.Contains(o.loss, 0) {
				t.Fatalf("h = %v and weights %v: the case tests too little", h, o.loss)
			}
			at = 0
			gp, gq := gradientOf(run, o)
			for name, w := range map[string][2][]float64{"projector": {p, gp}, "scheduler": {q, gq}} {
				if norm := math.Sqrt(dot(w[1], w[1])); norm < 0.01 {
					t.Fatalf("%s: gradient of norm %v: the case tests nothing", name, norm)
				}
				for i := range w[0] {
					want := difference(&w[0][i], 1e-5, func() float64 { _, o := value(); return o.value })
					near(t, fmt.Sprintf("recorded %v, log %v, %s %d", recorded, logSign, name, i), w[1][i], want, 1e-7)
				}
			}
		}
	}
}

// With the task's curvature the whole gradient is that of quadratics too, as long as
// nothing is clipped. The quotient of a linear function has rounding alone.
func TestCurvature(t *testing.T) {
	s, p, q := linearSimulation(false)
	s.task = Quadratics{Records: 9}.Draw(rand.New(rand.NewPCG(1, 1)))
	s.setting = l2p.Setting{Steps: 4, Params: 2, Clip: 100, Batch: 4.5, Least: 0.02, Planned: 0.05}
	value := func() *trajectory { return s.roll(s.start(), 4, 0) }
	run := value()
	flat, _ := gradientOf(run, run.stopped(1))
	s.curved = true
	gp, gq := gradientOf(run, run.stopped(1))
	if slices.Equal(flat, gp) {
		t.Error("curvature changes nothing")
	}
	for name, w := range map[string][2][]float64{"projector": {p, gp}, "scheduler": {q, gq}} {
		for i := range w[0] {
			want := difference(&w[0][i], 1e-5, func() float64 { return value().stopped(1).value })
			near(t, fmt.Sprintf("%s %d", name, i), w[1][i], want, 1e-6)
		}
	}
}

// A block in the middle of a run, from a state that counts as given: the mean loss and
// the constraint of its own budget.
func TestBlock(t *testing.T) {
	s, p, q := linearSimulation(false)
	from := s.roll(s.start(), 2, 0).last
	m := multiplier{Z: -0.4, Mu: 0.1}
	value := func() (*trajectory, objective) {
		run := s.roll(from, 3, 0)
		o := run.average()
		o.constrain(m, from.known.Left-run.last.known.Left-0.3)
		return run, o
	}
	gp, gq := gradientOf(value())
	for name, w := range map[string][2][]float64{"projector": {p, gp}, "scheduler": {q, gq}} {
		for i := range w[0] {
			want := difference(&w[0][i], 1e-5, func() float64 { _, o := value(); return o.value })
			near(t, fmt.Sprintf("%s %d", name, i), w[1][i], want, 1e-7)
		}
	}
}

// Steps made again from stored states give the same gradient bit by bit.
func TestCheckpointed(t *testing.T) {
	s, _, _ := linearSimulation(false)
	s.task = Quadratics{Records: 9}.Draw(rand.New(rand.NewPCG(1, 1)))
	s.setting.Params = 2
	const steps = 11
	all := s.roll(s.start(), steps, 0)
	o := all.stopped(1)
	p, q := gradientOf(all, o)
	for _, every := range []int{1, 3, 4, 10} {
		again := s.roll(s.start(), steps, every)
		if again.steps != nil {
			t.Fatalf("every %d: keeps all steps", every)
		}
		p2, q2 := gradientOf(again, again.stopped(1))
		if !slices.Equal(p, p2) || !slices.Equal(q, q2) {
			t.Errorf("every %d: another gradient", every)
		}
	}
}

// The definition of F̂ on figures done by hand: budgets left of .5, 0 and −.25 give
// weights .5, 1 and .75.
func TestStopped(t *testing.T) {
	run := &trajectory{losses: []float64{4, 2, 1}, left: []float64{0.5, 0, -0.25}}
	o := run.stopped(1)
	near(t, "value", o.value, (0.5*4+2+0.75)/2.25, 1e-15)
	for i, want := range []float64{0.5 / 2.25, 1 / 2.25, 0.75 / 2.25} {
		near(t, "weight", o.loss[i], want, 1e-15)
	}
	// I falls with |h|; h is less than 0 first, so more left means less weight.
	near(t, "left", o.left[0], -(4-o.value)/2.25, 1e-15)
	near(t, "left", o.left[2], (1-o.value)/2.25, 1e-15)
	far := &trajectory{losses: []float64{4, 9}, left: []float64{0.5, -1.5}}
	if o := far.stopped(1); o.value != 4 || o.left[1] != 0 {
		t.Errorf("a step beyond twice the budget counts: %+v", o)
	}
	// γ = 4 leaves what is within a quarter of the budget, or the last step.
	near(t, "gamma 4", (&trajectory{losses: []float64{9, 4, 1}, left: []float64{0.5, 0.125, 0}}).stopped(4).value, (0.5*4+1)/1.5, 1e-15)
	near(t, "none near", (&trajectory{losses: []float64{9, 4}, left: []float64{0.9, 0.8}}).stopped(4).value, 4, 0)
}

// r is the least of L(r) where no shift of it, of any block, gains anything.
func TestBudgets(t *testing.T) {
	b := newBudgets(3, 0.5)
	b.Block[1] = multiplier{Z: 0.3, Mu: 0.2}
	b.Total = multiplier{Z: -0.4, Mu: 0.1}
	total, spent := b.Total, []float64{0.2, 0.7, 0.4}
	b.update(spent, 0.5, 1e-3)
	near(t, "z of block 0", b.Block[0].Z, -(0.2-1.0/3)/0.5, 1e-15)
	near(t, "mu of block 0", b.Block[0].Mu, 0.25, 0)
	value := func() float64 {
		h, v := sum(b.Share)-1, 0.0
		for i, r := range b.Share {
			e := spent[i] - b.Block[i].Z*b.Block[i].Mu - r
			v += e * e / (2 * b.Block[i].Mu)
		}
		return v + total.value(h)
	}
	for i := range b.Share {
		near(t, "derivative of L(r)", difference(&b.Share[i], 1e-4, value), 0, 1e-10)
	}
	near(t, "z of all", b.Total.Z, total.Z-(sum(b.Share)-1)/total.Mu, 1e-12)
	small := multiplier{Mu: 2e-3}
	small.update(0, 0.1, 1e-3)
	near(t, "least mu", small.Mu, 1e-3, 0)
}

// The cost of a step: all of the budget at the planned noise in T steps, a quarter of
// a step's at twice the noise.
func TestCost(t *testing.T) {
	set := l2p.Setting{Steps: 8, Params: 1, Clip: 1, Batch: 1, Least: 1, Planned: 3}
	near(t, "planned", cost(set, 3), 1.0/8, 1e-15)
	near(t, "twice", cost(set, 6), 1.0/32, 1e-15)
	set.Least, set.Planned = 0, 0
	near(t, "no noise", cost(set, 0), 1.0/8, 1e-15)
}
