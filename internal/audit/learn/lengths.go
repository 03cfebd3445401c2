package learn

import (
	"math"

	"github.com/privgrad/privgrad/internal/usage"
)

// Lengths tell how long the noise of a release is, beside how many other records are in the batch. Noise of one deviation tells
// nothing by its length. Where noise is divided by a number that depends on a record, its length shows the record.
type Lengths struct {
	basis [][]float64 // of what records add, which is left out
	width float64     // of a bin: the standard error of the log of a length
	steps map[length]*[2]float64
}

// length is a bin of logs of lengths, of batches of so many others.
type length struct{ others, bin int }

// NewLengths are of releases less their components along what records add.
func NewLengths(shares [][]float32) (*Lengths, error) {
	l := &Lengths{}
	for _, share := range shares {
		own := make([]float64, len(share))
		for i, x := range share {
			own[i] = float64(x)
		}
		before := product(own, own)
		for range 2 { // twice is enough to be orthogonal to the last digits
			for _, b := range l.basis {
				s := product(b, own)
				for i, v := range b {
					own[i] -= s * v
				}
			}
		}
		if after := product(own, own); after > 1e-12*before {
			for i := range own {
				own[i] /= math.Sqrt(after)
			}
			l.basis = append(l.basis, own)
		}
	}
	left := len(shares[0]) - len(l.basis)
	if left < 1 {
		return nil, usage.Errorf("the records can add to every one of %d parameters, so that no noise is left whose length could be measured; take a model with more than %d", len(shares[0]), len(shares))
	}
	l.width = 1 / math.Sqrt(2*float64(left))
	return l.Fresh(), nil
}

// Fresh has seen nothing yet.
func (l *Lengths) Fresh() *Lengths {
	return &Lengths{basis: l.basis, width: l.width, steps: map[length]*[2]float64{}}
}

func product[T, U float32 | float64](a []T, b []U) (s float64) {
	for i, x := range a {
		s += float64(x) * float64(b[i])
	}
	return s
}

// log is that of the length of what no record adds to.
func (l *Lengths) log(release []float32) float64 {
	square := product(release, release)
	for _, b := range l.basis {
		s := product(b, release)
		square -= s * s
	}
	return math.Log(max(square, 0)) / 2
}

// bin is that of a step. Lengths of 0 and of infinity have bins, too.
func (l *Lengths) bin(others int, log float64) length {
	const end = 1e9
	return length{others, int(math.Floor(min(max(log/l.width, -end), end)))}
}

// Add takes in a step of a run of a world.
func (l *Lengths) Add(world, others int, release []float32) { l.add(world, others, l.log(release)) }

func (l *Lengths) add(world, others int, log float64) { l.at(l.bin(others, log))[world]++ }

func (l *Lengths) at(bin length) *[2]float64 {
	if l.steps[bin] == nil {
		l.steps[bin] = &[2]float64{}
	}
	return l.steps[bin]
}

// Merge takes in the steps that another one has seen.
func (l *Lengths) Merge(other *Lengths) {
	for bin, n := range other.steps {
		at := l.at(bin)
		at[0], at[1] = at[0]+n[0], at[1]+n[1]
	}
}

// Ratio is the log of how much likelier a step is in the second world, after as many steps of each. Of every bin, half a step
// more counts than was seen. It is no number where a release has none.
func (l *Lengths) Ratio(others int, release []float32) float64 {
	return l.ratio(others, l.log(release))
}

func (l *Lengths) ratio(others int, log float64) float64 {
	n := l.steps[l.bin(others, log)]
	switch {
	case math.IsNaN(log):
		return log
	case n == nil:
		return 0
	}
	return math.Log((n[1] + 0.5) / (n[0] + 0.5))
}
