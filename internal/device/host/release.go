package host

import (
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
)

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

func (q *queue[T]) Release(dst device.Vector, src device.Sum, noise device.Noise) {
	switch s := &q.net.sums[src]; {
	case s.floats != nil && slices.Contains(q.step.total, src):
		q.releaseTotal(dst, s, noise)
	case s.scalars != nil:
		q.releaseScalars(dst, s.scalars, noise)
	case s.integers != nil:
		q.releaseIntegers(dst, s.integers, noise)
	default:
		q.addPass(&pass[T]{release: &Release[T]{Dst: q.net.vectors[dst], Src: s.floats}, drawn: sampler{noise: noise}, writes: []device.Vector{dst}})
	}
}

// addDrawn adds a release into dst, by the sampler of each run.
func (q *queue[T]) addDrawn(dst device.Vector, noise device.Noise, f func(in *device.Inputs, g *exact.Sampler)) {
	n, drawn := q.net, sampler{noise: noise}
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		g, err := drawn.of(in)
		if err != nil {
			n.Fail(err)
			return
		}
		f(in, g)
		n.wrote(dst)
	})
}

// releaseScalars releases a few numbers.
func (q *queue[T]) releaseScalars(dst device.Vector, src []float64, noise device.Noise) {
	d, values := q.net.vectors[dst], make([]float64, len(src))
	q.addDrawn(dst, noise, func(in *device.Inputs, g *exact.Sampler) {
		ReleaseTo(g, values, src, float64(in.Scalars[noise.Step()]), in.Draw, 0)
		for i, x := range values {
			d[i] = T(x)
		}
	})
}

// releaseIntegers releases the gradients of an exact net.
func (q *queue[T]) releaseIntegers(dst device.Vector, src []int64, noise device.Noise) {
	n, d := q.net, q.net.vectors[dst]
	q.addDrawn(dst, noise, func(in *device.Inputs, g *exact.Sampler) {
		step := device.NewGrid(in.Scalars[device.Clip]).Step
		n.backend.Blocks(len(d), func(lo, hi int) {
			if g != nil {
				g.Add(src[lo:hi], in.Draw, lo)
			}
			for i, k := range src[lo:hi] {
				d[lo+i] = T(float64(k) * step) // exact but for the rounding to T
			}
		})
		clear(src)
	})
}

// pass is a release, an update, or one and the other.
type pass[T Float] struct {
	release *Release[T]
	drawn   sampler
	update  *Update[T]
	writes  []device.Vector
}

func (q *queue[T]) addPass(p *pass[T]) {
	n := q.net
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		if r := p.release; r != nil {
			var err error
			if r.Sampler, err = p.drawn.of(in); err != nil {
				n.Fail(err)
				return
			}
			r.Step, r.Draw = float64(in.Scalars[p.drawn.noise.Step()]), in.Draw
		}
		if u := p.update; u != nil {
			u.Scalars = in.Scalars
		}
		n.backend.Apply(p.release, p.update)
		for _, v := range p.writes {
			n.wrote(v)
		}
	})
	q.last = p
}

func (q *queue[T]) Update(r device.Rule, p, g device.Vector, state ...device.Vector) {
	v := q.net.vectors
	u := &Update[T]{Rule: r, P: v[p], G: v[g]}
	for _, s := range state {
		u.State = append(u.State, v[s])
	}
	writes := append([]device.Vector{p}, state...)
	if l := q.last; l != nil && l.release != nil && l.update == nil && g != p && &l.release.Dst[0] == &u.G[0] {
		l.update, l.writes = u, append(l.writes, writes...)
		return
	}
	q.addPass(&pass[T]{update: u, writes: writes})
}
