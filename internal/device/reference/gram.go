package reference

import (
	"math"

	"github.com/privgrad/privgrad/internal/ir"
)

// unit bounds the relative error of one float64 operation.
const unit = 0x1p-53

// gramNorm2 is the squared norm of a convolution's gradient ΔAᵀ, where A are
// the columns, taps × positions, and Δ is δ: Σ_st (AᵀA)_st (ΔᵀΔ)_st, and the
// bias's. Rounding of both matrices and of the gradient that will be summed is
// included.
func gramNorm2(op *ir.Op, x, dy []float64) float64 {
	out, k, positions := op.Columns()
	cols := make([][]float64, positions)
	for t := range cols {
		cols[t] = make([]float64, k)
	}
	taps, image := windowLines(op), op.Shape[1]*op.Shape[2]
	for tap := range k {
		from := x[tap/len(taps)*image:]
		for _, l := range taps[tap%len(taps)] {
			for j := range l.n {
				cols[l.o+j][tap] = from[l.i+j*op.Window.StrideW]
			}
		}
	}
	gram := func(s, t int) (a, d float64) {
		for j, v := range cols[s] {
			a += v * cols[t][j]
		}
		for c := range out {
			d += dy[c*positions+s] * dy[c*positions+t]
		}
		return a, d
	}
	total, bound := 0.0, 0.0
	for s := range positions {
		a, d := gram(s, s)
		total += a * d
		bound += math.Sqrt(a * d)
		for t := range s {
			a, d := gram(s, t)
			total += 2 * a * d
		}
	}
	n := max(total, 0) + float64(positions*positions+2*positions+k+out+4)*unit*bound*bound
	if op.Bias != ir.None {
		for c := range out {
			s := 0.0
			for _, d := range dy[c*positions : (c+1)*positions] {
				s += d
			}
			n += s * s
		}
	}
	return n
}

// Rounding counts one rounding for every row that an example's share is added
// to, in each of the two sums compared.
func (b *backend) Rounding(rows int) float64 { return float64(rows) * float64(rows+1) * unit }
