package host

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/device"
)

func (q *queue[T]) AboveThreshold(src device.Sum, s device.Search) {
	n, x := q.net, q.sum(src)
	if q.err != nil || !q.check(q.step.Search(s, src, len(x.scalars), &n.searches)) {
		return
	}
	q.decide(x, s.Decide, func(first int) {
		n.searches.Found = func() (bool, error) { return first >= 0, nil }
	})
}

func (q *queue[T]) ArgMin(src device.Sum, m device.Minimum) {
	x := q.sum(src)
	if q.err != nil || !q.check(q.step.Minimum(m, src, len(x.scalars), &q.net.searches)) {
		return
	}
	q.decide(x, m.Decide, func(int) {})
}

// decide adds an index to the outputs, which it tells found, and clears the sum that it was found by.
func (q *queue[T]) decide(x *sum[T], by func(*device.Inputs, []float64) (int, error), found func(int)) {
	n := q.net
	q.step.Checks = append(q.step.Checks, x.tally.Search)
	q.add(func(in *device.Inputs, out *device.Outputs) {
		i, err := by(in, x.scalars)
		if err != nil {
			n.err = err
			return
		}
		clear(x.scalars)
		x.tally.Released()
		found(i)
		out.Found = append(out.Found, i)
	})
}

// pair is two vectors of one width.
func (q *queue[T]) pair(v, w device.Vector) (x, y []T) {
	x, err := q.net.vector(v)
	q.check(err)
	return x, q.vec(w, len(x))
}

func (q *queue[T]) Axpy(y device.Vector, a device.Slot, x device.Vector) {
	if a >= device.Slots {
		q.check(fmt.Errorf("there is no scalar %d", a))
	}
	to, from := q.pair(y, x)
	if q.err != nil {
		return
	}
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		a := T(in.Scalars[a])
		q.net.backend.Blocks(len(to), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				to[i] += a * from[i]
			}
		})
		q.net.wrote(y)
	})
}

func (q *queue[T]) Dot(x, y device.Vector) {
	a, b := q.pair(x, y)
	if q.err != nil {
		return
	}
	q.add(func(_ *device.Inputs, out *device.Outputs) { out.Dots = append(out.Dots, dot(a, b)) })
}

// dot adds halves, so that rounding grows with the logarithm of the width.
func dot[T Float](x, y []T) float64 {
	if half := len(x) / 2; half >= 64 {
		return dot(x[:half], y[:half]) + dot(x[half:], y[half:])
	}
	// Four sums at a time, since one waits for each of its additions.
	var s [4]float64
	y = y[:len(x)]
	for ; len(x) >= 4; x, y = x[4:], y[4:] {
		s[0] += float64(x[0]) * float64(y[0])
		s[1] += float64(x[1]) * float64(y[1])
		s[2] += float64(x[2]) * float64(y[2])
		s[3] += float64(x[3]) * float64(y[3])
	}
	for i, a := range x {
		s[i] += float64(a) * float64(y[i])
	}
	return s[0] + s[1] + (s[2] + s[3])
}
