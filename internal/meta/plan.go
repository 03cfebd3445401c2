package meta

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/fault"
)

// A Plan says how the simulated runs are private.
type Plan struct {
	Steps        int     // T
	Rate         float64 // q, of Poisson sampling
	Clip         float64 // C
	Delta        float64
	Neighbouring accountant.Neighbouring
	Accountant   string
}

// Noise is what an ε asks for, in units of C: σ_g, with which T steps spend it, and
// σ_min, with which one does. ε = +Inf stands for no noise.
type Noise struct{ Epsilon, Least, Planned float64 }

func (p Plan) Noise(epsilon float64) (Noise, error) {
	n := Noise{Epsilon: epsilon}
	if math.IsInf(epsilon, 1) {
		return n, nil
	}
	for _, to := range []struct {
		steps int
		sigma *float64
	}{{p.Steps, &n.Planned}, {1, &n.Least}} {
		s := accountant.Schedule{SamplingRate: p.Rate, Steps: to.steps, Neighbouring: p.Neighbouring, Accountant: p.Accountant, Delta: p.Delta}
		var err error
		if *to.sigma, _, err = s.Calibrate(epsilon); err != nil {
			return n, fmt.Errorf("noise for epsilon %v: %w", epsilon, err)
		}
	}
	return n, nil
}

func (p Plan) simulate(r rule, task Task, n Noise, seed uint64) *simulation {
	return &simulation{
		rule: r,
		task: task,
		setting: l2p.Setting{
			Steps: p.Steps, Params: task.Params(), Clip: p.Clip, Batch: p.Rate * float64(task.Records()),
			Least: n.Least, Planned: n.Planned,
		},
		rate: p.Rate,
		seed: seed,
	}
}

// run makes steps as long as the budget pays for the next.
func (s *simulation) run() *state {
	at := s.start()
	for s.affords(at) {
		at = s.step(at).after
	}
	return at
}

// affords reports whether the budget pays for the next step.
func (s *simulation) affords(at *state) bool { return s.schedule(at).cost <= at.known.Left+1e-9 }

type ending struct {
	loss  float64
	steps int
}

// evaluate runs a rule on tasks that the seed draws, with noise that follows from it
// too. Two rules, or two plans, so meet the same tasks, from the same starts.
func evaluate(r rule, plan Plan, f Family, n Noise, tasks int, seed uint64, workers int) []ending {
	endings := make([]ending, tasks)
	parallel(tasks, workers, func(i int) {
		task := f.Draw(rand.New(rand.NewPCG(seed, 2*uint64(i))))
		s := plan.simulate(r, task, n, rand.New(rand.NewPCG(seed, 2*uint64(i)+1)).Uint64())
		end := s.run()
		endings[i] = ending{task.Loss(end.params, nil), end.known.Step - 1}
	})
	return endings
}

func ruleOf(p *l2p.Protector) rule {
	r := rule{scale: p.Card.Scale}
	if p.Card.Projector.Kind == l2p.Learned {
		r.projector = newNetwork(p.Card.Projector.LSTM(l2p.ProjectorContext), converted[float64](p.Projector))
	}
	if p.Card.Scheduler.Kind == l2p.Learned {
		r.scheduler = newNetwork(p.Card.Scheduler.LSTM(l2p.SchedulerContext), converted[float64](p.Scheduler))
	}
	return r
}

// parallel calls f(0) … f(n−1), a few at a time.
func parallel(n, workers int, f func(i int)) {
	free := make(chan struct{}, max(workers, 1))
	faults := make([]error, n)
	for i := range n {
		free <- struct{}{}
		go func() {
			defer func() { <-free }()
			defer fault.Recover(&faults[i])
			f(i)
		}()
	}
	for range cap(free) {
		free <- struct{}{}
	}
	for _, err := range faults {
		fault.Raise(err)
	}
}

// Descent is DP-SGD as a protector: steps of a rate, with the planned noise.
func Descent(rate float64) *l2p.Protector {
	return &l2p.Protector{Card: l2p.Card{Name: "dp-sgd", Scale: rate, Projector: l2p.Part{Kind: l2p.Identity}, Scheduler: l2p.Part{Kind: l2p.Constant}}}
}
