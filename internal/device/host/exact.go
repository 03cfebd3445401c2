package host

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/admit"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/plan"
)

// A Grid is the lattice γ·ℤ on which an exact net sums at clip norm C. γ is
// the largest power of two that is at most C·2⁻²⁰, so that C/γ lies in
// [2²⁰, 2²¹).
type Grid struct {
	Step  float64 // γ
	clip  float64 // C
	most2 uint64  // ⌊(C/γ)²⌋
}

// gridBits is how many more binary digits than C has the grid.
const gridBits = 20

// inside is what a clipped gradient aims at, as a part of C. The norm is
// computed with a relative error below 2⁻²³ up to 2³⁰ parameters, and
// truncation makes it smaller, so that rounding zeroes no example.
const inside = 1 - 0x1p-20

// NewGrid makes the grid of a clip norm, a finite number above 0.
func NewGrid(clip float32) Grid {
	fraction, exponent := math.Frexp(float64(clip))
	m := uint64(fraction * 0x1p24) // a float32 has 24 digits: C/γ = m/8, exactly
	return Grid{
		Step: math.Ldexp(1, exponent-1-gridBits), clip: float64(clip),
		most2: m * m >> 6,
	}
}

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
	if norm := math.Sqrt(norm2); norm > g.clip*inside {
		scale *= g.clip * inside / norm
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
	for len(gradient) > 0 && sum <= g.most2 { // at most 2⁴² before the part, 2⁶² in it
		part := gradient[:min(len(gradient), 1<<18)]
		gradient = gradient[len(part):]
		for _, x := range part {
			k := truncate(x, scale)
			sum += uint64(k * k)
		}
	}
	return sum <= g.most2
}

// Accumulate adds a gradient's integers to dst.
func Accumulate[T Float](dst []int64, gradient []T, scale float64) {
	for i, x := range gradient {
		dst[i] += truncate(x, scale)
	}
}

// truncated is x, in [−C, C], truncated to a multiple of γ; x itself without a
// grid. Sums of fewer than 2³² of them have no rounding error, in any order.
func (g *Grid) truncated(x float64) float64 {
	if g == nil {
		return x
	}
	return math.Trunc(x/g.Step) * g.Step
}

// checkExact says whether a schedule can run on a grid.
func checkExact(s *plan.Schedule) error {
	if s.Clipping != plan.Flat {
		return fmt.Errorf("exact sums of %s need flat clipping, not %s: their bound is one norm over all parameters", s.Program.Name, s.Clipping)
	}
	for i := range s.Program.Ops {
		op := &s.Program.Ops[i]
		stored, combined := 0, 0
		for _, st := range s.Steps {
			switch {
			case st == plan.Step{Kind: plan.GradStore, Op: i}:
				stored++
			case st == plan.Step{Kind: plan.Combine, Op: i}:
				combined++
			}
		}
		if op.Weight != plan.None && stored*combined != 1 {
			return fmt.Errorf("exact sums truncate every coordinate of every example's gradient, which the schedule never forms for %s: use strategy materialise or microbatch", op.Name)
		}
	}
	if n := s.Program.NumParams(); n > exact.MaxDraws {
		return fmt.Errorf("exact sums of %s: %d parameters, exact noise has %d draws", s.Program.Name, n, uint64(exact.MaxDraws))
	}
	return nil
}

// An integerSum is a Sum of an exact net, in grid steps.
type integerSum struct {
	values []int64
	rows   int     // added since the last release
	clip   float32 // with which they were
}

// mostRows keeps a sum below 2⁵² in magnitude, and below 2⁵³ with noise:
// a coordinate of a row is below 2²¹, noise of at most exact.MaxStd steps below
// 2⁴⁴. No batch is so large, for a table's rows are numbered by an int32.
const mostRows = math.MaxInt32

// admit checks what a run would add.
func (s *integerSum) admit(in *device.Inputs) error {
	if err := s.sameClip(in); err != nil {
		return err
	}
	if len(in.Rows) > mostRows-s.rows {
		return fmt.Errorf("an exact sum takes at most %d rows before it is released", mostRows)
	}
	return nil
}

// sameClip refuses a clip norm that is not the one of the rows in the sum: it
// would be another grid.
func (s *integerSum) sameClip(in *device.Inputs) error {
	if clip := in.Scalars[device.Clip]; s.rows > 0 && clip != s.clip {
		return fmt.Errorf("clip norm %v for an exact sum begun at %v: it can only change after the release", clip, s.clip)
	}
	return nil
}

func (s *integerSum) took(in *device.Inputs) {
	s.rows, s.clip = s.rows+len(in.Rows), in.Scalars[device.Clip]
}

// released checks a release: its grid is that of the rows, and in its steps the
// noise is such as can be drawn.
func (s *integerSum) released(in *device.Inputs) error {
	clip, std := in.Scalars[device.Clip], float64(in.Scalars[device.NoiseStd])
	if !admit.Positive(clip) {
		return fmt.Errorf("clip norm %v: must be a finite number above 0, for it says what an exact sum counts", clip)
	}
	if steps := std / NewGrid(clip).Step; std != 0 && !(steps >= exact.MinStd && steps <= exact.MaxStd) {
		return fmt.Errorf("exact noise of deviation %v at clip norm %v: must be %g to %g grid steps, is %g", std, clip, exact.MinStd, exact.MaxStd, steps)
	}
	return s.sameClip(in)
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
	q.step.Checks = append(q.step.Checks, s.admit)
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		n.backend.GridSum(s.values, n.vectors[0], t, in.Rows, NewGrid(in.Scalars[device.Clip]))
		s.took(in)
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
	q.step.Checks = append(q.step.Checks, s.admit)
	sums := make([]float64, ask.K)
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		clear(sums)
		grid := NewGrid(in.Scalars[device.Clip])
		n.backend.Losses(sums, Query[T]{ask.Form, at, dir, in.Candidates[:ask.K], in.Scalars[device.Clip], &grid}, t, in.Rows)
		for i, x := range sums {
			s.values[i] += int64(x / grid.Step)
		}
		s.took(in)
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
	q.step.Checks = append(q.step.Checks, s.released)
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
		s.rows = 0
	})
}
