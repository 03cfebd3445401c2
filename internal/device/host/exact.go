package host

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/admit"
	"github.com/privgrad/privgrad/internal/exact"
)

// Grid is what an exact net sums on.
type Grid = admit.Grid

// NewGrid makes the grid of a clip norm, a finite number above 0.
func NewGrid(clip float32) Grid { return admit.NewGrid(clip) }

// inside is what a clipped gradient aims at, as a part of C. The norm is
// computed with a relative error below 2⁻²³ up to 2³⁰ parameters, and
// truncation makes it smaller, so that rounding zeroes no example.
const inside = 1 - 0x1p-20

// truncate is coordinate x of a gradient as an integer. Its two operations are
// each rounded once on every processor, so that the integers whose norm was
// checked are those that are summed.
func truncate[T Float](x T, scale float64) int64 { return int64(float64(x) * scale) }

// Scale gives what truncate multiplies an example's whole gradient by: the
// clipping factor over γ. It is false for an example that counts as zero
// because its gradient is not finite, or because the integers k, whose Σk² is
// computed exactly, do not have ‖k‖ ≤ C/γ.
func Scale[T Float](g Grid, gradient []T) (float64, bool) {
	norm2 := squares(gradient)
	if math.IsNaN(norm2) || math.IsInf(norm2, 0) {
		return 0, false
	}
	scale := 1 / g.Step
	if norm := math.Sqrt(norm2); norm > g.Clip*inside {
		scale *= g.Clip * inside / norm
	}
	return scale, within(g, gradient, scale)
}

// squares is Σx², by four sums at once, which no addition has to wait for.
func squares[T Float](x []T) float64 {
	var s [4]float64
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
		s[0] += float64(a * a) // converted, so that no compiler fuses it
		s[1] += float64(b * b)
		s[2] += float64(c * c)
		s[3] += float64(d * d)
	}
	for i, a := range x {
		s[i] += float64(float64(a) * float64(a))
	}
	return s[0] + s[1] + (s[2] + s[3])
}

// within says whether Σk² ≤ (C/γ)², for |k| < 2²²: Scale has seen a norm of the
// gradient, no coordinate is longer, and squares that are lost to underflow
// belong to coordinates that truncate to 0.
func within[T Float](g Grid, gradient []T, scale float64) bool {
	sum := uint64(0)
	for len(gradient) > 0 && sum <= g.Most2 { // at most 2⁴² before the part, 2⁶² in it
		part := gradient[:min(len(gradient), 1<<18)]
		gradient = gradient[len(part):]
		for _, x := range part {
			k := truncate(x, scale)
			sum += uint64(k * k)
		}
	}
	return sum <= g.Most2
}

// Accumulate adds a gradient's integers to dst.
func Accumulate[T Float](dst []int64, gradient []T, scale float64) {
	for i, x := range gradient {
		dst[i] += truncate(x, scale)
	}
}

// truncated is x, in [−C, C], truncated to a multiple of γ; x itself without a
// grid. Sums of fewer than 2³² of them have no rounding error, in any order.
func truncated(g *Grid, x float64) float64 {
	if g == nil {
		return x
	}
	return math.Trunc(x/g.Step) * g.Step
}

// An integerSum is a Sum of an exact net, in grid steps.
type integerSum struct {
	admit.Integers
	values []int64
}

func (n *Net[T]) newIntegers(size int) device.Sum {
	n.integers = append(n.integers, &integerSum{values: make([]int64, size)})
	return device.Sum(len(n.integers) - 1)
}

// integers is a sum of an exact net of a given number of values, or of any for 0.
func (q *queue[T]) integers(s device.Sum, size int) *integerSum {
	if s < 0 || int(s) >= len(q.net.integers) {
		q.check(fmt.Errorf("no sum %d on this network", s))
		return nil
	}
	x := q.net.integers[s]
	if size > 0 && len(x.values) != size {
		q.check(fmt.Errorf("sum %d holds %d values, want %d", s, len(x.values), size))
	}
	return x
}

func (q *queue[T]) exactClippedSum(dst device.Sum, from device.Data) {
	n := q.net
	s, t := q.integers(dst, n.params), q.table(from)
	if q.err != nil {
		return
	}
	q.step.Tables = append(q.step.Tables, &t.Rows)
	q.step.Clips = true
	q.step.Checks = append(q.step.Checks, s.Add)
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		n.backend.GridSum(s.values, n.vectors[0], t, in.Rows, NewGrid(in.Scalars[device.Clip]))
		s.Added(in)
	})
}

func (q *queue[T]) exactLosses(dst device.Sum, from device.Data, ask device.LossQuery) {
	n := q.net
	s, t := q.integers(dst, ask.K), q.table(from)
	at, dir := q.vec(ask.At, n.params), q.vec(ask.Dir, n.params)
	if ask.Form == device.LossCurve {
		q.check(fmt.Errorf("exact nets clip no curves of losses: ask for sums or decreases"))
	}
	if q.err != nil {
		return
	}
	q.step.Tables = append(q.step.Tables, &t.Rows)
	q.step.Clips = true
	q.step.Candidates = max(q.step.Candidates, ask.K)
	q.step.Checks = append(q.step.Checks, s.Add)
	sums := make([]float64, ask.K)
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		clear(sums)
		grid := NewGrid(in.Scalars[device.Clip])
		n.backend.Losses(sums, Query[T]{ask.Form, at, ask.At == n.Params(), dir, in.Candidates[:ask.K], in.Scalars[device.Clip], &grid}, t, in.Rows)
		for i, x := range sums {
			s.values[i] += int64(x / grid.Step)
		}
		s.Added(in)
	})
}

func (q *queue[T]) exactRelease(dst device.Vector, src device.Sum, noise device.Noise) {
	n, s := q.net, q.integers(src, 0)
	if q.err != nil {
		return
	}
	d := q.vec(dst, len(s.values))
	if !q.claim(noise) || !q.check(exact.Check(noise.Stream(), noise.Tensor())) {
		return
	}
	q.step.Checks = append(q.step.Checks, s.Release)
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		step, std := NewGrid(in.Scalars[device.Clip]).Step, float64(in.Scalars[device.NoiseStd])
		var g *exact.Sampler
		if std != 0 {
			if g, n.err = exact.New(std/step, noise.Stream(), noise.Tensor()); n.err != nil {
				return
			}
		}
		n.backend.Blocks(len(d), func(lo, hi int) {
			if g != nil {
				g.Add(s.values[lo:hi], in.Draw, lo)
			}
			for i, k := range s.values[lo:hi] {
				d[lo+i] = T(float64(k) * step) // exact but for the rounding to T
			}
		})
		clear(s.values)
		s.Released()
		n.wrote(dst)
	})
}
