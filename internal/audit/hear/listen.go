package hear

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/convex"
)

// Method is one whose engine's answers the adversary hears.
func (a *Adversary) Method(m dpoptim.Method) dpoptim.Method { return heard{m, a} }

type heard struct {
	dpoptim.Method
	adversary *Adversary
}

func (h heard) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	h.adversary.engine = e
	return h.Method.Open(&listener{e, h.adversary})
}

// A listener passes on what is asked and answered.
type listener struct {
	dpoptim.Engine
	*Adversary
}

// asked is the release that is made, and what asks for it.
func (l *listener) asked(q dpoptim.Question, r *dpoptim.Release) (dpoptim.Release, *dpoptim.Release, error) {
	if r == nil {
		declared, err := l.declared(q)
		return declared, nil, err
	}
	made := *r
	if l.Distort != nil {
		made = l.Distort(q, made)
	}
	return made, &made, nil
}

// declared is the release of a question in this step.
func (l *listener) declared(q dpoptim.Question) (r dpoptim.Release, err error) {
	a := l.ask(q)
	if a.At != nil {
		r, err = a.At(l.Slot())
	} else {
		r, err = a.Release(l.Plan.Sigma)
	}
	if r.Bound == 0 {
		r.Bound = l.Plan.Facts.Clip
	}
	return r, err
}

type heardSum struct {
	dpoptim.Sum
	*listener
	into dpoptim.Vector
	norm bool
}

func (l *listener) Sum(q dpoptim.SumQuery) (dpoptim.Sum, error) {
	into := q.Into
	if into == 0 {
		into = l.Gradient()
	}
	s, err := l.Engine.Sum(q)
	return &heardSum{s, l, into, q.Norm}, err
}

func (s *heardSum) Ask(a dpoptim.SumAsk) error {
	r, made, err := s.asked(dpoptim.Gradients, a.Release)
	if err != nil {
		return err
	}
	a.Release = made
	at, err := s.values(s.Params())
	if err != nil {
		return err
	}
	if err := s.Sum.Ask(a); err != nil {
		return err
	}
	y, err := s.values(s.into)
	if err != nil {
		return err
	}
	s.hear(dpoptim.Gradients, func(rows []int32) float64 {
		return logNormal(y, s.sum(rows, at, r.Bound), deviation(r))
	})
	if !s.norm {
		return nil
	}
	norm, err := s.Norm()
	if err != nil {
		return err
	}
	n, err := s.declared(dpoptim.Norms)
	if err != nil {
		return err
	}
	s.hear(dpoptim.Norms, func(rows []int32) float64 {
		return logNormal([]float64{norm}, []float64{length(s.sum(rows, at, r.Bound))}, deviation(n))
	})
	return nil
}

// deviation is that of a Gaussian release.
func deviation(r dpoptim.Release) float64 {
	g, _ := r.Noise.(accountant.Gaussian)
	return g.NoiseMultiplier * r.Bound
}

func length(v []float64) float64 {
	square := 0.0
	for _, x := range v {
		square += x * x
	}
	return math.Sqrt(square)
}

type heardSearch struct {
	dpoptim.Search
	*listener
	question dpoptim.Question
	along    dpoptim.Vector
}

func (l *listener) Search(along dpoptim.Vector) (dpoptim.Search, error) {
	s, err := l.Engine.Search(along)
	return &heardSearch{s, l, dpoptim.Searches, along}, err
}

func (l *listener) Minimum(along dpoptim.Vector) (dpoptim.Search, error) {
	s, err := l.Engine.Minimum(along)
	return &heardSearch{s, l, dpoptim.Minima, along}, err
}

func (s *heardSearch) Ask(asked *dpoptim.Release, c dpoptim.Candidates) (int, error) {
	r, made, err := s.asked(s.question, asked)
	if err != nil {
		return 0, err
	}
	points, err := s.points(s.along, c.Etas)
	if err != nil {
		return 0, err
	}
	told, err := s.Search.Ask(made, c)
	if err != nil {
		return told, err
	}
	switch noise := r.Noise.(type) {
	case accountant.NoisyBTLS:
		s.hear(s.question, func(rows []int32) float64 {
			return logFirst(told, s.decreases(rows, points, r.Bound, noise.Queries == accountant.SharedBaseline), c.Biases, noise, r.Bound)
		})
	case accountant.Pure:
		s.hear(s.question, func(rows []int32) float64 {
			values := s.losses(rows, points, r.Bound)[1:]
			for i, b := range c.Biases {
				values[i] += b
			}
			return logLeast(told, values, r.Bound/noise.Epsilon)
		})
	default:
		return 0, fmt.Errorf("a %s with %v as its noise: an audit knows no law of it", s.question, r.Noise)
	}
	return told, nil
}

func (l *listener) Curve(along dpoptim.Vector) (func([]float64) ([]float64, error), error) {
	ask, err := l.Engine.Curve(along)
	return func(etas []float64) ([]float64, error) {
		points, err := l.points(along, etas)
		if err != nil {
			return nil, err
		}
		y, err := ask(etas)
		if err != nil {
			return nil, err
		}
		r, err := l.declared(dpoptim.Curves)
		if err != nil {
			return nil, err
		}
		l.hear(dpoptim.Curves, func(rows []int32) float64 { return logNormal(y, l.curve(rows, points, r.Bound), deviation(r)) })
		return y, nil
	}, err
}

func (l *listener) Majority() (int, error) {
	class, err := l.Engine.Majority()
	if err != nil {
		return class, err
	}
	r, err := l.declared(dpoptim.Majority)
	if err != nil {
		return class, err
	}
	pure, _ := r.Noise.(accountant.Pure)
	l.hear(dpoptim.Majority, func(rows []int32) float64 { return logMost(class, l.count(rows), pure.Epsilon) })
	return class, nil
}

// A heardSolver solves the table that it is given, and those that the adversary supposes, with
// the same tilt and the same order of places.
type heardSolver struct {
	dpoptim.Solver
	supposed func(t *convex.Table, tilt []float64, stopped func() error) error
}

func (h heardSolver) Solve(t *convex.Table, tilt []float64, stopped func() error) ([]float64, error) {
	if err := h.supposed(t, tilt, stopped); err != nil {
		return nil, err
	}
	return h.Solver.Solve(t, tilt, stopped)
}

func (l *listener) Fit(solver dpoptim.Solver) error {
	r, err := l.declared(dpoptim.Fits)
	if err != nil {
		return err
	}
	if l.Solver != nil {
		solver = l.Solver(solver)
	}
	// By the canary's row, -1 for none: tables, and where they lead a solver that needs no tilt.
	tables, fits := map[int32]*convex.Table{}, map[int32][]float64{}
	suppose := func(t *convex.Table, tilt []float64, stopped func() error) (err error) {
		for _, canary := range append([]int32{-1}, l.Scene.Canary[:]...) {
			rows := RowsOf(l.Scene.Beside)
			if canary >= 0 {
				rows = append(rows, canary)
			}
			table, values, _ := l.Scene.Table(rows)
			if tables[canary], err = convex.NewTable(t.Model, table, values, t.Norm, 1); err != nil {
				return err
			}
			tables[canary].Most, tables[canary].Order = t.Most, t.Order
			if tilt != nil {
				continue
			}
			if fits[canary], err = solver.Solve(tables[canary], nil, stopped); err != nil {
				return err
			}
		}
		return nil
	}
	if err := l.Engine.Fit(heardSolver{solver, suppose}); err != nil {
		return err
	}
	y, err := l.values(l.Params())
	if err != nil {
		return err
	}
	l.hear(dpoptim.Fits, func(rows []int32) float64 {
		canary := int32(-1)
		if len(rows) > l.Scene.Beside {
			canary = rows[l.Scene.Beside]
		}
		switch noise := r.Noise.(type) {
		case accountant.Pure:
			return logDirection(y, fits[canary], r.Bound/noise.Epsilon)
		case accountant.ObjectivePerturbation:
			return l.logMinimum(tables[canary], y, rows, noise, r.Bound)
		}
		return logNormal(y, fits[canary], deviation(r))
	})
	return nil
}

// logMinimum is the log density of a minimum, but for the noise on it: that of the tilt which
// makes y the minimum, with the determinant of how the tilt follows from it.
func (l *listener) logMinimum(t *convex.Table, y []float64, rows []int32, noise accountant.ObjectivePerturbation, bound float64) float64 {
	regularizer := l.Plan.Facts.Linear.Smoothness(l.Plan.Facts.FeatureNorm) / noise.Curvature
	tilt := make([]float64, len(y))
	t.Gradient(y, tilt)
	for i := range tilt {
		tilt[i] = -tilt[i] - regularizer*y[i]
	}
	// Of two parameters; a record's curvature is c·(x, 1)(x, 1)ᵀ.
	a, b, c := regularizer, 0.0, regularizer
	for _, row := range rows {
		x, k := l.Scene.Features[row], l.curvature(row, y)
		a, b, c = a+k*x*x, b+k*x, c+k
	}
	return logNormal(tilt, make([]float64, len(y)), noise.NoiseMultiplier*bound) + math.Log(a*c-b*b)
}

// Report hears one record's, of the place that the slot has.
func (l *listener) Report(point []float64) ([]float64, error) {
	r, err := l.declared(dpoptim.Reports)
	if err != nil {
		return nil, err
	}
	y, err := l.Engine.Report(point)
	if err != nil {
		return nil, err
	}
	pure, _ := r.Noise.(accountant.Pure)
	place := l.Slot() % l.Plan.PublicN
	l.hear(dpoptim.Reports, func(rows []int32) float64 {
		gradient := make([]float64, len(point))
		if place < len(rows) {
			gradient = l.sum(rows[place:place+1], point, r.Bound)
		}
		if r.Radius > 0 {
			return logHalf(y, gradient, 2*pure.Epsilon, r.Bound)
		}
		return logDirection(y, gradient, r.Bound/pure.Epsilon)
	})
	return y, nil
}

func (l *listener) Choose(step float64) (coordinate, sign int, err error) {
	r, err := l.declared(dpoptim.Choices)
	if err != nil {
		return 0, 0, err
	}
	at, err := l.values(l.Params())
	if err != nil {
		return 0, 0, err
	}
	coordinate, sign, err = l.Engine.Choose(step)
	if err != nil {
		return coordinate, sign, err
	}
	ranged, _ := r.Noise.(accountant.BoundedRange)
	told := 2 * coordinate
	if sign < 0 {
		told++
	}
	l.hear(dpoptim.Choices, func(rows []int32) float64 {
		return logChoice(told, l.moves(rows, at, step, r.Bound*step), ranged.Epsilon/(2*r.Bound*step))
	})
	return coordinate, sign, nil
}
