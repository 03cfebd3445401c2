package pur

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/train"
)

// A table is the records of a task, which were declared public, in rows of d values.
type table struct {
	x     []float32
	y     []uint8 // 1 or 0
	norms []float64
	d     int
}

// newTable standardizes the columns by the records' own mean and deviation, as the paper does.
// That reads the records, so in a private run these figures have to be public constants. A
// column that is constant becomes zero.
func newTable(x []float32, y []uint8) *table {
	n := len(y)
	t := &table{x: x, y: y, d: len(x) / n}
	sum, square := make([]float64, t.d), make([]float64, t.d)
	t.rows(func(_ int, row []float32) {
		for k, v := range row {
			sum[k] += float64(v)
		}
	})
	floats.Scale(1/float64(n), sum)
	t.rows(func(_ int, row []float32) {
		for k, v := range row {
			square[k] += (float64(v) - sum[k]) * (float64(v) - sum[k])
		}
	})
	t.rows(func(_ int, row []float32) {
		all := 0.0
		for k, v := range row {
			z := 0.0
			if square[k] > 0 {
				z = (float64(v) - sum[k]) / math.Sqrt(square[k]/float64(n))
			}
			row[k] = float32(z)
			all += float64(row[k]) * float64(row[k])
		}
		t.norms = append(t.norms, math.Sqrt(all))
	})
	return t
}

func (t *table) rows(see func(i int, row []float32)) {
	for i := range t.y {
		see(i, t.x[i*t.d:][:t.d])
	}
}

// source makes the table a data set that train knows. All of its records are for training.
func (t *table) source(name string) train.Source {
	set := &datasets.Set{
		Name: name, Classes: 2, ClassNames: []string{"no", "yes"}, PublicN: len(t.y), PerClass: make([]int, 2),
		Train: datasets.Split{Shape: [3]int{1, 1, t.d}, Unit: true, Values: t.x, Labels: t.y},
	}
	for _, y := range t.y {
		set.PerClass[y]++
	}
	return train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}
}

// A problem is regularized logistic regression on a table whose rows have norm z at most:
// F(θ) = mean of ln(1+exp(−y⟨x, θ⟩)) + λ/2·‖θ‖², without an intercept.
type problem struct {
	*table
	z, lambda float64
}

// smoothness is M, an upper bound on the curvature of F.
func (p problem) smoothness() float64 { return p.lambda + p.z*p.z/4 }

// risk is F at θ, and puts the gradient there into g.
func (p problem) risk(theta, g []float64) float64 {
	loss, n := 0.0, float64(len(p.y))
	clear(g)
	p.rows(func(i int, row []float32) {
		scale, margin := min(1, p.z/p.norms[i]), 0.0
		if p.norms[i] == 0 {
			scale = 0
		}
		for k, v := range row {
			margin += float64(v) * theta[k]
		}
		sign := 2*float64(p.y[i]) - 1
		margin *= sign * scale
		e := math.Exp(-math.Abs(margin))
		loss += max(-margin, 0) + math.Log1p(e)
		pull := e / (1 + e) // 1/(1+exp(margin))
		if margin < 0 {
			pull = 1 / (1 + e)
		}
		pull *= -sign * scale / n
		for k, v := range row {
			g[k] += pull * float64(v)
		}
	})
	floats.AddScaled(g, p.lambda, theta)
	return loss/n + p.lambda/2*floats.Dot(theta, theta)
}

// judge replaces a run's objective, which is without the regularizer, by F at its last
// parameters, and adds the norm of the gradient there.
func (p problem) judge(params []float32, r *reproduce.Record) {
	theta, g := make([]float64, p.d), make([]float64, p.d)
	for k, v := range params {
		theta[k] = float64(v)
	}
	p.put(theta, g, r)
}

func (p problem) put(theta, g []float64, r *reproduce.Record) {
	r.TrainLoss = new(p.risk(theta, g))
	r.GradientNorm = new(floats.Norm(g, 2))
}

// optimum is a job that finds the least F.
func (p problem) optimum(panel, name string) reproduce.Job {
	j := reproduce.Job{What: fmt.Sprintf("optimum of %s, z %v, lambda %v, tolerance %v", name, p.z, p.lambda, tolerance)}
	j.Panel, j.Series, j.Seed = panel, optimum, 1
	j.Make = func(context.Context) (reproduce.Records, error) {
		// Both at once, which is how they are computed.
		g, at, value := make([]float64, p.d), []float64(nil), 0.0
		see := func(theta []float64) {
			if at == nil || !floats.Equal(at, theta) {
				value, at = p.risk(theta, g), append(at[:0], theta...)
			}
		}
		r, err := optimize.Minimize(optimize.Problem{
			Func: func(theta []float64) float64 { see(theta); return value },
			Grad: func(into, theta []float64) { see(theta); copy(into, g) },
		}, make([]float64, p.d), &optimize.Settings{GradientThreshold: tolerance, MajorIterations: 1000, Converger: optimize.NeverTerminate{}}, &optimize.LBFGS{})
		if r == nil {
			return nil, fmt.Errorf("the optimum of %s: %w", panel, err)
		}
		record := reproduce.Record{Seed: 1, Final: true, Step: r.MajorIterations}
		p.put(r.X, g, &record)
		return reproduce.Records{record}, nil
	}
	return j
}

// tolerance is the gradient's norm at what counts as the optimum.
const tolerance = 1e-7

// oracle is a job of the paper's data-dependent schedule (6), σ = ‖∇F‖/√d and η = 1/(2M), for a
// budget ρ that the norm itself costs nothing of. It protects nobody.
func (p problem) oracle(panel, name string, epsilon, budget float64, most, seed int) reproduce.Job {
	j := reproduce.Job{What: fmt.Sprintf("oracle on %s, z %v, lambda %v, rho %v, at most %d steps, seed %d", name, p.z, p.lambda, budget, most, seed)}
	j.Panel, j.Series, j.X, j.Seed = panel, oracle, epsilon, seed
	j.Make = func(ctx context.Context) (reproduce.Records, error) {
		r := rand.New(rand.NewPCG(uint64(seed), math.Float64bits(budget)))
		theta, g := make([]float64, p.d), make([]float64, p.d)
		record := reproduce.Record{Seed: seed, Final: true, Epsilon: &epsilon, Delta: new(1 / float64(len(p.y)))}
		p.put(theta, g, &record)
		for left := budget; record.Step < most && ctx.Err() == nil; record.Step++ {
			sigma := *record.GradientNorm / math.Sqrt(float64(p.d))
			step := p.z / float64(len(p.y)) / sigma
			if left -= 2 * step * step; !(left >= 0) {
				break
			}
			for k := range theta {
				theta[k] -= (g[k] + sigma*r.NormFloat64()) / (2 * p.smoothness())
			}
			p.put(theta, g, &record)
		}
		return reproduce.Records{record}, ctx.Err()
	}
	return j
}
