package cpu

import (
	"math"

	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// standardize is ir.Standardize of a convolution: sums over a channel's weights are in float64.
type standardize struct {
	out, taps, biases int
	turned            bool
	unit              []float32 // (w − μ)/√max(…), laid out as gradients are
	scale             []float32 // gain/√max(…), by channel
	follows           []float32 // by channel: 1, or 0 where the floor is not exceeded
}

func newStandardize(op *ir.Op, turned bool) weightFunction {
	out, taps, _ := op.Columns()
	s := &standardize{out: out, taps: taps, turned: turned, unit: make([]float32, out*taps), scale: make([]float32, out), follows: make([]float32, out)}
	if op.Bias != ir.None {
		s.biases = out
	}
	return s
}

// channel writes a channel of the unit weight, and gives 1/√max(…) and whether the floor is exceeded. It centres as a
// normalization does.
func (s *standardize) channel(unit, w []float32) (scale float64, above bool) {
	m := moments{mean: vec.Sum(w) / float64(s.taps)}
	centre, rest := m.centre()
	vec.Normalize(unit, w, centre, 1, 0)
	squares := vec.SumSquares(unit) - float64(s.taps)*rest*rest
	scale = 1 / math.Sqrt(max(squares, ir.StandardFloor))
	vec.Normalize(unit, unit, 0, float32(scale), float32(rest*scale))
	return scale, squares > ir.StandardFloor
}

func (s *standardize) of(weight, w []float32, given [][]float32) {
	for o, gain := range given[0] {
		to := row(weight, o, s.taps)
		s.channel(to, row(w, o, s.taps))
		vec.Scale(to, gain)
	}
}

func (s *standardize) set(weight, w []float32, given [][]float32) {
	for o, gain := range given[0] {
		to := row(weight, o, s.taps)
		scale, above := s.channel(to, row(w, o, s.taps))
		s.scale[o], s.follows[o] = float32(scale*float64(gain)), 0
		if above {
			s.follows[o] = 1
		}
	}
	if s.turned {
		transpose(s.unit, weight, s.out, s.taps)
	} else {
		copy(s.unit, weight)
	}
	for o, gain := range given[0] {
		vec.Scale(row(weight, o, s.taps), gain)
	}
}

func (s *standardize) back(g []float32, w *worker) {
	gains := g[s.out*s.taps+s.biases:]
	if s.turned {
		s.backTurned(g, gains, w.scratch(2*s.out))
		return
	}
	for o := range s.out {
		g, unit := row(g, o, s.taps), row(s.unit, o, s.taps)
		mean, slope := vec.Sum(g)/float64(s.taps), vec.Dot(g, unit)
		gains[o] = float32(slope)
		vec.Mix(g, s.scale[o], g, float32(-float64(s.scale[o])*slope*float64(s.follows[o])), unit)
		vec.Normalize(g, g, float32(float64(s.scale[o])*mean), 1, 0)
	}
}

// backTurned takes all channels of a tap together: scale·(g − mean − unit·slope), multiplied out.
func (s *standardize) backTurned(g, gains, scratch []float32) {
	g = g[:s.out*s.taps]
	means, slopes, followed := scratch[:s.out], gains[:s.out], scratch[s.out:2*s.out]
	clear(means)
	clear(slopes)
	vec.AddColumns(means, slopes, g, s.unit)
	vec.Scale(means, -1/float32(s.taps))
	vec.Mul(means, means, s.scale)
	vec.Scaled(followed, -1, slopes)
	vec.Mul(followed, followed, s.follows)
	vec.Mul(followed, followed, s.scale)
	vec.MixColumns(g, s.scale, followed, s.unit, means)
}
