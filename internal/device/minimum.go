package device

import (
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

// Minimum is the right to ask which value of a sum is the least (Queue.ArgMin). Only
// dpoptim/mechanism asks for one, as for Noise; the zero value is refused.
type Minimum struct{ place }

// NewMinimum makes the right, with noise from s in the counter range (Inputs.Draw,
// tensor), whose mean is the run's QueryStd.
func NewMinimum(s *stream.Stream, tensor uint32) Minimum { return Minimum{place{s, tensor}} }

// Decide gives the number of the least of sum_i + bias_i − |ν_i|, the first of equals.
// ν_i is noise number i of (Draw, tensor), from the Laplace distribution, so that |ν_i| is
// exponential. It defines what every device does; as in Search.Decide nothing is rounded.
func (m Minimum) Decide(in *Inputs, sums []float64) (int, error) {
	noise, err := exact.NewReals(exact.Laplace, m.stream, m.tensor)
	if err != nil {
		return 0, err
	}
	mean, best := float64(in.Scalars[QueryStd]), 0
	for i := 1; i < len(sums); i++ {
		if !noise.AtLeastZero(in.Draw, []float64{sums[i], in.Biases[i], -sums[best], -in.Biases[best]},
			exact.Term{Scale: -mean, Draw: i, Magnitude: true}, exact.Term{Scale: mean, Draw: best, Magnitude: true}) {
			best = i
		}
	}
	return best, nil
}
