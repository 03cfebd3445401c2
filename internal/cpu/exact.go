package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// An exact sum goes through every example's gradient three times: for its norm, to check the norm of its integers, and
// to add them. A convolution's gradient is stored. A dense layer's is an outer product, and its coordinates δ_o·x_k are
// computed in registers each time, with the same rounding, which costs less than a read from memory. The norm is added up
// in a fixed order: coordinate after coordinate, in the order in which the schedule makes gradients, in four sums by the
// coordinate's number mod 4.

// exactSum is what an exact net knows beside others.
type exactSum struct {
	dst    []int64
	grid   device.Grid
	scale  []float64 // by example; 0 for one that does not count
	ones   []float32 // as many
	layers []*exactLayer
	of     []*exactLayer // by op
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
	norm, sum, scale []float64
	columns          []float32
	integers         []int64
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
		l := &exactLayer{op: st.Op, size: n.program.OpParams(st.Op), stored: op.Kind != ir.Dense}
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
		norm: make([]float64, vec.ColumnSums), sum: make([]float64, vec.Columns), scale: make([]float64, vec.Columns),
		columns: make([]float32, rows*vec.Columns), integers: make([]int64, sumBlock),
	}
}

// GridSum runs the schedule with integers at its end.
func (n *net) GridSum(dst []int64, params []float32, t *host.Table, rows []int32, g device.Grid) {
	n.exact.dst, n.exact.grid = dst, g
	n.ClippedSum(nil, params, t, rows, 0)
	n.exact.dst = nil
}

// exactScales stands in the place of the factors: it works on units of examples, each of them a matrix with a column for
// every example.
func (n *net) exactScales() phase {
	rows := func(r0, r1 int, w *worker) {
		for lo := r0; lo < r1; lo += vec.Columns {
			n.scaleColumns(lo, min(lo+vec.Columns, r1), w)
		}
	}
	return phase{
		rows:  rows,
		tiles: func() int { return n.units(n.batch) },
		body:  func(tile int, w *worker) { rows(tile*n.unit, min((tile+1)*n.unit, n.batch), w) },
	}
}

// scaleColumns is host.Scale of some examples.
func (n *net) scaleColumns(lo, hi int, w *worker) {
	e, work := n.exact, &w.exact
	for _, l := range e.layers {
		if !l.stored {
			n.layOut(l, lo, hi)
		}
	}
	clear(work.norm)
	first := 0 // the sum to which the next coordinate belongs
	n.eachColumn(lo, hi, w, func(d, x []float32) {
		vec.SquareColumns(work.norm, d, x)
		rows := len(x) / vec.Columns
		first += rows
		rotate(work.norm, rows%4)
	})
	rotate(work.norm, -first&3)
	clear(work.scale)
	for b := lo; b < hi; b++ {
		c := b - lo
		s := func(q int) float64 { return work.norm[q*vec.Columns+c] }
		scale, ok := host.ScaleTo(e.grid, s(0)+s(1)+(s(2)+s(3)))
		work.scale[c], n.used[b] = scale, n.used[b] && ok
	}
	clear(work.sum)
	n.eachColumn(lo, hi, w, func(d, x []float32) { vec.GridSquares(work.sum, work.scale, d, x) })
	for b := lo; b < hi; b++ {
		c := b - lo
		// A NaN is no norm either.
		if n.used[b] = n.used[b] && work.sum[c] <= float64(e.grid.Most2); n.used[b] {
			e.scale[b] = work.scale[c]
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
				asColumns(x, n.kept[at+k:], n.stored, lo, hi)
				f(ones, x)
			}
			continue
		}
		x, deltas := memory[:l.in*vec.Columns], memory[l.in*vec.Columns:][:l.out*vec.Columns]
		asColumns(x, n.values[n.program.Ops[l.op].In[0]], l.in, lo, hi)
		asColumns(deltas, n.deltas[l.op+1], l.out, lo, hi)
		for o := range l.out {
			f(deltas[o*vec.Columns:][:vec.Columns], x)
		}
		if l.columns > l.in {
			f(ones, deltas)
		}
	}
}

// asColumns writes rows lo to hi of a matrix as columns of dst. Columns that are left become zero.
func asColumns(dst, src []float32, stride, lo, hi int) {
	if hi-lo < vec.Columns {
		clear(dst)
	}
	transposed(dst, vec.Columns, len(dst)/vec.Columns, src, stride, lo, hi)
}

// transposed writes so many elements of rows lo to hi of src as rows of dst.
func transposed(dst []float32, pitch, rows int, src []float32, stride, lo, hi int) {
	const tile = 16
	for r0 := 0; r0 < rows; r0 += tile {
		r1 := min(r0+tile, rows)
		for b := lo; b < hi; b++ {
			d := dst[r0*pitch+b-lo:]
			for i, x := range src[b*stride+r0 : b*stride+r1] {
				d[i*pitch] = x
			}
		}
	}
}

// layOut copies what a dense layer's gradients are products of.
func (n *net) layOut(l *exactLayer, lo, hi int) {
	height := len(n.exact.scale)
	transposed(l.deltas[lo:], height, l.out, n.deltas[l.op+1], l.out, lo, hi)
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

// rowsOfTile outputs of a dense layer are summed at a time: a panel stays in the first-level cache meanwhile.
const rowsOfTile = 32

// combineIntegers adds Σ truncated gradient of one op.
func (n *net) combineIntegers(i int) phase {
	e, l := n.exact, n.exact.of[i]
	if l.stored {
		return n.blockwise(i, func(lo, hi int, w *worker) {
			integers := w.exact.integers[:hi-lo]
			for k := lo; k < hi; k += vec.Columns {
				vec.GridSum(w.exact.sum, e.ones, n.kept[n.keptAt[i]+k:], n.stored, e.scale[:n.batch])
				for j, x := range w.exact.sum[:min(vec.Columns, hi-k)] {
					integers[k-lo+j] = int64(x)
				}
			}
			deliver(n, i, e.dst, lo, integers)
		})
	}
	height, down := len(e.scale), (l.out+rowsOfTile-1)/rowsOfTile
	op := &n.program.Ops[i]
	return phase{
		tiles: func() int { return wholeColumns(l.columns) / vec.Columns * down },
		body: func(tile int, w *worker) {
			k, first := tile/down*vec.Columns, tile%down*rowsOfTile
			for o := first; o < min(first+rowsOfTile, l.out); o++ {
				vec.GridSum(w.exact.sum, l.deltas[o*height:], l.panels[k*height:], vec.Columns, e.scale[:n.batch])
				weights := e.dst[n.program.Params[op.Weight].Offset+o*l.in+min(k, l.in):][:min(vec.Columns, max(l.in-k, 0))]
				for j := range weights {
					weights[j] += int64(w.exact.sum[j])
				}
				if bias := l.in - k; op.Bias != ir.None && 0 <= bias && bias < vec.Columns {
					e.dst[n.program.Params[op.Bias].Offset+o] += int64(w.exact.sum[bias])
				}
			}
		},
	}
}

// Blocks are shared out among the workers.
func (n *net) Blocks(size int, f func(lo, hi int)) {
	n.workers.do((size+flatBlock-1)/flatBlock, func(tile int, _ *worker) {
		f(tile*flatBlock, min((tile+1)*flatBlock, size))
	})
}
