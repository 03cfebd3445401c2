package l2p

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/meta"
	"github.com/privgrad/privgrad/internal/reproduce"
)

// A setting of a method is what can be tuned.
type setting struct {
	rate  float64
	steps int
	agd   agdPlan
}

func (s setting) String() string {
	switch {
	case s.agd.iterations > 0:
		return fmt.Sprintf("%d iterations planned, losses clipped to %g", s.agd.iterations, s.agd.bound)
	case s.rate > 0:
		return fmt.Sprintf("T = %d, rate %.3g", s.steps, s.rate)
	case s.steps == 0:
		return "nothing to choose"
	}
	return fmt.Sprintf("T = %d", s.steps)
}

type runner func(task meta.Task, seed uint64) ([]meta.Point, error)

// A solver is a line of figure 6, with the settings that it is tuned over.
type solver struct {
	name    string
	grid    []setting
	prepare func(epsilon float64, s setting) (runner, error)
}

// tracing prepares a protector under a noise, both of which a setting decides.
func tracing(of func(s setting) *l2p.Protector, noise func(p meta.Plan, epsilon float64) (meta.Noise, error)) func(float64, setting) (runner, error) {
	return func(epsilon float64, s setting) (runner, error) {
		p, plan := of(s), quadraticPlan(s.steps)
		n, err := noise(plan, epsilon)
		if err != nil {
			return nil, err
		}
		return func(task meta.Task, seed uint64) ([]meta.Point, error) {
			return meta.Trace(p, plan, task, n, seed), nil
		}, nil
	}
}

func rateGrid(steps []int, rates []float64) (all []setting) {
	for _, t := range steps {
		for _, r := range rates {
			all = append(all, setting{rate: r, steps: t})
		}
	}
	return all
}

func geometric(first, last float64, n int) (all []float64) {
	for i := range n {
		all = append(all, first*math.Pow(last/first, float64(i)/float64(n-1)))
	}
	return all
}

func linearly(first, last float64, n int) (all []float64) {
	for i := range n {
		all = append(all, first+(last-first)*float64(i)/float64(n-1))
	}
	return all
}

var paperSteps = []int{10, 20, 30, 40, 50, 60}

// solvers are tuned without privacy, as the paper does. Its rates are for a sum of 60, ours
// for the mean.
func solvers(e *reproduce.Env) []solver {
	descending := func(s setting) *l2p.Protector { return meta.Descent(s.rate) }
	always := func(p *reproduce.Protection) func(setting) *l2p.Protector {
		return func(setting) *l2p.Protector { return p.Protector }
	}
	trained := setting{steps: e.Learned.Card.Steps}
	steps := []setting{trained}
	for _, t := range paperSteps {
		if t != trained.steps {
			steps = append(steps, setting{steps: t})
		}
	}
	var searches []setting
	for _, n := range []int{2, 5, 10, 20} {
		for _, bound := range []float64{3, 10, 30} {
			searches = append(searches, setting{agd: agdPlan{n, bound}})
		}
	}
	return []solver{
		{learnedLine, []setting{trained}, tracing(always(e.Learned), meta.Plan.Noise)},
		{projectorLine, steps, tracing(always(unscheduled(e.Learned)), meta.Plan.Noise)},
		{tunedLine, rateGrid([]int{1, 2, 3, 5, 10, 20, 40, 60, 100}, geometric(0.003, 3, 19)), tracing(descending, meta.Plan.Noise)},
		{agdLine, searches, func(epsilon float64, s setting) (runner, error) { return s.agd.prepare(epsilon) }},
		{advancedLine, rateGrid(paperSteps, linearly(quadraticRecords*0.001, quadraticRecords*0.02, 20)), tracing(descending, func(p meta.Plan, epsilon float64) (meta.Noise, error) {
			sigma := advanced(epsilon, p.Delta, p.Steps, 1)
			return meta.Noise{Epsilon: epsilon, Least: sigma, Planned: sigma}, nil
		})},
		{noiseFreeLine, rateGrid([]int{60}, geometric(0.01, 0.3, 12)), func(_ float64, s setting) (runner, error) {
			plan := quadraticPlan(s.steps)
			plan.Clip = 1e6 // of nothing
			return func(task meta.Task, seed uint64) ([]meta.Point, error) {
				return meta.Trace(meta.Descent(s.rate), plan, task, meta.Noise{Epsilon: math.Inf(1)}, seed), nil
			}, nil
		}},
		{priorLine, []setting{{}}, func(float64, setting) (runner, error) {
			var at [2]float64
			n := problems(e, quadraticTuning)
			for i := range n {
				task, _ := problem(fixedStart, tuningSeed, i)
				solution := least(task)
				at[0], at[1] = at[0]+solution[0]/float64(n), at[1]+solution[1]/float64(n)
			}
			return func(task meta.Task, seed uint64) ([]meta.Point, error) {
				start := make([]float64, 2)
				task.Start(rand.New(rand.NewPCG(seed, 0)), start)
				return []meta.Point{{Params: start, Loss: task.Loss(start, nil)}, {Params: at[:], Loss: task.Loss(at[:], nil)}}, nil
			}, nil
		}},
	}
}

// advanced is the noise multiplier of T releases of batches at rate q by the analysis of 2014: classical noise,
// σ = √(2 ln(1.25/δ₀))/ε₀ for ε₀ ≤ 1; amplification, ε₁ = ln(1 + q(e^ε₀ − 1)) and δ₁ = qδ₀; and advanced
// composition, ε = √(2T ln(1/δ′))·ε₁ + T·ε₁(e^ε₁ − 1). The releases and δ′ have half of δ each (Dwork and Roth
// 2014, theorems A.1 and 3.20; Beimel et al. 2014).
func advanced(epsilon, delta float64, steps int, q float64) float64 {
	t := float64(steps)
	low, high := 0.0, epsilon
	for range 200 {
		each := (low + high) / 2
		if math.Sqrt(2*t*math.Log(2/delta))*each+t*each*math.Expm1(each) > epsilon {
			high = each
		} else {
			low = each
		}
	}
	return math.Sqrt(2*math.Log(1.25*2*t*q/delta)) / min(math.Log1p(math.Expm1(low)/q), 1)
}

// tuned chooses the setting with the least mean loss over problems of the tuning seed.
func (s solver) tuned(ctx context.Context, e *reproduce.Env, f meta.Quadratics, epsilon float64) (setting, runner, error) {
	var best setting
	var run runner
	least := math.Inf(1)
	for _, c := range s.grid {
		if err := ctx.Err(); err != nil {
			return best, nil, err
		}
		r, err := s.prepare(epsilon, c)
		if err != nil {
			return best, nil, err
		}
		if len(s.grid) == 1 {
			return c, r, nil
		}
		total := 0.0
		for i := range problems(e, quadraticTuning) {
			points, err := r(problem(f, tuningSeed, i))
			if err != nil {
				return best, nil, err
			}
			total += points[len(points)-1].Loss
		}
		if total < least {
			best, run, least = c, r, total
		}
	}
	if run == nil {
		return best, nil, fmt.Errorf("%s at ε = %g: no setting ends with a finite loss", s.name, epsilon)
	}
	return best, run, nil
}
