package host

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/admit"
	"github.com/privgrad/privgrad/internal/exact"
)

// A sum is a device.Sum, in one of three forms: of gradients in the backend's
// numbers, of an exact net's gradients in grid steps, or of scalars. Scalars are
// float64 everywhere, in which numbers on a grid add up without rounding.
type sum[T Float] struct {
	floats   []T
	integers []int64
	scalars  []float64
	tally    admit.Tally // of integers, and of losses among scalars
}

func (n *Net[T]) newSum(s *sum[T]) (device.Sum, error) {
	n.sums = append(n.sums, s)
	return device.Sum(len(n.sums) - 1), nil
}

// NewSum makes a zero sum.
func (n *Net[T]) NewSum() (device.Sum, error) {
	if n.err != nil {
		return 0, n.err
	}
	if n.options.Exact {
		return n.newSum(&sum[T]{integers: make([]int64, n.params)})
	}
	return n.newSum(&sum[T]{floats: newSlice[T](n.params)})
}

// NewScalarSum makes a zero sum of n values.
func (n *Net[T]) NewScalarSum(size int) (device.Sum, error) {
	if err := n.scalars(size); err != nil {
		return 0, err
	}
	return n.newSum(&sum[T]{scalars: make([]float64, size)})
}

func (q *queue[T]) sum(s device.Sum) *sum[T] {
	if s < 0 || int(s) >= len(q.net.sums) {
		q.check(fmt.Errorf("no sum %d on this network", s))
		return &sum[T]{}
	}
	return q.net.sums[s]
}

// gradients is a sum of gradients in floating point, integers one of an exact net,
// and scalars one of so many values.
func (q *queue[T]) gradients(s device.Sum) []T {
	x := q.sum(s)
	if x.floats == nil {
		q.check(fmt.Errorf("sum %d holds no gradients", s))
	}
	return x.floats
}

func (q *queue[T]) integers(s device.Sum) *sum[T] {
	x := q.sum(s)
	if x.integers == nil {
		q.check(fmt.Errorf("sum %d holds no gradients", s))
	}
	return x
}

func (q *queue[T]) scalars(s device.Sum, size int) *sum[T] {
	x := q.sum(s)
	if len(x.scalars) != size {
		q.check(fmt.Errorf("sum %d holds %d scalars, want %d", s, len(x.scalars), size))
	}
	return x
}

// A sampler keeps what draws a release's noise from run to run.
type sampler struct {
	noise device.Noise
	std   float64 // in grid steps, of the last run
	drawn *exact.Sampler
}

// of is the sampler of a run, nil where there is no noise.
func (s *sampler) of(in *device.Inputs) (*exact.Sampler, error) {
	if in.Scalars[s.noise.Std()] == 0 {
		return nil, nil
	}
	std := float64(in.Scalars[s.noise.Std()]) / float64(in.Scalars[s.noise.Step()])
	if s.drawn == nil || s.std != std {
		g, err := exact.New(std, s.noise.Stream(), s.noise.Tensor())
		if err != nil {
			return nil, err
		}
		s.std, s.drawn = std, g
	}
	return s.drawn, nil
}

// ReleaseTo sets dst to src with the noise of draws first, first+1, …, on a grid of a
// step; a sampler of nil adds nothing. Then it clears src.
func ReleaseTo[T Float](g *exact.Sampler, dst, src []T, step float64, draw uint64, first int) {
	if g == nil {
		copy(dst, src)
	} else if single, ok := any(dst).([]float32); ok {
		g.Release(single, any(src).([]float32), step, draw, first)
	} else {
		g.Release64(any(dst).([]float64), any(src).([]float64), step, draw, first)
	}
	clear(src)
}

// releaseScalars releases a few numbers.
func (q *queue[T]) releaseScalars(dst device.Vector, s *sum[T], noise device.Noise) {
	d := q.vec(dst, len(s.scalars))
	if !q.claim(noise, len(d)) {
		return
	}
	q.step.Checks = append(q.step.Checks, s.tally.Release(noise))
	n, drawn, values := q.net, sampler{noise: noise}, make([]float64, len(s.scalars))
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		g, err := drawn.of(in)
		if err != nil {
			n.err = err
			return
		}
		ReleaseTo(g, values, s.scalars, float64(in.Scalars[noise.Step()]), in.Draw, 0)
		s.tally.Released()
		for i, x := range values {
			d[i] = T(x)
		}
		n.wrote(dst)
	})
}

// Norm adds to a sum of one value.
func (q *queue[T]) Norm(dst, src device.Sum) {
	if q.net.options.Exact {
		q.check(fmt.Errorf("exact nets release no norms: a record could move one by more than their integers tell"))
		return
	}
	to, from := q.scalars(dst, 1), q.gradients(src)
	if q.err != nil {
		return
	}
	q.add(func(*device.Inputs, *device.Outputs) { to.scalars[0] += math.Sqrt(dot(from, from)) })
}
