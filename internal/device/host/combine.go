package host

import (
	"errors"
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
)

var _ device.Combiner = (*queue[float32])(nil)

var errStep = errors.New("sums of several processes were to be added on a grid whose step is no power of two")

// total puts the sum over all nets in the place of units.
func total(units []int64, of device.Totals) error {
	if err := of.SumInt64(units); err != nil {
		return err
	}
	exact.Clamp(units)
	return nil
}

// floats is total of values that no noise hides.
func floats[T Float](values []T, of device.Totals) error {
	all := make([]float64, len(values))
	for i, x := range values {
		all[i] = float64(x)
	}
	err := of.SumFloat64(all)
	for i, x := range all {
		values[i] = T(x)
	}
	return err
}

func (q *queue[T]) Combine(src device.Sum, on device.Hidden, of device.Totals) {
	n, s := q.net, &q.net.sums[src]
	if s.floats != nil && s.units == nil {
		s.units = make([]int64, len(s.floats))
	}
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		if err := s.combine(on.Grid(in), of); err != nil {
			n.Fail(err)
		}
	})
	q.step.total = append(q.step.total, src)
}

// combine makes a part the total.
func (s *sum[T]) combine(step float64, of device.Totals) error {
	switch {
	case s.integers != nil:
		return of.SumInt64(s.integers)
	case step == 0 && s.floats != nil:
		return floats(s.floats, of)
	case step == 0:
		return floats(s.scalars, of)
	case s.floats != nil:
		if !exact.Units(s.units, s.floats, step) {
			return errStep
		}
		clear(s.floats)
		return total(s.units, of)
	}
	units := make([]int64, len(s.scalars))
	if !exact.Units(units, s.scalars, step) {
		return errStep
	}
	err := total(units, of)
	for i, k := range units {
		s.scalars[i] = float64(k) * step
	}
	return err
}

func (q *queue[T]) CombinedNorm(dst, src device.Sum, on device.Hidden, of device.Totals) {
	n, to, from := q.net, q.net.sums[dst].scalars, q.net.sums[src].floats
	values, units := make([]float64, len(from)), make([]int64, len(from))
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		quarter := on.Grid(in) / 4
		for i, x := range from {
			values[i] = float64(x)
		}
		var err error
		switch {
		case quarter == 0:
			err = of.SumFloat64(values)
		case !exact.Units(units, values, quarter):
			err = errStep
		default:
			err = total(units, of)
			for i, k := range units {
				values[i] = float64(k) * quarter
			}
		}
		if err != nil {
			n.Fail(err)
			return
		}
		to[0] += math.Sqrt(dot(values, values))
	})
}

// releaseTotal releases a total, from its integers where the run has noise.
func (q *queue[T]) releaseTotal(dst device.Vector, s *sum[T], noise device.Noise) {
	n, d := q.net, q.net.vectors[dst]
	q.addDrawn(dst, noise, func(in *device.Inputs, g *exact.Sampler) {
		if g == nil {
			ReleaseTo(nil, d, s.floats, 0, in.Draw, 0)
			return
		}
		step := float64(in.Scalars[noise.Step()])
		n.backend.Blocks(len(d), func(lo, hi int) {
			g.Add(s.units[lo:hi], in.Draw, lo)
			for i, k := range s.units[lo:hi] {
				d[lo+i] = T(float64(k) * step)
			}
		})
		clear(s.units)
	})
}
