package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/plan"
)

// A convolution of one example is a product of the weights, (out channels) ×
// (taps), with columns, (taps) × (output positions). The columns exist only
// in one worker's scratch memory.

func (n *net) convForward(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	out, k, positions := op.Columns()
	return func(b int, w *worker) {
		y := n.value(plan.Value(i+1), b)
		w.b.Reset(k, positions)
		if padded(op) {
			clear(w.b.Values())
		}
		vec.CopyRuns(w.b.Values(), n.value(op.In[0], b), &n.columns[i].panels)
		gemm.MulPacked(gemm.RowMajor(y, out, positions), &n.packed[i].w, &w.b, false)
		for c, bias := range n.param(n.params, op.Bias) {
			vec.AddBias(y[c*positions:(c+1)*positions], bias)
		}
	}
}

func (n *net) convInputGrad(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	out, k, positions := op.Columns()
	return func(b int, w *worker) {
		cols := w.scratch(k * positions)
		gemm.PackB(&w.b, gemm.RowMajor(n.delta(plan.Value(i+1), b), out, positions))
		gemm.MulPacked(gemm.RowMajor(cols, k, positions), &n.packed[i].wT, &w.b, false)
		dx := n.delta(op.In[0], b)
		if !n.shared[op.In[0]] {
			clear(dx)
		}
		vec.AddRuns(dx, cols, &n.columns[i].image)
	}
}

// convGrad writes, or adds, one example's gradient.
func (n *net) convGrad(i, b int, weight, bias []float32, accumulate bool, w *worker) {
	op := &n.program.Ops[i]
	out, k, positions := op.Columns()
	dy := n.delta(plan.Value(i+1), b)
	cols, x := w.scratch(k*positions), n.value(op.In[0], b)
	if padded(op) {
		clear(cols)
	}
	vec.CopyRuns(cols, x, &n.columns[i].matrix)
	gemm.PackA(&w.a, gemm.RowMajor(dy, out, positions))
	gemm.PackB(&w.b, gemm.RowMajor(cols, k, positions).T())
	gemm.MulPacked(gemm.RowMajor(weight, out, k), &w.a, &w.b, accumulate)
	for c := range bias {
		s := float32(vec.Sum(dy[c*positions : (c+1)*positions]))
		if accumulate {
			s += bias[c]
		}
		bias[c] = s
	}
}

func (n *net) convStore(i int) func(int, *worker) {
	return func(b int, w *worker) {
		weight, bias := n.keep(i, b)
		n.convGrad(i, b, weight, bias, false, w)
		n.norm2[b] += vec.SumSquares(weight) + vec.SumSquares(bias)
	}
}

// convSumParts is how many partial sums convGradSum adds pairwise: a fixed
// number, so that the result does not depend on the threads.
const convSumParts = 8

// convGradSum adds the chunk's gradients without storing any: each part of the
// chunk accumulates its own. Only a plain sum may do so inside a product: the
// parts of a clipped gradient are not bounded as the whole is.
func (n *net) convGradSum(i int) []phase {
	op := &n.program.Ops[i]
	weight, size := n.program.Params[op.Weight].Size(), paramCount(n.program, op)
	parts := make([]float32, convSumParts*size)
	accumulate := phase{
		tiles: func() int { return convSumParts },
		body: func(part int, w *worker) {
			g := row(parts, part, size)
			clear(g)
			for b := n.batch * part / convSumParts; b < n.batch*(part+1)/convSumParts; b++ {
				switch {
				case !n.used[b]:
				case n.schedule.Private():
					n.addScaled(i, b, g, n.factor[b], w)
				default:
					n.convGrad(i, b, g[:weight], g[weight:], true, w)
				}
			}
		},
	}
	add := phase{
		tiles: func() int { return 1 },
		body: func(_ int, w *worker) {
			for step := 1; step < convSumParts; step *= 2 {
				for p := 0; p < convSumParts; p += 2 * step {
					vec.AddVec(row(parts, p, size), row(parts, p+step, size))
				}
			}
			vec.AddVec(n.param(n.dst, op.Weight), parts[:weight])
			if op.Bias != plan.None {
				vec.AddVec(n.param(n.dst, op.Bias), parts[weight:size])
			}
		},
	}
	return []phase{accumulate, add}
}

func padded(op *plan.Op) bool {
	w := op.Window
	return w.PadTop|w.PadBottom|w.PadLeft|w.PadRight != 0
}

// columns says where an image's elements stand among the columns of a
// convolution. Elements on the padding stand nowhere.
type columns struct {
	panels vec.Runs // image to packed panels
	matrix vec.Runs // image to the columns as a row-major matrix
	image  vec.Runs // that matrix to the image
}

func newColumns(op *plan.Op) *columns {
	c := &columns{}
	_, k, positions := op.Columns()
	h, w, oh, ow := op.Shape[1], op.Shape[2], op.Out[1], op.Out[2]
	win := op.Window
	for tap := range k {
		channel, ky, kx := tap/(win.H*win.W), tap/win.W%win.H, tap%win.W
		left := kx*win.DilationW - win.PadLeft
		lo, hi := inside(left, win.StrideW, w, ow)
		for oy := range oh {
			y := oy*win.StrideH + ky*win.DilationH - win.PadTop
			if y < 0 || y >= h {
				continue
			}
			row := (channel*h + y) * w
			if win.StrideW == 1 && lo < hi {
				c.add(k, positions, tap, oy*ow+lo, row+lo+left, hi-lo)
				continue
			}
			for ox := lo; ox < hi; ox++ {
				c.add(k, positions, tap, oy*ow+ox, row+ox*win.StrideW+left, 1)
			}
		}
	}
	return c
}

// add notes that n elements from img on stand in row tap from pos on.
func (c *columns) add(k, positions, tap, pos, img, n int) {
	c.matrix.Add(tap*positions+pos, img, n)
	c.image.Add(img, tap*positions+pos, n)
	for n > 0 {
		lane := pos % gemm.TileN
		m := min(n, gemm.TileN-lane)
		c.panels.Add((pos/gemm.TileN*k+tap)*gemm.TileN+lane, img, m)
		pos, img, n = pos+m, img+m, n-m
	}
}

// inside gives the outputs o in [0, n) whose input at + o·stride lies in [0, size).
func inside(at, stride, size, n int) (lo, hi int) {
	if at < 0 {
		lo = (-at + stride - 1) / stride
	}
	hi = n
	if at+(n-1)*stride >= size {
		hi = (size - at + stride - 1) / stride
	}
	return lo, max(hi, lo)
}
