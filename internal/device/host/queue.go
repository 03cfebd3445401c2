package host

import (
	"math"

	"github.com/privgrad/privgrad/internal/device"
)

// queue makes work of what was checked.
type queue[T Float] struct {
	net  *net[T]
	step *step[T]
	last *pass[T] // what was recorded last, if it was a release
}

func (q *queue[T]) add(w func(*device.Inputs, *device.Outputs)) {
	q.step.work = append(q.step.work, w)
	q.last = nil
}

func (q *queue[T]) ClippedSum(dst device.Sum, from device.Data) {
	n, s, t := q.net, q.net.sums[dst], from.(*Table)
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		if clip := in.Scalars[device.Clip]; s.integers != nil {
			n.backend.GridSum(s.integers, n.vectors[0], t, Batch{in.Rows, in.Words}, device.NewGrid(clip))
		} else {
			n.backend.ClippedSum(s.floats, n.vectors[0], t, Batch{in.Rows, in.Words}, clip)
		}
	})
}

func (q *queue[T]) CountedSum(dst, count device.Sum, from device.Data) {
	n, s, c, t := q.net, q.net.sums[dst].floats, q.net.sums[count].scalars, from.(*Table)
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		c[0] += n.backend.ClippedSum(s, n.vectors[0], t, Batch{in.Rows, in.Words}, in.Scalars[device.Clip])
	})
}

func (q *queue[T]) Losses(dst device.Sum, from device.Data, ask device.LossQuery) {
	n, s, t := q.net, q.net.sums[dst].scalars, from.(*Table)
	at, dir := n.vectors[ask.At], n.vectors[ask.Dir]
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		n.backend.Losses(s, Query[T]{ask.Form, at, ask.At == n.Params(), dir, in.Candidates[:ask.K], in.Scalars[device.Clip], float64(in.Scalars[device.NoiseStep])}, t, in.Rows)
	})
}

func (q *queue[T]) AboveThreshold(src device.Sum, s device.Search) { q.decide(src, s.Decide) }

func (q *queue[T]) ArgMin(src device.Sum, m device.Minimum) { q.decide(src, m.Decide) }

// decide adds an index to the outputs, and clears the sum that it was found by.
func (q *queue[T]) decide(src device.Sum, by func(*device.Inputs, []float64) (int, error)) {
	n, s, x := q.net, q.step, q.net.sums[src].scalars
	s.Index = func() (int, error) { return s.outputs.Found[0], nil }
	q.add(func(in *device.Inputs, out *device.Outputs) {
		i, err := by(in, x)
		if err != nil {
			n.Fail(err)
			return
		}
		clear(x)
		out.Found = append(out.Found, i)
	})
}

func (q *queue[T]) Axpy(y device.Vector, a device.Slot, x device.Vector) {
	n, to, from := q.net, q.net.vectors[y], q.net.vectors[x]
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		a := T(in.Scalars[a])
		n.backend.Blocks(len(to), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				to[i] += a * from[i]
			}
		})
		n.wrote(y)
	})
}

func (q *queue[T]) Dot(x, y device.Vector) {
	a, b := q.net.vectors[x], q.net.vectors[y]
	q.add(func(_ *device.Inputs, out *device.Outputs) { out.Dots = append(out.Dots, dot(a, b)) })
}

func (q *queue[T]) Norm(dst, src device.Sum) {
	to, from := q.net.sums[dst].scalars, q.net.sums[src].floats
	q.add(func(*device.Inputs, *device.Outputs) { to[0] += math.Sqrt(dot(from, from)) })
}

func (q *queue[T]) Project(l device.LSTM, p, g, weights, state device.Vector) {
	n, v := q.net, q.net.vectors
	u := &Projection[T]{LSTM: l, P: v[p], G: v[g], W: v[weights], State: v[state]}
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		u.Scalars = in.Scalars
		n.backend.Project(u)
		n.wrote(p)
	})
}

func (q *queue[T]) Score(at device.Vector, public device.Data) {
	n, x, t := q.net, q.net.vectors[at], public.(*Table)
	q.add(func(_ *device.Inputs, out *device.Outputs) {
		out.Scores = append(out.Scores, n.backend.Score(x, t))
	})
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
