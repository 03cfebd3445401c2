package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// matrix views the chunk's rows of a buffer, of which each lives until the sums.
func (n *net) matrix(x []float32, v ir.Value) gemm.Matrix {
	return gemm.RowMajor(x[:n.examples()*n.width[v]], n.examples(), n.width[v])
}

// valueRows and deltaRows view rows r0 to r1 of a stretch, the end excluded.
func (n *net) valueRows(v ir.Value, r0, r1 int) gemm.Matrix {
	return gemm.RowMajor(n.valuesFrom(v, r0)[:(r1-r0)*n.width[v]], r1-r0, n.width[v])
}

func (n *net) deltaRows(v ir.Value, r0, r1 int) gemm.Matrix {
	return gemm.RowMajor(n.deltasFrom(v, r0)[:(r1-r0)*n.width[v]], r1-r0, n.width[v])
}

// packedDense are the weights of a dense op, packed once a run where kernels need it.
type packedDense struct {
	forward gemm.Weights
	back    gemm.PackedB
}

// packDense lists the tiles that pack them, a panel each.
func (n *net) packDense() {
	for i := range n.program.Ops {
		op := &n.program.Ops[i]
		if op.Kind != ir.Dense {
			continue
		}
		out, in, _ := op.Columns()
		w := &n.dense[i]
		list := func(panels int, pack func(weights gemm.Matrix, first, end int)) {
			for j := range panels {
				n.packing[2] = append(n.packing[2], func() { pack(gemm.RowMajor(n.param(n.params, op.Weight), out, in), j, j+1) })
			}
		}
		if out > 1 {
			w.forward.Resize(in, out)
			list(w.forward.Panels(), w.forward.Pack)
		}
		if n.deltas[op.In[0]] != nil {
			w.back.Resize(out, in)
			list(w.back.Panels(), w.back.Pack)
		}
	}
}

// byRow gives the products of a few vectors of weights with every row of x, vector by vector: as columns, rows fill
// register tiles. The bits are those of x·weightsᵀ.
func byRow(products, weights []float32, vectors int, x gemm.Matrix, w *worker) {
	gemm.Mul(gemm.RowMajor(products, vectors, x.Rows), gemm.RowMajor(weights, vectors, x.Cols), x.T(), false, &w.ws)
}

func (n *net) denseForward(i int) phase {
	op := &n.program.Ops[i]
	out, in, _ := op.Columns()
	v := ir.Value(i + 1)
	return phase{rows: func(r0, r1 int, w *worker) {
		x, weights, bias := n.valueRows(op.In[0], r0, r1), n.param(n.params, op.Weight), n.param(n.params, op.Bias)
		if out > 1 {
			n.dense[i].forward.Mul(n.valueRows(v, r0, r1), x, gemm.RowMajor(weights, out, in), bias, &w.ws)
			return
		}
		y := n.valueRows(v, r0, r1).Data
		byRow(y, weights, 1, x, w)
		if bias != nil {
			for b := range y {
				y[b] += bias[0]
			}
		}
	}}
}

func (n *net) denseInputGrad(i int) phase {
	v := n.program.Ops[i].In[0]
	return phase{rows: func(r0, r1 int, w *worker) {
		gemm.PackA(&w.ws.Left, n.deltaRows(ir.Value(i+1), r0, r1))
		gemm.MulPacked(n.deltaRows(v, r0, r1), &w.ws.Left, &n.dense[i].back, n.shared[v])
	}}
}

func (n *net) normGhost(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	return func(b int, _ *worker) {
		dy := vec.SumSquares(n.delta(ir.Value(i+1), b))
		x := vec.SumSquares(n.value(op.In[0], b))
		if op.Bias != ir.None {
			x++
		}
		n.measured(i, b, host.Ghost(dy, x))
	}
}

// denseGradient adds up the outer products of a record's views.
func (n *net) denseGradient(i int) func(int, []float32, *worker) {
	op := &n.program.Ops[i]
	return func(r int, g []float32, _ *worker) {
		for v := range n.views {
			b := n.views*r + v
			x, dy := n.value(op.In[0], b), n.delta(ir.Value(i+1), b)
			bias := g[len(dy)*len(x):]
			if v > 0 {
				for o, d := range dy {
					vec.Axpy(g[o*len(x):(o+1)*len(x)], d, x)
				}
				vec.AddVec(bias, dy)
				continue
			}
			for o, d := range dy {
				vec.Scaled(g[o*len(x):(o+1)*len(x)], d, x)
			}
			copy(bias, dy)
		}
	}
}

// Sums over examples run in blocks of this many: of products one after the other, of single rows pairwise.
const (
	rowBlock     = 64 // a matrix product over the batch
	exampleBlock = 32 // one row at a time
)

// denseGradSum adds δᵀ·x over the chunk, with δ scaled by the factors before.
func (n *net) denseGradSum(i int) []phase {
	op := &n.program.Ops[i]
	out, in, _ := op.Columns()
	parts := n.workers.n
	return []phase{{
		tiles: func() int { return parts },
		body: func(tile int, w *worker) {
			x, dy := n.matrix(n.values[op.In[0]], op.In[0]), n.matrix(n.deltas[i+1], ir.Value(i+1))
			dst := gemm.RowMajor(n.param(n.dst, op.Weight), out, in)
			if out < in {
				if lo, hi := gemm.Cut(in, gemm.TileN, tile, parts); lo < hi {
					gemm.Sum(dst.Slice(0, out, lo, hi), dy.T(), x.Slice(0, n.examples(), lo, hi), rowBlock, &w.ws)
				}
			} else if lo, hi := gemm.Cut(out, gemm.TileM, tile, parts); lo < hi {
				gemm.Sum(dst.Slice(lo, hi, 0, in), dy.Slice(0, n.examples(), lo, hi).T(), x, rowBlock, &w.ws)
			}
			if lo, hi := gemm.Cut(out, 1, tile, parts); op.Bias != ir.None && lo < hi {
				vec.AddVec(n.param(n.dst, op.Bias)[lo:hi], n.sumExamples(n.examples(), hi-lo, w, func(dst []float32, b int) {
					vec.AddVec(dst, n.delta(ir.Value(i+1), b)[lo:hi])
				}))
			}
		},
	}}
}

// sumExamples adds one vector of each of so many examples, or records, in blocks, pairwise.
func (n *net) sumExamples(count, size int, w *worker, add func(dst []float32, b int)) []float32 {
	w.tree.begin(size)
	for b := 0; b < count; b += exampleBlock {
		part := w.tree.next()
		clear(part)
		for e := b; e < min(b+exampleBlock, count); e++ {
			add(part, e)
		}
		w.tree.push()
	}
	return w.tree.sum()
}
