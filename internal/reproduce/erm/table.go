package erm

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/datasets"
)

// A loss is that of one record as a function of its score, with its first derivative.
type loss func(score, target float64) (value, slope float64)

// logistic has targets −1 and +1. Zhang et al. print log(1+exp(1+y⟨w, x⟩)), which falls as errors grow.
func logistic(score, target float64) (float64, float64) {
	m := target * score
	e := math.Exp(-math.Abs(m))
	value, share := math.Log1p(e), e/(1+e)
	if m < 0 {
		value, share = value-m, 1/(1+e)
	}
	return value, -target * share
}

// huber is that of a residual, linear beyond 1 on both sides.
func huber(score, target float64) (float64, float64) {
	r := score - target
	if a := math.Abs(r); a > 1 {
		return a - 0.5, math.Copysign(1, r)
	}
	return r * r / 2, r
}

// A table holds records in float64, without their zeros: most features are one-hot. The last
// feature is the intercept, of value 1.
type table struct {
	width   int // with the intercept
	starts  []int
	columns []int32
	values  []float64
	targets []float64
	loss    loss
}

func (t *table) len() int { return len(t.targets) }

// newTable scales the features of every record to norm Z at most.
func newTable(splits []datasets.Split, norm float64, l loss, scale float64) (*table, error) {
	t := &table{loss: l, starts: []int{0}}
	for _, s := range splits {
		width := s.Shape[0] * s.Shape[1] * s.Shape[2]
		if t.width = width + 1; len(s.Values) != width*s.Len() {
			return nil, fmt.Errorf("a split of %d records has %d features; please report this", s.Len(), len(s.Values))
		}
		for i := range s.Len() {
			t.add(s.Values[i*width:][:width], norm)
			switch {
			case s.Targets != nil:
				t.targets = append(t.targets, scale*float64(s.Targets[i]))
			default:
				t.targets = append(t.targets, 2*float64(s.Labels[i])-1)
			}
		}
	}
	return t, nil
}

func (t *table) add(row []float32, norm float64) {
	square := 0.0
	for _, v := range row {
		square += float64(v) * float64(v)
	}
	scale := min(1, norm/math.Sqrt(square)) // +Inf of a row of zeros
	for j, v := range row {
		if v != 0 {
			t.columns, t.values = append(t.columns, int32(j)), append(t.values, scale*float64(v))
		}
	}
	t.columns, t.values = append(t.columns, int32(len(row))), append(t.values, 1)
	t.starts = append(t.starts, len(t.columns))
}

// A batch of parameter vectors side by side: w[j*runs+r] is coordinate j of run r.
type batch struct {
	runs          int
	w, sum, score []float64
}

func (t *table) batch(runs int) *batch {
	return &batch{runs: runs, w: make([]float64, t.width*runs), sum: make([]float64, t.width*runs), score: make([]float64, runs)}
}

// gradient sets b.sum to the sum of the gradients of the losses of some records at all
// parameter vectors, and adds their losses to value, unless that is nil.
func (t *table) gradient(b *batch, records []int32, value []float64) {
	clear(b.sum)
	n := t.len()
	if records != nil {
		n = len(records)
	}
	for k := range n {
		i := k
		if records != nil {
			i = int(records[k])
		}
		columns, values := t.columns[t.starts[i]:t.starts[i+1]], t.values[t.starts[i]:t.starts[i+1]]
		if b.runs == 1 {
			t.single(b, i, columns, values, value)
			continue
		}
		score := b.score
		clear(score)
		for k, j := range columns {
			w, v := b.w[int(j)*b.runs:][:len(score)], values[k]
			for r := range score {
				score[r] += v * w[r]
			}
		}
		for r, s := range score {
			f, slope := t.loss(s, t.targets[i])
			score[r] = slope
			if value != nil {
				value[r] += f
			}
		}
		for k, j := range columns {
			sum, v := b.sum[int(j)*b.runs:][:len(score)], values[k]
			for r, s := range score {
				sum[r] += v * s
			}
		}
	}
}

// single adds one record's part where there is one run: loops over runs would take several times as long.
func (t *table) single(b *batch, i int, columns []int32, values, value []float64) {
	score := 0.0
	for k, j := range columns {
		score += values[k] * b.w[j]
	}
	f, slope := t.loss(score, t.targets[i])
	for k, j := range columns {
		b.sum[j] += values[k] * slope
	}
	if value != nil {
		value[0] += f
	}
}

// objectives are the mean loss and (μ/2)‖w‖² at every parameter vector.
func (t *table) objectives(b *batch, mu float64) []float64 {
	value := make([]float64, b.runs)
	t.gradient(b, nil, value)
	for r := range value {
		value[r] /= float64(t.len())
	}
	for k, w := range b.w {
		value[k%b.runs] += mu / 2 * w * w
	}
	return value
}
