package cpu

import (
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// An evaluator runs rows forward at points at − η·dir of the parameter space.
//
// A layer whose input depends on no parameter is linear in η: its products with
// at and with dir are computed once a row, and every point combines them.
// Other layers take shifted weights. A worker takes an example through all points
// while its first products are in cache; values outlive a segment only on either
// side of a dense layer.
//
// The loss of a row at a point has the same bits whatever other rows and points
// are asked for, and at − 0·dir those that the pass of a gradient gives it.
type evaluator struct {
	n        *net
	fixed    []bool     // by value: depends on no parameter
	root     []ir.Value // by value: the one whose memory it shares
	segments []*segment
	asked    []point // of a query
	again    []int   // columns of a query that repeat the first

	// Memory for a block of rows at a group of points; none of a network that line takes whole.
	rows, group int
	store       [][]float32 // by root, nil for the views' own: one row an example, of every point in turn unless fixed
	products    [][]float32 // by op, of first dense layers: with at, then with dir, of all rows
	first       []packedConv
	deep        [][]packedConv // by point, by op

	// The run in flight.
	at, dir   []float32
	points    []point // the group
	slopes    bool    // one of them is not at itself
	table     *host.Table
	list      []int32 // nil: row i of the table is row i of the run
	begin     int     // first row of the block
	batch     int     // and how many
	losses    []float64
	predicted []int32 // of a score, one column
	stride    int     // columns of losses
}

// point is at − eta·dir, and the column of its losses.
type point struct {
	eta    float32
	column int
}

// packedConv is a convolution's weights and bias.
type packedConv struct {
	w    filters
	bias []float32
}

// segment is a stretch of the network without a dense layer, or one such layer.
type segment struct {
	dense      bool
	once, each []func(*view) // of an example; of an example at a point
	values     []ir.Value    // that it reads or writes
	tiles      func() int
	body       func(tile int, w *worker)
}

// view is one worker's hold on an example at a point: a net of one row.
type view struct {
	net
	w        *worker
	example  int
	point    int
	forward  []func(b int, weight, bias []float32, w *worker) // by op that is computed example by example
	products [][]float32                                      // by op, of first convolutions: with at, then with dir
	shifted  []float32                                        // weights of a slice of a dense layer
}

const (
	evalRows  = 256      // most rows of a block
	evalBytes = 64 << 20 // what its stores may take
	evalBlock = 4        // examples at a point that a worker takes at a time
)

func newEvaluator(n *net) *evaluator {
	p := n.program
	ops := len(p.Ops)
	e := &evaluator{
		n: n, fixed: make([]bool, ops+1), root: make([]ir.Value, ops+1),
		store: make([][]float32, ops+1), products: make([][]float32, ops), first: make([]packedConv, ops),
	}
	readers := p.Consumers()
	for v, dependent := range p.NeedsGrad() {
		e.fixed[v], e.root[v] = !dependent, ir.Value(v)
		if v == 0 {
			continue
		}
		if op := &p.Ops[v-1]; op.Kind.Activation() && readers[op.In[0]] == 1 && op.In[0] != ir.Input {
			e.root[v] = e.root[op.In[0]]
		}
	}
	if e.build(); e.rows == 0 {
		e.size()
	}
	return e
}

// add is what is done of an example once, or at each point, in the last segment, which is begun where there is none.
func (e *evaluator) add(once bool, f func(*view), values ...ir.Value) {
	if n := len(e.segments); n == 0 || e.segments[n-1].dense {
		s := &segment{}
		s.tiles = func() int { return (e.batch + e.block() - 1) / e.block() }
		s.body = func(tile int, w *worker) { e.examples(s, tile, w) }
		e.segments = append(e.segments, s)
	}
	s := e.segments[len(e.segments)-1]
	if s.values = append(s.values, values...); once {
		s.once = append(s.once, f)
	} else {
		s.each = append(s.each, f)
	}
}

// build cuts the network into segments, which keep to some rows and points if they store values.
func (e *evaluator) build() {
	p := e.n.program
	if op := &p.Ops[0]; len(p.Ops) == 1 && op.Kind == ir.Dense && op.Out[0] == 1 {
		e.segments, e.rows, e.group = append(e.segments, e.line()), math.MaxInt32, device.MaxCandidates
		return
	}
	e.add(true, e.gather, ir.Input)
	for i := range p.Ops {
		if at := e.n.ops[i].at; at != nil {
			at(e, i)
		} else {
			e.example(i)
		}
	}
	e.add(false, e.loss, p.Logits())
}

// example adds an op that is computed example by example, with the parameters at each point.
func (e *evaluator) example(i int) {
	op, out := &e.n.program.Ops[i], ir.Value(i+1)
	lo, hi := e.span(op.Weight)
	from, to := e.span(op.Bias)
	e.add(e.fixed[out], func(v *view) {
		if lo == hi {
			v.forward[i](0, nil, nil, v.w)
			return
		}
		eta := e.points[v.point].eta
		v.shifted = e.shift(e.shift(v.shifted[:0], eta, lo, hi), eta, from, to)
		v.forward[i](0, v.shifted[:hi-lo], v.shifted[hi-lo:], v.w)
	}, append(slices.Clone(op.In), out)...)
}

// linear says that op i's products at a point are those at at and with dir, combined.
func (e *evaluator) linear(i int) bool {
	op := &e.n.program.Ops[i]
	return e.fixed[op.In[0]] && op.Function == ir.Identity
}

// conv adds a convolution.
func (e *evaluator) conv(i int) {
	op, in, out := &e.n.program.Ops[i], e.n.program.Ops[i].In[0], ir.Value(i+1)
	if !e.linear(i) {
		e.add(false, func(v *view) {
			c := &e.deep[v.point][i]
			v.convolve(i, 1, v.value(out, 0), v.valuesFrom(op.In[0], 0), &c.w, c.bias, false, v.w)
		}, in, out)
		return
	}
	e.add(true, func(v *view) {
		y, c := v.products[i], &e.first[i]
		if !e.slopes {
			y = y[:len(y)/2]
		}
		v.convolve(i, 1, y, v.valuesFrom(in, 0), &c.w, c.bias, false, v.w)
	}, in)
	e.add(false, func(v *view) { e.combine(v, out, v.products[i], v.products[i][len(v.products[i])/2:]) }, out)
}

// product adds a dense layer.
func (e *evaluator) product(i int) {
	op, out := &e.n.program.Ops[i], ir.Value(i+1)
	if e.segments = append(e.segments, e.dense(i)); e.linear(i) {
		e.add(false, func(v *view) {
			size := op.Out[0]
			e.combine(v, out, row(e.products[i], v.example, size), row(e.products[i], e.rows+v.example, size))
		}, out)
	}
}

// size decides which values are stored and for how many rows and points.
func (e *evaluator) size() {
	p := e.n.program
	touched := make([]*segment, len(e.root))
	stored := make([]bool, len(e.root))
	for _, s := range e.segments {
		for _, v := range s.values {
			r := e.root[v]
			stored[r] = stored[r] || s.dense || touched[r] != nil && touched[r] != s
			touched[r] = s
		}
	}
	var row, rowPoint, point int // floats of a row, of a row at a point, of a point
	for v, s := range stored {
		if !s {
			continue
		}
		e.store[v] = []float32{} // its memory comes with the first run
		if e.fixed[v] {
			row += e.n.width[v]
		} else {
			rowPoint += e.n.width[v]
		}
	}
	for i := range p.Ops {
		op := &p.Ops[i]
		switch {
		case op.Kind == ir.Dense && e.linear(i):
			row += 2 * op.Out[0]
		case op.Kind == ir.Conv && !e.linear(i):
			point += e.n.convs[i].packed()
		}
	}
	e.rows = min(max(evalBytes/4/(row+rowPoint+1), 1), evalRows)
	e.group = max((evalBytes/4-e.rows*row)/(e.rows*rowPoint+point+1), 1)
}

// reserve makes the memory for a group.
func (e *evaluator) reserve(points int) {
	p := e.n.program
	for v, have := range e.store {
		if have == nil {
			continue
		}
		size := e.rows * e.n.width[v]
		if !e.fixed[v] {
			size *= points
		}
		e.store[v] = grow(have, size+slack)
	}
	for i := range p.Ops {
		if op := &p.Ops[i]; op.Kind == ir.Dense && e.store[e.root[op.In[0]]] != nil && e.linear(i) {
			e.products[i] = grow(e.products[i], 2*e.rows*op.Out[0])
		}
	}
	for len(e.deep) < points {
		e.deep = append(e.deep, make([]packedConv, len(p.Ops)))
	}
}

func grow[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}

// run fills the points' columns of losses for count rows.
func (e *evaluator) run(at, dir []float32, points []point, stride int, t *host.Table, list []int32, count int) {
	e.at, e.dir, e.table, e.list, e.stride = at, dir, t, list, stride
	e.losses = grow(e.losses, count*stride)
	e.reserve(min(e.group, len(points)))
	for len(points) > 0 {
		e.points, points = points[:min(e.group, len(points))], points[min(e.group, len(points)):]
		e.slopes = slices.ContainsFunc(e.points, func(p point) bool { return p.eta != 0 })
		e.pack()
		for e.begin = 0; e.begin < count; e.begin += e.rows {
			e.batch = min(e.rows, count-e.begin)
			for _, s := range e.segments {
				e.n.workers.do(s.tiles(), s.body)
			}
		}
	}
	e.at, e.dir, e.points, e.table, e.list = nil, nil, nil, nil, nil
}

// row is the table's row of an example of the block.
func (e *evaluator) row(example int) int32 {
	if e.list == nil {
		return int32(e.begin + example)
	}
	return e.list[e.begin+example]
}

// shift appends at − eta·dir of a stretch of the parameters; at itself if eta is 0.
func (e *evaluator) shift(dst []float32, eta float32, lo, hi int) []float32 {
	n := len(dst)
	dst = append(dst, e.at[lo:hi]...)
	if eta != 0 {
		vec.Axpy(dst[n:], -eta, e.dir[lo:hi])
	}
	return dst
}

// span is where a parameter lies in the flat vector; nowhere if there is none.
func (e *evaluator) span(param int) (lo, hi int) {
	if param == ir.None {
		return 0, 0
	}
	q := &e.n.program.Params[param]
	return q.Offset, q.Offset + q.Size()
}

// pack prepares convolutions' weights for a group: first ones' at and dir one above the other, others' shifted.
func (e *evaluator) pack() {
	ops := e.n.program.Ops
	e.n.workers.do(len(ops)*len(e.points), func(tile int, w *worker) {
		i, point := tile%len(ops), tile/len(ops)
		op := &ops[i]
		if op.Kind != ir.Conv || e.linear(i) && point > 0 {
			return
		}
		v := e.view(w)
		lo, hi := e.span(op.Weight)
		from, to := e.span(op.Bias)
		c := &e.deep[point][i]
		if e.linear(i) {
			c = &e.first[i]
			v.shifted = append(v.shifted[:0], e.at[lo:hi]...)
			c.bias = append(c.bias[:0], e.at[from:to]...)
			if e.slopes {
				v.shifted = append(v.shifted, e.dir[lo:hi]...)
				c.bias = append(c.bias, e.dir[from:to]...)
			}
		} else {
			v.shifted = e.shift(v.shifted[:0], e.points[point].eta, lo, hi)
			c.bias = e.shift(c.bias[:0], e.points[point].eta, from, to)
			e.make(i, v, point)
		}
		e.n.convs[i].pack(&c.w, v.shifted, w)
	})
}

// make computes op i's weight, where it is a function, from the parameters in v.shifted.
func (e *evaluator) make(i int, v *view, point int) {
	m := e.n.made[i]
	if m == nil {
		return
	}
	w := slices.Clone(v.shifted)
	var given [][]float32
	for _, q := range e.n.program.Ops[i].Given {
		lo, hi := e.span(q)
		given = append(given, e.shift(nil, e.points[point].eta, lo, hi))
	}
	m.of(v.shifted, w, given)
}

// view is a worker's.
func (e *evaluator) view(w *worker) *view {
	if w.view != nil {
		return w.view
	}
	p := e.n.program
	ops := len(p.Ops)
	v := &view{
		net: net{schedule: e.n.schedule, program: p, width: e.n.width, lives: e.n.lives, convs: e.n.convs, norms: make([]*normalization, ops), values: make([][]float32, ops+1), argmax: make([][]int32, ops)},
		w:   w, forward: make([]func(int, []float32, []float32, *worker), ops), products: make([][]float32, ops),
	}
	for x := range v.values {
		if r := e.root[x]; e.store[r] == nil && r == ir.Value(x) {
			v.values[x] = make([]float32, e.n.width[r]+slack)
		} else {
			v.values[x] = v.values[r]
		}
	}
	for i := range p.Ops {
		op := &p.Ops[i]
		kind := e.n.ops[i]
		if kind.memory != nil {
			kind.memory(&v.net, i, 1, 1)
		}
		if kind.example != nil {
			v.forward[i] = kind.example(&v.net, i)
		}
		if op.Kind == ir.Conv && e.linear(i) {
			v.products[i] = make([]float32, 2*ir.Size(op.Out))
		}
	}
	w.view = v
	return v
}

// bind points the stored values of a segment at their rows.
func (e *evaluator) bind(v *view, s *segment, fixed bool) {
	for _, x := range s.values {
		r := e.root[x]
		if e.store[r] == nil || e.fixed[r] != fixed {
			continue
		}
		at := v.example
		if !fixed {
			at += v.point * e.rows
		}
		v.values[x] = e.store[r][at*e.n.width[r]:]
	}
}

// block is how many examples a worker takes at a time.
func (e *evaluator) block() int { return max(evalBlock/len(e.points), 1) }

func (e *evaluator) examples(s *segment, tile int, w *worker) {
	v := e.view(w)
	for v.example = tile * e.block(); v.example < min((tile+1)*e.block(), e.batch); v.example++ {
		e.bind(v, s, true)
		for _, f := range s.once {
			f(v)
		}
		for v.point = range e.points {
			e.bind(v, s, false)
			for _, f := range s.each {
				f(v)
			}
		}
	}
}

func (e *evaluator) gather(v *view) {
	read(v.value(ir.Input, 0), e.table, e.row(v.example))
}

// combine sets a first layer's output at a point from its products.
func (e *evaluator) combine(v *view, out ir.Value, at, dir []float32) {
	y := v.value(out, 0)
	copy(y, at)
	if eta := e.points[v.point].eta; eta != 0 {
		vec.Axpy(y, -eta, dir)
	}
}

func (e *evaluator) loss(v *view) {
	p := e.n.program
	z, target := v.value(p.Logits(), 0), e.table.Targets[e.row(v.example)]
	if !p.Loss.ValidTarget(target, len(z)) {
		return
	}
	at := (e.begin+v.example)*e.stride + e.points[v.point].column
	e.losses[at] = host.Loss(p.Loss, z, target, nil)
	if len(e.predicted) > 0 {
		e.predicted[at] = int32(host.Predict(p.Loss, z))
	}
}

// dense is the segment of one dense layer: of a first one its products with at
// and with dir, of another its outputs at every point.
func (e *evaluator) dense(i int) *segment {
	op := &e.n.program.Ops[i]
	out, in, _ := op.Columns()
	first, values := e.fixed[op.In[0]], []ir.Value{op.In[0]}
	if !first {
		values = append(values, ir.Value(i+1))
	}
	weight, _ := e.span(op.Weight)
	bias, end := e.span(op.Bias)
	products := func() int {
		switch {
		case !first:
			return len(e.points)
		case e.slopes:
			return 2
		default:
			return 1
		}
	}
	body := func(tile int, w *worker) {
		which, part := tile%products(), tile/products()
		r0, r1, c0, c1 := 0, e.batch, 0, out
		if parts := e.parts(products()); e.batch >= out {
			r0, r1 = gemm.Cut(e.batch, 1, part, parts)
		} else {
			c0, c1 = gemm.Cut(out, gemm.TileN, part, parts)
		}
		if r0 == r1 || c0 == c1 {
			return
		}
		x, y := e.store[e.root[op.In[0]]], e.products[i]
		if !first {
			x, y = row(x, which, e.rows*in), e.store[e.root[i+1]]
		}
		y = row(y, which, e.rows*out)
		v := e.view(w)
		lo, hi := weight+c0*in, weight+c1*in
		var shifted, offset []float32
		switch {
		case first && which == 1:
			shifted, offset = e.dir[lo:hi], e.dir[bias:end]
		case first || e.points[which].eta == 0:
			shifted, offset = e.at[lo:hi], e.at[bias:end]
		default:
			v.shifted = e.shift(v.shifted[:0], e.points[which].eta, lo, hi)
			v.shifted = e.shift(v.shifted, e.points[which].eta, bias, end)
			shifted, offset = v.shifted[:hi-lo], v.shifted[hi-lo:]
		}
		product := gemm.RowMajor(y, e.rows, out).Slice(r0, r1, c0, c1)
		gemm.Mul(product, gemm.RowMajor(x, e.rows, in).Slice(r0, r1, 0, in), gemm.RowMajor(shifted, c1-c0, in).T(), false, &w.ws)
		if bias < end {
			for r := r0; r < r1; r++ {
				vec.AddVec(row(y, r, out)[c0:c1], offset[c0:c1])
			}
		}
	}
	return &segment{dense: true, values: values, tiles: func() int { return products() * e.parts(products()) }, body: body}
}

// line is the whole of a network that is one dense layer of one output. The logit at a point is the
// difference of products with at and with dir in float64, and is not rounded again.
func (e *evaluator) line() *segment {
	const examples = 64 // that a worker takes at a time: in a first-level cache for both products
	p := e.n.program
	op := &p.Ops[0]
	_, in, _ := op.Columns()
	lo, hi := e.span(op.Weight)
	bias, end := e.span(op.Bias)
	return &segment{
		tiles: func() int { return (e.batch + examples - 1) / examples },
		body: func(tile int, w *worker) {
			first := tile * examples
			n := min(examples, e.batch-first)
			floats := w.scratch(n*in + 2*in + 2*n)
			x, weights, z := floats[:n*in], floats[n*in:(n+2)*in], floats[(n+2)*in:]
			for b := range n {
				read(row(x, b, in), e.table, e.row(first+b))
			}
			products := 1
			copy(weights, e.at[lo:hi])
			if e.slopes {
				products = 2
				copy(weights[in:], e.dir[lo:hi])
			}
			byRow(z[:products*n], weights[:products*in], products, gemm.RowMajor(x, n, in), w)
			at, dir := z[:n], z[n:]
			if bias < end {
				for b := range at {
					at[b] += e.at[bias]
					if e.slopes {
						dir[b] += e.dir[bias]
					}
				}
			}
			for b := range n {
				target := float64(e.table.Targets[e.row(first+b)]) // of any kind: whoever reads the loss has checked it
				example := e.begin + first + b
				losses := row(e.losses, example, e.stride)
				for _, point := range e.points {
					logit := float64(at[b])
					if point.eta != 0 {
						logit -= float64(point.eta) * float64(dir[b])
					}
					losses[point.column] = host.ScalarLoss(p.Loss, logit, target)
				}
				if len(e.predicted) > 0 {
					e.predicted[example] = int32(host.Predict(p.Loss, at[b:b+1]))
				}
			}
		},
	}
}

// parts is into how many a product is cut so that all workers get as much.
func (e *evaluator) parts(products int) int {
	threads := e.n.workers.n
	a, b := threads, products
	for b > 0 {
		a, b = b, a%b
	}
	return threads / a
}

// Losses keeps a row's losses in the columns of the evaluator, the first at At, the others at the candidates.
func (n *net) Losses(sums []float64, q host.Query[float32], t *host.Table, rows []int32) {
	e := n.evaluator
	e.asked, e.again = e.asked[:0], e.again[:0]
	for i, eta := range q.Steps {
		if eta == 0 {
			e.again = append(e.again, 1+i)
		} else {
			e.asked = append(e.asked, point{eta, 1 + i})
		}
	}
	base := q.Form != device.LossSum || len(e.again) > 0
	known := base && q.Present && n.present.has(t, rows)
	if base && !known {
		e.asked = append(e.asked, point{})
	}
	stride := 1 + len(q.Steps)
	e.run(q.At, q.Dir, e.asked, stride, t, rows, len(rows))
	if base && !known && q.Present {
		n.present.note(t, rows, e.losses, stride)
	}
	for i, r := range rows {
		if !n.program.Loss.ValidTarget(t.Targets[r], n.program.Outputs()) {
			continue
		}
		losses := row(e.losses, i, stride)
		if known {
			losses[0] = n.present.rows[r].loss
		}
		for _, column := range e.again {
			losses[column] = losses[0]
		}
		q.Add(sums, losses[0], losses[1:])
	}
}

func (n *net) Score(params []float32, t *host.Table) device.Score {
	var s device.Score
	e := n.evaluator
	e.predicted = grow(e.predicted, t.Count)
	e.run(params, nil, []point{{}}, 1, t, nil, t.Count)
	for i, target := range t.Targets {
		if n.program.Loss.ValidTarget(target, n.program.Outputs()) {
			host.Tally(&s, n.program, target, e.losses[i], int(e.predicted[i]))
		}
	}
	e.predicted = e.predicted[:0]
	return s
}

func (n *net) Moved() { n.present.era++ }
