package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// An exact sum goes through every example's gradient twice: for its norm, and to add its integers and their squares. A
// convolution's gradient is stored. A dense layer's is an outer product, and its coordinates δ_o·x_k are computed in
// registers each time, with the same rounding, which costs less than to read them. The norm is added up in a fixed order:
// coordinate after coordinate, in the order in which the schedule makes gradients, in four sums by the coordinate's
// number mod 4. An example whose integers turn out too long is taken out again (check).

// exactSum is what an exact net knows beside others.
type exactSum struct {
	dst    []int64
	sign   int64 // of what is added to dst
	grid   device.Grid
	scale  []float64 // by example; 0 for one that does not count
	ones   []float32 // as many
	layers []*exactLayer
	of     []*exactLayer // by op
	work   []*exactWork  // of all workers
}

// exactLayer is an op's share of a gradient.
type exactLayer struct {
	op, size int
	stored   bool
	// Of a dense layer: the chunk's inputs in panels of columns, after which a 1 stands for the bias, and the transposed δ.
	out, in, columns int
	panels, deltas   []float32
}

// exactWork is a worker's memory.
type exactWork struct {
	norm, sum []float64
	squares   []float64 // of the integers that the worker has added, parts of a sum for every example
	columns   []float32
	integers  []int64
}

// storedColumns of stored gradients are transposed at a time.
const storedColumns = 256

// wholeColumns is n, rounded up so that kernels can read whole rows of columns.
func wholeColumns(n int) int { return (n + vec.Columns - 1) / vec.Columns * vec.Columns }

// placeExact stores gradients with padding, and makes room for what gives the others.
func (n *net) placeExact() {
	e, capacity := n.exact, wholeColumns(n.chunk)
	e.scale, e.ones, e.of = make([]float64, capacity), make([]float32, capacity), make([]*exactLayer, len(n.program.Ops))
	for i := range e.ones {
		e.ones[i] = 1
	}
	for _, st := range n.schedule.Steps {
		if st.Kind != ir.GradStore {
			continue
		}
		op := &n.program.Ops[st.Op]
		l := &exactLayer{op: st.Op, size: n.program.OpParams(st.Op), stored: op.Kind != ir.Dense || n.views > 1}
		if l.stored {
			n.keptAt[st.Op] = n.stored
			n.stored += wholeColumns(l.size)
		} else {
			l.out, l.in, _ = op.Columns()
			l.columns = l.in
			if op.Bias != ir.None {
				l.columns++
			}
			l.panels = make([]float32, capacity*wholeColumns(l.columns))
			l.deltas = make([]float32, capacity*l.out)
		}
		e.layers, e.of[st.Op] = append(e.layers, l), l
	}
	n.kept = make([]float32, n.chunk*n.stored)
	n.unit = vec.Columns
}

func (n *net) prepareExact(w *worker) {
	rows := storedColumns
	for _, l := range n.exact.layers {
		rows = max(rows, l.in+l.out)
	}
	w.exact = exactWork{
		norm: make([]float64, vec.ColumnSums), sum: make([]float64, exactTile), squares: make([]float64, n.chunk*vec.SquareSums),
		columns: make([]float32, rows*vec.Columns), integers: make([]int64, exactTile),
	}
	n.exact.work = append(n.exact.work, &w.exact)
}

// GridSum runs the schedule with integers at its end.
func (n *net) GridSum(dst []int64, params []float32, t *host.Table, b host.Batch, g device.Grid) {
	n.exact.dst, n.exact.sign, n.exact.grid = dst, 1, g
	n.clearSquares() // of a batch that a fault has stopped
	n.ClippedSum(nil, params, t, b, 0)
	n.exact.dst = nil
}

// exactStep gives the phases of a step that exact nets do in their own way, and whether it is one.
func (n *net) exactStep(st ir.Step) ([]phase, bool) {
	if n.exact == nil {
		return nil, false
	}
	switch {
	case st.Kind == ir.Factor:
		return []phase{n.exactScales()}, true
	case st.Kind == ir.GradStore && !n.exact.of[st.Op].stored:
		return nil, true // never stored: exactScales and combineIntegers compute it twice, each in registers
	case st.Kind == ir.Combine:
		return []phase{n.combineIntegers(st.Op)}, true
	}
	return nil, false
}

// exactScales stands in the place of the factors: it works on units of examples, each of them a matrix with a column for
// every example.
func (n *net) exactScales() phase {
	return phase{lines: func(r0, r1 int, w *worker) {
		for lo := r0; lo < r1; lo += vec.Columns {
			n.scaleColumns(lo, min(lo+vec.Columns, r1), w)
		}
	}}
}

// scaleColumns finds what some examples' gradients are multiplied by.
func (n *net) scaleColumns(lo, hi int, w *worker) {
	e, norm := n.exact, w.exact.norm
	for _, l := range e.layers {
		if !l.stored {
			n.layOut(l, lo, hi)
		}
	}
	clear(norm)
	first := 0 // the sum to which the next coordinate belongs
	n.eachColumn(lo, hi, w, func(d, x []float32) {
		vec.SquareColumns(norm, d, x)
		rows := len(x) / vec.Columns
		first += rows
		rotate(norm, rows%4)
	})
	rotate(norm, -first&3)
	for b := lo; b < hi; b++ {
		s := func(q int) float64 { return norm[q*vec.Columns+b-lo] }
		scale, ok := host.ScaleTo(e.grid, s(0)+s(1)+(s(2)+s(3)))
		if n.used[b] = n.used[b] && ok; n.used[b] {
			e.scale[b] = scale
		} else {
			n.leaveOut(b)
		}
	}
}

// rotate moves rows of columns up by so many, those at the top to the end.
func rotate(sums []float64, rows int) {
	if rows == 0 {
		return
	}
	var out [vec.ColumnSums]float64
	at := copy(out[:], sums[rows*vec.Columns:])
	copy(out[at:], sums)
	copy(sums, out[:])
}

// eachColumn gives the examples' gradients, a column for every example, stretch by stretch in the order of the norm:
// each is the product of d and the rows of x.
func (n *net) eachColumn(lo, hi int, w *worker, f func(d, x []float32)) {
	ones, memory := n.exact.ones[:vec.Columns], w.exact.columns
	for _, l := range n.exact.layers {
		if l.stored {
			at := n.keptAt[l.op]
			for k := 0; k < l.size; k += storedColumns {
				x := memory[:min(storedColumns, l.size-k)*vec.Columns]
				asColumns(x, n.kept[lo*n.stored+at+k:], n.stored, hi-lo)
				f(ones, x)
			}
			continue
		}
		x, deltas := memory[:l.in*vec.Columns], memory[l.in*vec.Columns:][:l.out*vec.Columns]
		asColumns(x, n.valuesFrom(n.program.Ops[l.op].In[0], lo), l.in, hi-lo)
		asColumns(deltas, n.deltasFrom(ir.Value(l.op+1), lo), l.out, hi-lo)
		for o := range l.out {
			f(deltas[o*vec.Columns:][:vec.Columns], x)
		}
		if l.columns > l.in {
			f(ones, deltas)
		}
	}
}

// asColumns writes the first n rows of a matrix as columns of dst. Columns that are left become zero.
func asColumns(dst, src []float32, stride, n int) {
	if n < vec.Columns {
		clear(dst)
	}
	transposed(dst, vec.Columns, len(dst)/vec.Columns, src, stride, n)
}

// transposed writes so many elements of the first n rows of src as rows of dst.
func transposed(dst []float32, pitch, rows int, src []float32, stride, n int) {
	const tile = 16
	for r0 := 0; r0 < rows; r0 += tile {
		r1 := min(r0+tile, rows)
		for b := range n {
			d := dst[r0*pitch+b:]
			for i, x := range src[b*stride+r0 : b*stride+r1] {
				d[i*pitch] = x
			}
		}
	}
}

// layOut copies what a dense layer's gradients are products of.
func (n *net) layOut(l *exactLayer, lo, hi int) {
	height := len(n.exact.scale)
	transposed(l.deltas[lo:], height, l.out, n.deltasFrom(ir.Value(l.op+1), lo), l.out, hi-lo)
	for b := lo; b < hi; b++ {
		x := n.value(n.program.Ops[l.op].In[0], b)
		for p := 0; p < l.columns; p += vec.Columns {
			panel := l.panels[p*height+b*vec.Columns:][:vec.Columns]
			if rest := copy(panel, x[min(p, l.in):]); rest < vec.Columns && l.columns > l.in {
				panel[rest] = 1
			}
		}
	}
}

// leaveOut makes an example's gradient zero, since 0·NaN would not be.
func (n *net) leaveOut(b int) {
	e := n.exact
	e.scale[b] = 0
	clear(row(n.kept, b, n.stored))
	height := len(e.scale)
	for _, l := range e.layers {
		for p := 0; p < l.columns; p += vec.Columns {
			clear(l.panels[p*height+b*vec.Columns:][:vec.Columns])
		}
		for o := range l.out {
			l.deltas[o*height+b] = 0
		}
	}
}

// A tile of a dense layer's sum is of so many outputs and columns, and goes through so many examples at a time: what
// those need stays in the first-level cache.
const (
	exactTile      = 512
	outputsOfTile  = exactTile / vec.Columns
	examplesOfTile = 256
)

// combineIntegers adds Σ truncated gradient of one op.
func (n *net) combineIntegers(i int) phase {
	e, l := n.exact, n.exact.of[i]
	if l.stored {
		return n.blockwise(i, exactTile, func(lo, hi int, w *worker) {
			sum, integers := w.exact.sum, w.exact.integers[:hi-lo]
			clear(sum)
			for b := 0; b < n.batch; b += examplesOfTile {
				scale := e.scale[b:min(b+examplesOfTile, n.batch)]
				for k := lo; k < hi; k += vec.Columns {
					vec.GridSum(sum[k-lo:], w.exact.squares[b*vec.SquareSums:], e.ones, n.kept[b*n.stored+n.keptAt[i]+k:], n.stored, scale)
				}
			}
			for j := range integers {
				integers[j] = e.sign * int64(sum[j])
			}
			deliver(n, i, e.dst, lo, integers)
		})
	}
	height, down := len(e.scale), (l.out+outputsOfTile-1)/outputsOfTile
	return phase{
		tiles: func() int { return wholeColumns(l.columns) / vec.Columns * down },
		body: func(tile int, w *worker) {
			k, first := tile/down*vec.Columns, tile%down*outputsOfTile
			sum, outputs := w.exact.sum, min(outputsOfTile, l.out-first)
			clear(sum)
			for b := 0; b < n.batch; b += examplesOfTile {
				scale, panel := e.scale[b:min(b+examplesOfTile, n.batch)], l.panels[k*height+b*vec.Columns:]
				for o := range outputs {
					vec.GridSum(sum[o*vec.Columns:], w.exact.squares[b*vec.SquareSums:], l.deltas[(first+o)*height+b:], panel, vec.Columns, scale)
				}
			}
			for o := range outputs {
				n.addRow(l, first+o, k, sum[o*vec.Columns:][:vec.Columns])
			}
		},
	}
}

// addRow adds to the integers of a dense layer's output o from input k on, behind the last of which is the bias.
func (n *net) addRow(l *exactLayer, o, k int, sum []float64) {
	e, op := n.exact, &n.program.Ops[l.op]
	here := min(len(sum), max(l.in-k, 0))
	weights := e.dst[n.program.Params[op.Weight].Offset+o*l.in+min(k, l.in):][:here]
	for j := range weights {
		weights[j] += e.sign * int64(sum[j])
	}
	if here < len(sum) && op.Bias != ir.None {
		e.dst[n.program.Params[op.Bias].Offset+o] += e.sign * int64(sum[here])
	}
}

// check takes out examples whose integers are longer than the clip norm. It subtracts the chunk's sums, which are the
// same each time, and adds those of the others. The scale aims so far inside that this does not happen.
func (n *net) check() {
	e, last := n.exact, n.all[len(n.all)-1:]
	long := false
	for b, used := range n.used[:n.batch] {
		if used && !(n.squares(b) <= float64(e.grid.Most2)) {
			n.used[b], long = false, true
		}
	}
	if long {
		e.sign = -1
		n.run(last)
		for b, used := range n.used[:n.batch] {
			if !used {
				n.leaveOut(b)
			}
		}
		e.sign = 1
		n.run(last)
	}
	n.clearSquares()
}

// squares is Σk² of an example, as all workers have added it. Below 2⁵³ it is exact, and beyond it stays beyond.
func (n *net) squares(b int) (sum float64) {
	for _, w := range n.exact.work {
		for _, s := range row(w.squares, b, vec.SquareSums) {
			sum += s
		}
	}
	return sum
}

func (n *net) clearSquares() {
	for _, w := range n.exact.work {
		clear(w.squares[:n.batch*vec.SquareSums])
	}
}

// Blocks are shared out among the workers.
func (n *net) Blocks(size int, f func(lo, hi int)) {
	n.workers.do((size+flatBlock-1)/flatBlock, func(tile int, _ *worker) {
		f(tile*flatBlock, min((tile+1)*flatBlock, size))
	})
}
