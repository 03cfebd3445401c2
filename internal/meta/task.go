package meta

import (
	"math"
	"math/rand/v2"
)

// A Task is a public learning problem. Its methods may be called by several goroutines.
type Task interface {
	Params() int
	Records() int
	// Start writes the parameters that training begins at.
	Start(r *rand.Rand, params []float64)
	// ClippedSum writes the sum over some records of their gradients, each clipped to
	// norm clip.
	ClippedSum(params []float64, rows []int, clip float64, sum []float64)
	// Loss is the mean loss that training is for, with the penalty; where grad is not
	// nil it gets the gradient.
	Loss(params, grad []float64) float64
	// L2 is the weight λ of a penalty λ/2·‖θ‖² outside the clipping.
	L2() float64
}

// A Family draws tasks: the same ones from the same numbers.
type Family interface {
	Draw(r *rand.Rand) Task
}

// Quadratics are the problems of appendix C.1: the sum of ‖W_i·θ − y_i‖² over random
// 2×2 matrices and targets, standard normal, and 0.001·‖θ‖², here divided by the number
// of records. That text draws W and y alone: all start at the same public point (the
// ones, our choice), so that a protector may learn where solutions lie from there.
type Quadratics struct {
	Records int  // 60 in the paper
	Random  bool // starts are standard normal instead
}

func (f Quadratics) Draw(r *rand.Rand) Task {
	q := &quadratic{random: f.Random, records: make([]record2, f.Records)}
	for i := range q.records {
		for k := range 2 {
			q.records[i].w[k] = [2]float64{r.NormFloat64(), r.NormFloat64()}
			q.records[i].y[k] = r.NormFloat64()
		}
	}
	return q
}

type quadratic struct {
	records []record2
	random  bool
}

type record2 struct {
	w [2][2]float64
	y [2]float64
}

func (q *quadratic) Params() int  { return 2 }
func (q *quadratic) Records() int { return len(q.records) }
func (q *quadratic) L2() float64  { return 2 * 0.001 / float64(len(q.records)) }

func (q *quadratic) Start(r *rand.Rand, params []float64) {
	for i := range params {
		params[i] = 1
		if q.random {
			params[i] = r.NormFloat64()
		}
	}
}

func (c *record2) at(p []float64) (loss float64, g [2]float64) {
	for k := range 2 {
		e := c.w[k][0]*p[0] + c.w[k][1]*p[1] - c.y[k]
		loss += e * e
		g[0] += 2 * e * c.w[k][0]
		g[1] += 2 * e * c.w[k][1]
	}
	return loss, g
}

func (q *quadratic) ClippedSum(params []float64, rows []int, clip float64, sum []float64) {
	clear(sum)
	for _, i := range rows {
		_, g := q.records[i].at(params)
		f := clipped(clip, g[0]*g[0]+g[1]*g[1])
		sum[0] += f * g[0]
		sum[1] += f * g[1]
	}
}

func (q *quadratic) Loss(params, grad []float64) float64 {
	total, n := 0.0, float64(len(q.records))
	clear(grad)
	for i := range q.records {
		loss, g := q.records[i].at(params)
		total += loss / n
		if grad != nil {
			grad[0] += g[0] / n
			grad[1] += g[1] / n
		}
	}
	return total + penalty(q.L2(), params, grad)
}

// penalty is λ/2·‖θ‖², whose gradient it adds.
func penalty(l2 float64, params, grad []float64) float64 {
	if grad != nil {
		axpy(l2, params, grad)
	}
	return l2 / 2 * dot(params, params)
}

// clipped is the factor that clips a gradient of a squared norm.
func clipped(clip, norm2 float64) float64 {
	if norm2 <= clip*clip {
		return 1
	}
	return clip / math.Sqrt(norm2)
}
