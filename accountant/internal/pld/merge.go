package pld

import (
	"fmt"
	"math"
	"slices"
)

// A box is kinds of one shape that are merged: their parameters are the axes.
type box struct {
	shape string
	kinds []kind
	axes  [][]float64 // of each kind
}

// parameters are a law's shape and what may differ within it. A law of larger
// parameters dominates one of smaller ones: the smaller Gaussian, Laplace or
// randomised response is the larger one after post-processing, and sampling
// at a smaller rate mixes the same batch without the record into both sides.
func parameters(l law) (shape string, axes []float64) {
	switch l := l.(type) {
	case gaussian:
		if l.q == 1 {
			return "gaussian 1", []float64{l.mu}
		}
		return fmt.Sprint("gaussian ", l.twoSided), []float64{l.mu, l.q}
	case group:
		return fmt.Sprint("group ", l.records, l.twoSided), []float64{l.mu, l.q}
	case laplace:
		return "laplace", []float64{float64(l)}
	case pure:
		return "pure", []float64{float64(l)}
	case *ranged:
		return fmt.Sprint("ranged ", l.count), []float64{l.epsilon}
	case subset:
		shape, axes = parameters(l.of)
		shape = "subset " + shape
	case batch:
		shape, axes = "batch", []float64{l.q}
		for _, x := range l.laws {
			s, a := parameters(x)
			shape, axes = shape+","+s, append(axes, a...)
		}
	}
	return shape, axes
}

// with is the law of l's shape that has other parameters.
func with(l law, axes []float64) law {
	switch l := l.(type) {
	case gaussian:
		if l.mu = axes[0]; l.q < 1 {
			l.q = axes[1]
		}
		return l
	case group:
		l.mu, l.q = axes[0], axes[1]
		return l
	case laplace:
		return laplace(axes[0])
	case pure:
		return pure(axes[0])
	case *ranged:
		return newRanged(axes[0], l.count)
	case subset:
		return subset{with(l.of, axes).(amplified)}
	case batch:
		b := batch{q: axes[0]}
		axes = axes[1:]
		for _, x := range l.laws {
			_, a := parameters(x)
			b.laws = append(b.laws, with(x, axes[:len(a)]))
			axes = axes[len(a):]
		}
		return b
	}
	return l
}

// merge brings the kinds to at most a number of them: similar ones become one
// whose high end has the largest and whose low end the smallest of each of
// their parameters.
func merge(kinds []kind, most int) ([]kind, error) {
	if len(kinds) <= most {
		return kinds, nil
	}
	var boxes []box
	at := map[string]int{}
	for _, k := range kinds {
		shape, axes := parameters(k.high)
		i, ok := at[shape]
		if !ok {
			i = len(boxes)
			at[shape] = i
			boxes = append(boxes, box{shape: shape})
		}
		boxes[i].kinds = append(boxes[i].kinds, k)
		boxes[i].axes = append(boxes[i].axes, axes)
	}
	if len(boxes) > most {
		return nil, fmt.Errorf("pld: %d combinations of releases on a batch; at most %d are supported", len(boxes), most)
	}
	for len(boxes) < most {
		widest, cost := 0, -1.0
		for i := range boxes {
			if _, _, c := boxes[i].widest(); c > cost {
				widest, cost = i, c
			}
		}
		if cost <= 0 {
			break
		}
		left, right := boxes[widest].split()
		boxes[widest] = left
		boxes = append(boxes, right)
	}
	merged := make([]kind, len(boxes))
	for i, b := range boxes {
		high, low := slices.Clone(b.axes[0]), slices.Clone(b.axes[0])
		for j, a := range b.axes {
			merged[i].count += b.kinds[j].count
			for x := range a {
				high[x], low[x] = max(high[x], a[x]), min(low[x], a[x])
			}
		}
		merged[i].high, merged[i].low = with(b.kinds[0].high, high), with(b.kinds[0].low, low)
	}
	return merged, nil
}

// widest is the axis along which a box is longest, by ratio, the middle of it,
// and what its length costs.
func (b *box) widest() (axis int, middle, cost float64) {
	count := 0
	for _, k := range b.kinds {
		count += k.count
	}
	longest := 0.0
	for x := range b.axes[0] {
		low, high := math.Inf(1), 0.0
		for _, a := range b.axes {
			low, high = min(low, a[x]), max(high, a[x])
		}
		if r := math.Log(high / low); r > longest {
			axis, middle, longest = x, math.Sqrt(low*high), r
		}
	}
	return axis, middle, longest * float64(count)
}

func (b *box) split() (left, right box) {
	axis, middle, _ := b.widest()
	left.shape, right.shape = b.shape, b.shape
	for i, a := range b.axes {
		to := &right
		if a[axis] <= middle {
			to = &left
		}
		to.kinds, to.axes = append(to.kinds, b.kinds[i]), append(to.axes, a)
	}
	return left, right
}
