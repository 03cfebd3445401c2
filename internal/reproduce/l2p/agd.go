package l2p

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/linesearch"
	"github.com/privgrad/privgrad/internal/meta"
)

// agd simulates DP-AGD (Lee and Kifer 2018) on all records of a task: linesearch's rule
// over gradients with Gaussian noise and noisy minima of clipped losses, as long as a
// filter pays. It is the Oracle of that rule.
type agd struct {
	task   lossTask
	rows   []int
	clip   float64 // of gradients
	bound  float64 // of losses
	trials int     // step sizes that a search tries, beside 0
	filter *accountant.Filter
	r      *rand.Rand

	params, direction, last []float64
	variance                float64 // of the noise in a coordinate of the direction
}

// A lossTask tells clipped losses, too, as quadratics do.
type lossTask interface {
	meta.Task
	ClippedLoss(params []float64, bound float64) float64
}

// A plan of DP-AGD is what can be tuned.
type agdPlan struct {
	iterations int     // that the first budgets would pay for, half for gradients and half for searches
	bound      float64 // of losses
}

// agdTrials and agdLargest are appendix C.1's range of step sizes, for a mean in the place of its sum.
const (
	agdTrials  = 20
	agdLargest = quadraticRecords * 0.02
	agdGrowth  = 0.3 // of budgets after a search that found nothing
)

func gradientEvent(rho float64) accountant.Mechanism {
	return accountant.Gaussian{NoiseMultiplier: 1 / math.Sqrt(2*rho)}
}

// prepare shares the noise of a run with as many iterations as are planned. In this division, and not
// in the accounting, ε-DP counts as ε²/2-zCDP.
func (p agdPlan) prepare(epsilon float64) (runner, error) {
	plan := quadraticPlan(p.iterations)
	n, err := plan.Noise(epsilon)
	if err != nil {
		return nil, err
	}
	each := float64(plan.Steps) / (2 * n.Planned * n.Planned) / float64(2*p.iterations)
	b := linesearch.Budgets{Gradient: each, Search: math.Sqrt(2 * each), Clip: 1}
	order, err := accountant.FilterOrder([]accountant.Event{
		accountant.PoissonBatch(1, p.iterations, gradientEvent(b.Gradient)),
		accountant.PoissonBatch(1, p.iterations, accountant.Pure{Epsilon: b.Search}),
	}, plan.Neighbouring, plan.Delta)
	if err != nil {
		return nil, err
	}
	return func(task meta.Task, seed uint64) ([]meta.Point, error) {
		f, err := accountant.NewFilter(epsilon, plan.Delta, plan.Neighbouring, order)
		if err != nil {
			return nil, err
		}
		return p.run(plan.Clip, b, f, task, seed)
	}, nil
}

// run is one training run: where it started and where each move led.
func (p agdPlan) run(clip float64, b linesearch.Budgets, f *accountant.Filter, problem meta.Task, seed uint64) ([]meta.Point, error) {
	task, ok := problem.(lossTask)
	if !ok {
		return nil, errors.New("a quadratic tells no clipped losses; please report this")
	}
	o := &agd{
		task: task, clip: clip, bound: p.bound, trials: agdTrials, filter: f,
		r: rand.New(rand.NewPCG(seed, 1)), params: make([]float64, task.Params()),
	}
	for i := range task.Records() {
		o.rows = append(o.rows, i)
	}
	task.Start(rand.New(rand.NewPCG(seed, 0)), o.params) // where meta.Trace starts
	rule := linesearch.Rule{
		Start:  linesearch.StartRule{Every: 10, Factor: 1.2, Least: agdLargest / 1000, Most: agdLargest},
		Policy: linesearch.Refine, Growth: agdGrowth, Wide: 1.1, Narrow: 0.5, Decay: 0.8,
	}
	s := linesearch.NewState(b.Gradient, b.Search, agdLargest)
	var all []meta.Point
	for {
		all = append(all, meta.Point{Params: slices.Clone(o.params), Loss: task.Loss(o.params, nil)})
		if _, err := rule.Iterate(&s, o); errors.Is(err, accountant.ErrBudget) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
	}
}

func (o *agd) ask(m accountant.Mechanism) error {
	return o.filter.Ask(accountant.PoissonBatch(1, 1, m))
}

// release is a noisy mean gradient with the penalty's.
func (o *agd) release(rho float64) ([]float64, error) {
	if err := o.ask(gradientEvent(rho)); err != nil {
		return nil, err
	}
	g, n := make([]float64, len(o.params)), float64(len(o.rows))
	o.task.ClippedSum(o.params, o.rows, o.clip, g)
	for i := range g {
		g[i] = (g[i]+o.clip/math.Sqrt(2*rho)*o.r.NormFloat64())/n + o.task.L2()*o.params[i]
	}
	return g, nil
}

// deviation is that of the noise in a coordinate of a release.
func (o *agd) deviation(rho float64) float64 {
	return o.clip / math.Sqrt(2*rho) / float64(len(o.rows))
}

func (o *agd) known() linesearch.Direction {
	return linesearch.Direction{
		Norm2: inner(o.direction, o.direction), Along: inner(o.params, o.direction), L2: o.task.L2(),
		Noise: float64(len(o.params)) * o.variance,
	}
}

func (o *agd) Gradient(b linesearch.Budgets) (linesearch.Direction, error) {
	g, err := o.release(b.Gradient)
	if err != nil {
		return linesearch.Direction{}, err
	}
	o.last, o.direction, o.variance = o.direction, g, o.deviation(b.Gradient)*o.deviation(b.Gradient)
	return o.known(), nil
}

// Again mixes another gradient into it.
func (o *agd) Again(rho, weight float64, _ linesearch.Budgets) (linesearch.Direction, float64, error) {
	g, err := o.release(rho)
	if err != nil {
		return linesearch.Direction{}, 0, err
	}
	turned := angle(o.direction, g)
	for i := range g {
		o.direction[i] = (1-weight)*o.direction[i] + weight*g[i]
	}
	d := o.deviation(rho)
	o.variance = (1-weight)*(1-weight)*o.variance + weight*weight*d*d
	return o.known(), turned, nil
}

// Search is the noisy minimum over evenly spaced steps, of which the first is 0.
func (o *agd) Search(b linesearch.Budgets, start float64, _ linesearch.Direction) (float64, error) {
	if err := o.ask(accountant.Pure{Epsilon: b.Search}); err != nil {
		return 0, err
	}
	best, least, at := 0.0, math.Inf(1), make([]float64, len(o.params))
	for i := range o.trials + 1 {
		eta := start * float64(i) / float64(o.trials)
		for k := range at {
			at[k] = o.params[k] - eta*o.direction[k]
		}
		// Report noisy max of the negatives, with exponential noise (mechanism.NoisyMin).
		if loss := o.task.ClippedLoss(at, o.bound) - o.bound/b.Search*o.r.ExpFloat64(); loss < least {
			best, least = eta, loss
		}
	}
	return best, nil
}

// Move takes the step.
func (o *agd) Move(eta float64) error {
	for k := range o.params {
		o.params[k] -= eta * o.direction[k]
	}
	return nil
}

// Turned is the angle to the direction of the move before.
func (o *agd) Turned() float64 {
	if o.last == nil {
		return math.NaN()
	}
	return angle(o.direction, o.last)
}

func inner(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func angle(a, b []float64) float64 {
	return math.Acos(min(max(inner(a, b)/math.Sqrt(inner(a, a)*inner(b, b)), -1), 1))
}
