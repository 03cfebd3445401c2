package cpu

import (
	"math"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/plan"
)

// gradBlock is about how many values of one example's gradient are computed
// at a time where it is not kept: they stay in the second-level cache.
const gradBlock = 1 << 15

// eachGrad computes example b's gradient of convolution i and visits it in
// stretches: values from at on, bias after weight. The same δ gives the same
// bits in every call.
func (n *net) eachGrad(i, b int, w *worker, visit func(at int, values []float32)) {
	op := &n.program.Ops[i]
	out, k, positions := op.Columns()
	dy := gemm.RowMajor(n.delta(plan.Value(i+1), b), out, positions)
	cols := n.columnsOf(i, b, w)
	gemm.PackB(&w.b, gemm.RowMajor(cols, k, positions).T())
	rows := max(gradBlock/k/gemm.TileM, 1) * gemm.TileM
	w.grad = grow(w.grad, max(min(rows, out)*k, out))
	for r := 0; r < out; r += rows {
		e := min(r+rows, out)
		gemm.PackA(&w.a, dy.Slice(r, e, 0, positions))
		gemm.MulPacked(gemm.RowMajor(w.grad[:(e-r)*k], e-r, k), &w.a, &w.b, false)
		visit(r*k, w.grad[:(e-r)*k])
	}
	if op.Bias != plan.None {
		bias := w.grad[:out]
		biasGrad(bias, dy.Data, positions)
		visit(out*k, bias)
	}
}

// columnsOf writes example b's columns, taps × positions, into scratch memory.
func (n *net) columnsOf(i, b int, w *worker) []float32 {
	op := &n.program.Ops[i]
	_, k, positions := op.Columns()
	cols := w.scratch(k * positions)
	if padded(op) {
		clear(cols)
	}
	vec.CopyRuns(cols, n.value(op.In[0], b), &n.columns[i].matrix)
	return cols
}

func biasGrad(bias, dy []float32, positions int) {
	for c := range bias {
		bias[c] = float32(vec.Sum(dy[c*positions : (c+1)*positions]))
	}
}

// normInstantiate measures a gradient that the sum computes again, with the
// same bits.
func (n *net) normInstantiate(i int) func(int, *worker) {
	return func(b int, w *worker) {
		n.eachGrad(i, b, w, func(_ int, values []float32) { n.norm2[b] += vec.SumSquares(values) })
	}
}

// addScaled adds factor times example b's gradient to sum.
func (n *net) addScaled(i, b int, sum []float32, factor float32, w *worker) {
	n.eachGrad(i, b, w, func(at int, values []float32) { vec.Axpy(sum[at:at+len(values)], factor, values) })
}

// gramTile is how many columns meet as many others at a time: both stay in
// the second-level cache.
const gramTile = 16

// normGram adds the squared norm of ΔAᵀ, where A are the columns and Δ is δ:
//
//	‖ΔAᵀ‖² = Σ_st (AᵀA)_st (ΔᵀΔ)_st
//
// of which half is computed, in float64, as the matrices are symmetric. The
// sum will be of gradients in float32, each within γ·Σ_t‖a_t‖‖δ_t‖ of ΔAᵀ, where
// γ is that of their matrix product over the positions; the norm includes this.
func (n *net) normGram(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	out, k, positions := op.Columns()
	rounding := gamma(float64(gemm.Terms(positions)), unit)
	own := gamma(float64(2*positions+k/32+out/32+20), 0x1p-53)
	return func(b int, w *worker) {
		dy := n.delta(plan.Value(i+1), b)
		w.gramA, w.gramD = grow(w.gramA, k*positions), grow(w.gramD, out*positions)
		transpose(w.gramA, n.columnsOf(i, b, w), k, positions)
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
			n.norm2[b] = math.NaN() // the gradient might overflow
			return
		}
		norm := math.Sqrt(max(total, 0)+own*bound*bound) + rounding*bound
		n.norm2[b] += norm * norm
		if op.Bias != plan.None {
			w.grad = grow(w.grad, out)
			biasGrad(w.grad, dy, positions)
			n.norm2[b] += vec.SumSquares(w.grad)
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

func grow(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}
