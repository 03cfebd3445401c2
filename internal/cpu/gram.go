package cpu

import (
	"math"

	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// gramTile columns meet as many others at a time, in the second-level cache.
const gramTile = 16

// normGram adds the squared norm of ΔAᵀ, where A are the columns and Δ is δ:
//
//	‖ΔAᵀ‖² = Σ_st (AᵀA)_st (ΔᵀΔ)_st
//
// of which half is computed, in float64, as the matrices are symmetric. The
// sum will be of gradients in float32, each within γ·Σ_t‖a_t‖‖δ_t‖ of ΔAᵀ, where
// γ is that of their matrix product over the positions; the norm includes this.
func (n *net) normGram(i int) func(int, *worker) {
	c := n.convs[i]
	op := c.op
	out, k, positions := op.Columns()
	rounding := gamma(float64(c.taps.Terms()), unit)
	// Sums of so many terms, row by row in tiles, of products of two dot products each.
	own := gamma(float64(positions*positions/gramTile+3*positions+k/32+out/32+40), 0x1p-53)
	return func(b int, w *worker) {
		dy := n.delta(ir.Value(i+1), b)
		w.gramA, w.gramD = grow(w.gramA, k*positions), grow(w.gramD, out*positions)
		c.taps.Columns(w.gramA, c.x.lay(n.valuesFrom(op.In[0], b), w.images[i]))
		transpose(w.gramD, dy, out, positions)
		total, bound := 0.0, 0.0
		for s0 := 0; s0 < positions; s0 += gramTile {
			for t0 := 0; t0 <= s0; t0 += gramTile {
				for s := s0; s < min(s0+gramTile, positions); s++ {
					a, d := row(w.gramA, s, k), row(w.gramD, s, out)
					sum := 0.0
					for t := t0; t < min(t0+gramTile, s); t++ {
						sum += vec.Dot(a, row(w.gramA, t, k)) * vec.Dot(d, row(w.gramD, t, out))
					}
					total += 2 * sum
					if t0 == s0 {
						square := vec.SumSquares(a) * vec.SumSquares(d)
						total += square
						bound += math.Sqrt(square)
					}
				}
			}
		}
		if !(bound <= math.MaxFloat32/2) {
			n.measured(i, b, math.NaN()) // the gradient might overflow
			return
		}
		norm := math.Sqrt(max(total, 0)+own*bound*bound) + rounding*bound
		n.measured(i, b, norm*norm)
		if op.Bias != ir.None {
			bias := w.gradient[:out]
			biasGrad(bias, dy, positions, false)
			n.measured(i, b, vec.SumSquares(bias))
		}
	}
}

// transpose writes the rows by cols matrix src as cols by rows.
func transpose(dst, src []float32, rows, cols int) {
	const tile = 8
	for r0 := 0; r0 < rows; r0 += tile {
		r1 := min(r0+tile, rows)
		for c := range cols {
			d := dst[c*rows+r0 : c*rows+r1]
			for r := range d {
				d[r] = src[(r0+r)*cols+c]
			}
		}
	}
}
