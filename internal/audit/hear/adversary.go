// Package hear is an adversary who hears every answer that a method gets from its engine, and says
// how much more likely the answers are in one of two worlds than in the other. It knows the
// program, all records but one, and the noise that is drawn; never what a mechanism was given.
package hear

import (
	"math"
	"slices"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
)

// Scene is a data set as small as the questions of a method allow: records of one number and of
// a class, −1 or 1, for logistic regression, or of a number for a regression.
type Scene struct {
	Features, Targets []float64
	Beside            int      // the first are in both worlds
	Canary            [2]int32 // and one of the others in each, or −1
	Params            []float32
	Regression        bool // of Huber's loss, with targets that are numbers
}

// Table is that of some records, with their labels.
func (s *Scene) Table(rows []int32) (device.Rows, device.Floats, []uint8) {
	table := device.Rows{Width: 1, Count: len(rows)}
	var features device.Floats
	var labels []uint8
	for _, row := range rows {
		features = append(features, float32(s.Features[row]))
		table.Targets = append(table.Targets, float32(s.Targets[row]))
		if !s.Regression {
			labels = append(labels, uint8(s.Targets[row]+1)/2)
		}
	}
	return table, features, labels
}

// RowsOf are the first n.
func RowsOf(n int) (rows []int32) {
	for i := range int32(n) {
		rows = append(rows, i)
	}
	return rows
}

// An Adversary knows the program, all records but the canary, which of these were asked, and
// every answer. It works out by itself what the answers would be without noise.
type Adversary struct {
	Scene *Scene
	Plan  *plan.Plan
	Rows  []int32 // of the latest batch, without the canary
	// What tests spoil: the releases that are made, and the solver of a fit; nil: nothing.
	Distort func(dpoptim.Question, dpoptim.Release) dpoptim.Release
	Solver  func(dpoptim.Solver) dpoptim.Solver

	engine dpoptim.Engine
	// batch is the log-likelihood of the answers about a batch that holds a world's canary, over
	// that of the answers about one that does not; total that of the worlds, of earlier batches.
	batch [2]float64
	total float64
}

// Begin forgets what was heard of an earlier run.
func (a *Adversary) Begin() {
	a.batch, a.total, a.Rows = [2]float64{}, 0, RowsOf(a.Scene.Beside)
}

// ask is a question as it is declared.
func (a *Adversary) ask(q dpoptim.Question) dpoptim.Ask {
	all := a.Plan.Declaration.Asks
	return all[slices.IndexFunc(all, func(a dpoptim.Ask) bool { return a.Question == q })]
}

// Value is the log-likelihood ratio of all that was heard.
func (a *Adversary) Value() float64 {
	a.close()
	return a.total
}

func (a *Adversary) close() {
	a.total += Sampled(a.Plan.SamplingRate, a.batch[1]) - Sampled(a.Plan.SamplingRate, a.batch[0])
	a.batch = [2]float64{}
}

// hear takes in an answer, by its log-likelihood if the batch is of some rows.
func (a *Adversary) hear(q dpoptim.Question, log func(rows []int32) float64) {
	if a.ask(q).Batch == dpoptim.Own {
		a.close()
	}
	rows := a.Rows[:len(a.Rows):len(a.Rows)]
	without := log(rows)
	for w, canary := range a.Scene.Canary {
		if canary >= 0 {
			a.batch[w] += log(append(rows, canary)) - without
		}
	}
}

func (a *Adversary) values(v dpoptim.Vector) ([]float64, error) {
	read := make([]float32, len(a.Scene.Params))
	if err := a.engine.Read(v, read); err != nil {
		return nil, err
	}
	all := make([]float64, len(read))
	for i, x := range read {
		all[i] = float64(x)
	}
	return all, nil
}

// logit is a record's; parameters are a weight and a bias.
func (a *Adversary) logit(row int32, at []float64) float64 {
	return a.Scene.Features[row]*at[0] + at[1]
}

// loss is log(1 + e^(−target·logit)) or, of a regression, Huber's of the logit less the target.
func (a *Adversary) loss(row int32, at []float64) float64 {
	if a.Scene.Regression {
		r := math.Abs(a.logit(row, at) - a.Scene.Targets[row])
		return min(r, 1) * (r - min(r, 1)/2)
	}
	m := a.Scene.Targets[row] * a.logit(row, at)
	return max(-m, 0) + math.Log1p(math.Exp(-math.Abs(m)))
}

// slope is how the loss changes with the logit, curvature how the slope does.
func (a *Adversary) slope(row int32, at []float64) float64 {
	if a.Scene.Regression {
		return max(-1, min(a.logit(row, at)-a.Scene.Targets[row], 1))
	}
	return -a.Scene.Targets[row] / (1 + math.Exp(a.Scene.Targets[row]*a.logit(row, at)))
}

func (a *Adversary) curvature(row int32, at []float64) float64 {
	s := math.Abs(a.slope(row, at))
	switch {
	case !a.Scene.Regression:
		return s * (1 - s)
	case s < 1:
		return 1
	}
	return 0
}

// sum is that of the clipped gradients of rows.
func (a *Adversary) sum(rows []int32, at []float64, bound float64) []float64 {
	sum := make([]float64, 2)
	for _, row := range rows {
		slope := a.slope(row, at)
		g := []float64{slope * a.Scene.Features[row], slope}
		factor := min(1, bound/max(length(g), math.SmallestNonzeroFloat64))
		sum[0] += factor * g[0]
		sum[1] += factor * g[1]
	}
	return sum
}

// moves are sums of by how much losses fall where one parameter moves up or down, each record's
// clipped to the bound.
func (a *Adversary) moves(rows []int32, at []float64, step, bound float64) []float64 {
	points := [][]float64{at}
	for i := range at {
		for _, by := range []float64{step, -step} {
			p := slices.Clone(at)
			p[i] += by
			points = append(points, p)
		}
	}
	return a.decreases(rows, points, bound, false)
}

// points are the parameters, and the candidates along a direction in units of the sum.
func (a *Adversary) points(along dpoptim.Vector, etas []float64) ([][]float64, error) {
	at, err := a.values(a.engine.Params())
	if err != nil {
		return nil, err
	}
	direction, err := a.values(along)
	if err != nil {
		return nil, err
	}
	all := [][]float64{at}
	for _, eta := range etas {
		p := make([]float64, len(at))
		for i := range p {
			p[i] = at[i] - eta/a.Plan.ExpectedBatch*direction[i]
		}
		all = append(all, p)
	}
	return all, nil
}

// losses are sums at points, each record's clipped to [0, bound].
func (a *Adversary) losses(rows []int32, points [][]float64, bound float64) []float64 {
	sums := make([]float64, len(points))
	for _, row := range rows {
		for i, p := range points {
			sums[i] += min(a.loss(row, p), bound)
		}
	}
	return sums
}

// decreases from the first point to the others are of clipped losses that share a baseline, or
// are themselves clipped to [−bound, bound].
func (a *Adversary) decreases(rows []int32, points [][]float64, bound float64, shared bool) []float64 {
	if shared {
		sums := a.losses(rows, points, bound)
		base := sums[0]
		for i := range sums {
			sums[i] = base - sums[i]
		}
		return sums[1:]
	}
	sums := make([]float64, len(points)-1)
	for _, row := range rows {
		for i, p := range points[1:] {
			sums[i] += max(-bound, min(a.loss(row, points[0])-a.loss(row, p), bound))
		}
	}
	return sums
}

// curve is the sum of the decreases, each record's vector of them scaled to the bound.
func (a *Adversary) curve(rows []int32, points [][]float64, bound float64) []float64 {
	sums := make([]float64, len(points)-1)
	for _, row := range rows {
		d := a.decreases([]int32{row}, points, math.Inf(1), false)
		factor := min(1, bound/max(length(d), math.SmallestNonzeroFloat64))
		for i, x := range d {
			sums[i] += factor * x
		}
	}
	return sums
}

func (a *Adversary) count(rows []int32) (counts [2]int) {
	for _, row := range rows {
		if a.Scene.Targets[row] > 0 {
			counts[1]++
		} else {
			counts[0]++
		}
	}
	return counts
}
