package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/plan"
)

// product is a phase that computes a chunk-wide matrix product in slices, one
// a thread, along whichever side of the result is longer; an element's bits do
// not depend on the cut.
func (n *net) product(cols int, f func(r0, r1, c0, c1 int, w *worker)) phase {
	return phase{
		tiles: func() int { return n.workers.n },
		body: func(tile int, w *worker) {
			if n.batch >= cols {
				if lo, hi := cut(n.batch, gemm.TileM, tile, n.workers.n); lo < hi {
					f(lo, hi, 0, cols, w)
				}
				return
			}
			if lo, hi := cut(cols, gemm.TileN, tile, n.workers.n); lo < hi {
				f(0, n.batch, lo, hi, w)
			}
		},
	}
}

// cut gives part i of n, parts being whole tiles.
func cut(n, tile, i, parts int) (lo, hi int) {
	tiles := (n + tile - 1) / tile
	return min(tiles*i/parts*tile, n), min(tiles*(i+1)/parts*tile, n)
}

// matrix views the chunk's rows of a buffer.
func (n *net) matrix(x []float32, v plan.Value) gemm.Matrix {
	return gemm.RowMajor(x[:n.batch*n.program.ValueSize(v)], n.batch, n.program.ValueSize(v))
}

func (n *net) denseForward(i int) phase {
	op := &n.program.Ops[i]
	out, in, _ := op.Columns()
	return n.product(out, func(r0, r1, c0, c1 int, w *worker) {
		x, y := n.matrix(n.values[op.In[0]], op.In[0]), n.matrix(n.values[i+1], plan.Value(i+1))
		weight := gemm.RowMajor(n.param(n.params, op.Weight), out, in)
		gemm.Mul(y.Slice(r0, r1, c0, c1), x.Slice(r0, r1, 0, in), weight.Slice(c0, c1, 0, in).T(), false, &w.ws)
		if op.Bias != plan.None {
			bias := n.param(n.params, op.Bias)[c0:c1]
			for b := r0; b < r1; b++ {
				vec.AddVec(n.value(plan.Value(i+1), b)[c0:c1], bias)
			}
		}
	})
}

func (n *net) denseInputGrad(i int) phase {
	op := &n.program.Ops[i]
	out, in, _ := op.Columns()
	v := op.In[0]
	return n.product(in, func(r0, r1, c0, c1 int, w *worker) {
		dx, dy := n.matrix(n.deltas[v], v), n.matrix(n.deltas[i+1], plan.Value(i+1))
		weight := gemm.RowMajor(n.param(n.params, op.Weight), out, in)
		gemm.Mul(dx.Slice(r0, r1, c0, c1), dy.Slice(r0, r1, 0, out), weight.Slice(0, out, c0, c1), n.shared[v], &w.ws)
	})
}

func (n *net) normGhost(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	return func(b int, _ *worker) {
		dy := vec.SumSquares(n.delta(plan.Value(i+1), b))
		x := vec.SumSquares(n.value(op.In[0], b))
		if op.Bias != plan.None {
			x++
		}
		n.norm2[b] += dy * x
	}
}

// keep is where example b's gradient of op i is stored, bias after weight.
func (n *net) keep(i, b int) (weight, bias []float32) {
	op := &n.program.Ops[i]
	g := row(n.kept, b, n.stored)[n.keptAt[i]:][:paramCount(n.program, op)]
	size := n.program.Params[op.Weight].Size()
	return g[:size], g[size:]
}

func (n *net) denseStore(i int) func(int, *worker) {
	op := &n.program.Ops[i]
	return func(b int, _ *worker) {
		x, dy := n.value(op.In[0], b), n.delta(plan.Value(i+1), b)
		weight, bias := n.keep(i, b)
		for o, d := range dy {
			vec.Scaled(weight[o*len(x):(o+1)*len(x)], d, x)
		}
		copy(bias, dy)
		n.norm2[b] += vec.SumSquares(weight) + vec.SumSquares(bias)
	}
}

// Sums over examples run in blocks of this many, which are added pairwise.
const (
	rowBlock     = 64 // a matrix product over the batch
	exampleBlock = 32 // one row at a time
)

// A parameter tile of a summed product: big enough to pay for packing, small
// enough to stay in cache with its partial sums.
const (
	sumRows = 32 * gemm.TileM
	sumCols = 8 * gemm.TileN
)

// denseGradSum adds δᵀ·x over the chunk, with δ scaled by the factors before.
func (n *net) denseGradSum(i int) []phase {
	op := &n.program.Ops[i]
	out, in, _ := op.Columns()
	across := (in + sumCols - 1) / sumCols
	down := (out + sumRows - 1) / sumRows
	return []phase{{
		tiles: func() int { return across * down },
		body: func(tile int, w *worker) {
			r0, c0 := tile/across*sumRows, tile%across*sumCols
			r1, c1 := min(r0+sumRows, out), min(c0+sumCols, in)
			x, dy := n.matrix(n.values[op.In[0]], op.In[0]), n.matrix(n.deltas[i+1], plan.Value(i+1))
			w.tree.begin((r1 - r0) * (c1 - c0))
			for b := 0; b < n.batch; b += rowBlock {
				e := min(b+rowBlock, n.batch)
				part := gemm.RowMajor(w.tree.next(), r1-r0, c1-c0)
				gemm.Mul(part, dy.Slice(b, e, r0, r1).T(), x.Slice(b, e, c0, c1), false, &w.ws)
				w.tree.push()
			}
			total := w.tree.sum()
			dst := n.param(n.dst, op.Weight)
			for r := r0; r < r1; r++ {
				vec.AddVec(dst[r*in+c0:r*in+c1], total[(r-r0)*(c1-c0):(r-r0+1)*(c1-c0)])
			}
			if op.Bias != plan.None && c0 == 0 {
				n.sumRows(n.param(n.dst, op.Bias)[r0:r1], w, func(dst []float32, b int) {
					vec.AddVec(dst, n.delta(plan.Value(i+1), b)[r0:r1])
				})
			}
		},
	}}
}

// sumRows adds one vector an example to dst, in blocks, pairwise.
func (n *net) sumRows(dst []float32, w *worker, add func(dst []float32, b int)) {
	w.tree.begin(len(dst))
	for b := 0; b < n.batch; b += exampleBlock {
		part := w.tree.next()
		clear(part)
		for e := b; e < min(b+exampleBlock, n.batch); e++ {
			add(part, e)
		}
		w.tree.push()
	}
	vec.AddVec(dst, w.tree.sum())
}

// combineBlock is how many stored gradient values a worker combines at a time.
const combineBlock = 512

// combine adds Σ factor·(stored gradient) of one op.
func (n *net) combine(i int) phase {
	op := &n.program.Ops[i]
	weight := n.program.Params[op.Weight].Size()
	blocks := func(size int) int { return (size + combineBlock - 1) / combineBlock }
	tiles := blocks(weight)
	bias := 0
	if op.Bias != plan.None {
		bias = blocks(n.program.Params[op.Bias].Size())
	}
	return phase{
		tiles: func() int { return tiles + bias },
		body: func(tile int, w *worker) {
			dst, at := n.param(n.dst, op.Weight), n.keptAt[i]
			if tile >= tiles {
				dst, at, tile = n.param(n.dst, op.Bias), at+weight, tile-tiles
			}
			lo := tile * combineBlock
			hi := min(lo+combineBlock, len(dst))
			n.sumRows(dst[lo:hi], w, func(dst []float32, b int) {
				if n.used[b] {
					vec.Axpy(dst, n.factor[b], row(n.kept, b, n.stored)[at+lo:at+hi])
				}
			})
		},
	}
}
