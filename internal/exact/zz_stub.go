package exact

import (
	"math"

	"github.com/privgrad/privgrad/internal/stream"
)

type Law int

const (
	Normal Law = iota
	Laplace
)

type Term struct {
	Scale     float64
	Draw      int
	Magnitude bool
}

type Reals struct{ g *Sampler }

func NewReals(l Law, s *stream.Stream, tensor uint32) (*Reals, error) {
	f := New
	if l == Laplace {
		f = NewLaplace
	}
	g, err := f(0x1p40, s, tensor)
	return &Reals{g}, err
}

func (r *Reals) AtLeastZero(step uint64, c []float64, terms ...Term) bool {
	x := 0.0
	for _, v := range c {
		x += v
	}
	for _, t := range terms {
		var k [1]int64
		r.g.Add(k[:], step, t.Draw)
		z := float64(k[0]) * 0x1p-40
		if t.Magnitude {
			z = math.Abs(z)
		}
		x += t.Scale * z
	}
	return x >= 0
}

func Release[T float32 | float64](g *Sampler, dst, src []T, grid float64, step uint64, first int) {
	k := make([]int64, len(dst))
	g.Add(k, step, first)
	for i, x := range src {
		y := float64(x) / grid
		y = math.Max(-0x1p49, math.Min(y, 0x1p49))
		if y != y {
			y = 0
		}
		dst[i] = T((math.RoundToEven(y) + float64(k[i])) * grid)
	}
}
