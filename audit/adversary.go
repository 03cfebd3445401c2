package audit

import (
	"math"
	"slices"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
)

// scene is a data set as small as the questions of a method allow: records of one number and of
// a class, −1 or 1, for logistic regression, or of a number for a regression.
type scene struct {
	features, targets []float64
	beside            int      // the first are in both worlds
	canary            [2]int32 // and one of the others in each, or −1
	params            []float32
	regression        bool // of Huber's loss, with targets that are numbers
}

// table is that of some records, with their labels.
func (s *scene) table(rows []int32) (device.Rows, device.Floats, []uint8) {
	table := device.Rows{Width: 1, Count: len(rows)}
	var features device.Floats
	var labels []uint8
	for _, row := range rows {
		features = append(features, float32(s.features[row]))
		table.Targets = append(table.Targets, float32(s.targets[row]))
		if !s.regression {
			labels = append(labels, uint8(s.targets[row]+1)/2)
		}
	}
	return table, features, labels
}

// rowsOf are the first n.
func rowsOf(n int) (rows []int32) {
	for i := range int32(n) {
		rows = append(rows, i)
	}
	return rows
}

// An adversary knows the program, all records but the canary, which of these were asked, and
// every answer. It works out by itself what the answers would be without noise.
type adversary struct {
	*hearing
	engine dpoptim.Engine
	rows   []int32 // of the latest batch, without the canary
	// batch is the log-likelihood of the answers about a batch that holds a world's canary, over
	// that of the answers about one that does not; total that of the worlds, of earlier batches.
	batch [2]float64
	total float64
}

func (a *adversary) begin() {
	a.batch, a.total, a.rows = [2]float64{}, 0, rowsOf(a.scene.beside)
}

// value is the log-likelihood ratio of all that was heard.
func (a *adversary) value() float64 {
	a.close()
	return a.total
}

func (a *adversary) close() {
	a.total += sampled(a.plan.SamplingRate, a.batch[1]) - sampled(a.plan.SamplingRate, a.batch[0])
	a.batch = [2]float64{}
}

// hear takes in an answer, by its log-likelihood if the batch is of some rows.
func (a *adversary) hear(q dpoptim.Question, log func(rows []int32) float64) {
	if a.ask(q).Batch == dpoptim.Own {
		a.close()
	}
	rows := a.rows[:len(a.rows):len(a.rows)]
	without := log(rows)
	for w, canary := range a.scene.canary {
		if canary >= 0 {
			a.batch[w] += log(append(rows, canary)) - without
		}
	}
}

func (a *adversary) values(v dpoptim.Vector) ([]float64, error) {
	read := make([]float32, len(a.scene.params))
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
func (a *adversary) logit(row int32, at []float64) float64 {
	return a.scene.features[row]*at[0] + at[1]
}

// loss is log(1 + e^(−target·logit)) or, of a regression, Huber's of the logit less the target.
func (a *adversary) loss(row int32, at []float64) float64 {
	if a.scene.regression {
		r := math.Abs(a.logit(row, at) - a.scene.targets[row])
		return min(r, 1) * (r - min(r, 1)/2)
	}
	m := a.scene.targets[row] * a.logit(row, at)
	return max(-m, 0) + math.Log1p(math.Exp(-math.Abs(m)))
}

// slope is how the loss changes with the logit, curvature how the slope does.
func (a *adversary) slope(row int32, at []float64) float64 {
	if a.scene.regression {
		return max(-1, min(a.logit(row, at)-a.scene.targets[row], 1))
	}
	return -a.scene.targets[row] / (1 + math.Exp(a.scene.targets[row]*a.logit(row, at)))
}

func (a *adversary) curvature(row int32, at []float64) float64 {
	s := math.Abs(a.slope(row, at))
	switch {
	case !a.scene.regression:
		return s * (1 - s)
	case s < 1:
		return 1
	}
	return 0
}

// sum is that of the clipped gradients of rows.
func (a *adversary) sum(rows []int32, at []float64, bound float64) []float64 {
	sum := make([]float64, 2)
	for _, row := range rows {
		slope := a.slope(row, at)
		g := []float64{slope * a.scene.features[row], slope}
		factor := min(1, bound/max(length(g), math.SmallestNonzeroFloat64))
		sum[0] += factor * g[0]
		sum[1] += factor * g[1]
	}
	return sum
}

// moves are sums of by how much losses fall where one parameter moves up or down, each record's
// clipped to the bound.
func (a *adversary) moves(rows []int32, at []float64, step, bound float64) []float64 {
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
func (a *adversary) points(along dpoptim.Vector, etas []float64) ([][]float64, error) {
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
			p[i] = at[i] - eta/a.plan.ExpectedBatch*direction[i]
		}
		all = append(all, p)
	}
	return all, nil
}

// losses are sums at points, each record's clipped to [0, bound].
func (a *adversary) losses(rows []int32, points [][]float64, bound float64) []float64 {
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
func (a *adversary) decreases(rows []int32, points [][]float64, bound float64, shared bool) []float64 {
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
func (a *adversary) curve(rows []int32, points [][]float64, bound float64) []float64 {
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

func (a *adversary) count(rows []int32) (counts [2]int) {
	for _, row := range rows {
		if a.scene.targets[row] > 0 {
			counts[1]++
		} else {
			counts[0]++
		}
	}
	return counts
}
