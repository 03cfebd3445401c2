package cpu

import (
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/pages"
)

// net is one compiled schedule.
type net struct {
	schedule *ir.Schedule
	program  *ir.Program
	capacity int
	views    int // of each record, which are examples one after the other
	chunk    int // records
	workers  *workers

	width    []int                               // by ir.Value, floats of an example
	values   [][]float32                         // by ir.Value, rows of place
	deltas   [][]float32                         // the loss gradient at each value; nil where nobody needs it
	lives    struct{ values, deltas []lifetime } // what pools pick lives for a stretch
	flights  []flight                            // by example, where it goes through the network; nil where every example has rows of its own
	inFlight int                                 // examples on their way at a time, at most
	shared   []bool                              // value read by several ops: its delta is zeroed, then added to
	kept     []float32                           // stored gradients, one row an example
	keptAt   []int                               // by op, offset in a row of kept, or of a worker's where passing
	stored   int
	passing  []bool    // by op: each example's gradient goes straight into the partial sum of its unit
	passed   int       // values of a partial sum
	unit     int       // examples of a partial sum
	group    int       // records whose gradients a worker keeps at a time, on their way into partial sums
	parts    []float32 // partial sums, one row a unit
	argmax   [][]int32 // by op
	convs    []*convolution
	norms    []*normalization
	ops      []operation   // by op
	behind   [][]int       // by op: its parameters behind the weight
	made     []*made       // by op: its weight, where that is a function of parameters, else nil
	dense    []packedDense // by op
	stretch  int           // examples that go through the network at a time, at most
	packing  [3][]func()   // tiles that make and pack weights, those of one list before those of the next
	packs    [3]func(tile int, w *worker)
	clipper  *host.Clipper
	losses   []float64 // by example
	norm2    []float64 // one row an example, by group of the clipping
	factor   []float32 // likewise
	used     []bool
	exact    *exactSum // of an exact net
	ofChunks []float32 // the sum of some chunks of a run; nil if none has several

	all       []phase
	evaluator *evaluator
	present   present

	// The batch in flight, read by the phases' bodies.
	table  *host.Table
	rows   []int32
	words  []uint32 // of views, a record's one after the other
	first  int
	batch  int
	ends   []int // of its stretches, behind a 0
	params []float32
	dst    []float32
	clip   float32
	within float64 // the centred count so far

	applying struct { // the pass in flight
		release *host.Release[float32]
		update  *host.Update[float32]
	}
	apply func(tile int, w *worker)

	projecting projecting
	project    func(tile int, w *worker)
}

func compile(s *ir.Schedule, o device.Options, threads int) *net {
	p := reorder(s.Program)
	n := &net{schedule: s, program: p, capacity: o.Capacity, views: s.Views(), chunk: o.Capacity, group: 1}
	if s.Chunk > 0 {
		n.chunk = min(s.Chunk, o.Capacity)
	}
	if o.Exact {
		n.exact = new(exactSum)
	}
	ops := len(p.Ops)
	n.width = make([]int, ops+1)
	n.values, n.deltas = make([][]float32, ops+1), make([][]float32, ops+1)
	n.shared, n.flights = make([]bool, ops+1), make([]flight, n.views*n.chunk)
	n.keptAt, n.argmax, n.passing = make([]int, ops), make([][]int32, ops), make([]bool, ops)
	n.norms, n.ops, n.behind, n.made = make([]*normalization, ops), make([]operation, ops), make([][]int, ops), make([]*made, ops)
	for i := range p.Ops {
		n.ops[i] = operations[p.Ops[i].Kind]
		if all := p.Ops[i].Parameters(); len(all) > 0 {
			n.behind[i] = all[1:]
		}
	}
	n.clipper = host.NewClipper(s)
	groups := n.chunk * n.clipper.Groups
	n.norm2, n.factor, n.used = make([]float64, groups), make([]float32, groups), make([]bool, n.chunk)
	n.losses = make([]float64, n.views*n.chunk)
	readers, need := p.Consumers(), needsGrad(s, p)
	n.planConvs(readers, need)
	n.planStretch()
	n.planLives(readers)
	n.inFlight = n.views * min(threads*n.stretch, n.chunk)
	rows := map[lifetime]int{untilSums: n.views * n.chunk, forStretch: n.inFlight, forExample: threads}
	for v := range n.values {
		n.width[v] = p.ValueSize(ir.Value(v))
		n.shared[v] = readers[v] > 1
		if in := n.overwritten(ir.Value(v), readers); in != ir.Value(v) {
			n.values[v], n.deltas[v] = n.values[in], n.deltas[in]
			continue
		}
		if v > 0 && n.ops[v-1].memory != nil {
			n.ops[v-1].memory(n, v-1, n.views*n.chunk, n.inFlight)
		}
		n.values[v] = pages.Make[float32](rows[n.lives.values[v]]*n.width[v] + slack)
		if need[v] && !n.onlyPicked(v, need) {
			n.deltas[v] = pages.Make[float32](rows[n.lives.deltas[v]]*n.width[v] + slack)
		}
	}
	n.dense = make([]packedDense, ops)
	n.makeWeights()
	n.packDense()
	n.packConvs()
	for i := range n.packing {
		n.packs[i] = func(tile int, _ *worker) { n.packing[i][tile]() }
	}
	n.placeGradients()
	n.ends = make([]int, 0, n.units(n.chunk)+1)
	n.workers = startWorkers(threads, n.prepare)
	if n.chunk < o.Capacity && n.exact == nil {
		n.ofChunks = make([]float32, p.NumParams())
	}
	n.build(func(_ int, p phase) phase { return p })
	n.apply, n.project = n.applyBlock, n.projectBlock
	n.evaluator = newEvaluator(n)
	return n
}

// needsGrad says for every value whether a schedule takes gradients back to it.
func needsGrad(s *ir.Schedule, p *ir.Program) []bool {
	if slices.ContainsFunc(s.Steps, func(st ir.Step) bool { return st.Kind == ir.LossGrad }) {
		return p.NeedsGrad()
	}
	return make([]bool, len(p.Ops)+1)
}

// planConvs plans the convolutions, given how many ops read each value, and whose gradient is needed.
func (n *net) planConvs(readers []int, need []bool) {
	ops := n.program.Ops
	n.convs = make([]*convolution, len(ops))
	for i := range ops {
		if op := &ops[i]; op.Kind == ir.Conv {
			n.convs[i] = newConvolution(op, need[op.In[0]])
		}
	}
	for _, st := range n.schedule.Steps {
		if st.Kind == ir.NormGram { // its bound is of this order of additions
			n.convs[st.Op].byTaps = true
		}
	}
	for i, c := range n.convs {
		if next := i + 1; c != nil && next < len(ops) && ops[next].In[0] == ir.Value(next) && readers[next] == 1 {
			c.relu = ops[next].Kind == ir.ReLU
			c.planPicks(&ops[next])
		}
	}
}

// planStretch decides how many examples go through the network at a time.
func (n *net) planStretch() {
	convolutions, weights := false, n.transformed()
	for i := range n.program.Ops {
		switch op := &n.program.Ops[i]; op.Kind {
		case ir.Conv:
			convolutions = true
		case ir.Dense:
			weights += 2 * n.program.OpParams(i) // forwards and back
		}
	}
	if n.stretch = inCache; !convolutions || weights > largeWeights {
		n.stretch = mostRows
	}
	n.stretch = max(n.stretch/n.views, 1)
}

// overwritten is the value whose memory v takes: an activation's derivative is a function of its output, which may overwrite an
// input that nobody else reads and that is no other activation's output. For all others it is v itself.
func (n *net) overwritten(v ir.Value, readers []int) ir.Value {
	if v == ir.Input {
		return v
	}
	op := &n.program.Ops[v-1]
	in := op.In[0]
	if op.Kind.Activation() && readers[in] == 1 && in != ir.Input && !n.program.Ops[in-1].Kind.Activation() {
		return in
	}
	return v
}

// A lifetime says how long an example's row of a value is needed. Rows that are used again soon stay in cache.
type lifetime int

const (
	forStretch lifetime = iota // while its stretch goes through the network: a row for each of the stretches in flight
	forExample                 // by the next op alone: a row a worker
	untilSums                  // by a product over the chunk: a row an example
)

// A flight is an example's way through the network: the worker, and its row of all rows in flight.
type flight struct{ worker, row int }

// planLives decides it for values and deltas. What a product over the chunk sums up lives until then.
func (n *net) planLives(readers []int) {
	ops := n.program.Ops
	values, deltas := make([]lifetime, len(ops)+1), make([]lifetime, len(ops)+1)
	for _, st := range n.schedule.Steps {
		if st.Kind == ir.GradSum && n.byProduct(st.Op) {
			values[n.overwritten(ops[st.Op].In[0], readers)] = untilSums
			deltas[n.overwritten(ir.Value(st.Op+1), readers)] = untilSums
		}
	}
	for v := range values {
		// Outputs of a convolution that a max pooling reads, example by example: the gradient needs only what it picked.
		if v > 0 && v < len(ops) && n.convs[v-1] != nil && n.convs[v-1].together() == 1 &&
			ops[v].Kind == ir.MaxPool && ops[v].In[0] == ir.Value(v) && readers[v] == 1 {
			values[v] = forExample
		}
	}
	for v := range values {
		in := n.overwritten(ir.Value(v), readers)
		values[v], deltas[v] = values[in], deltas[in]
	}
	n.lives.values, n.lives.deltas = values, deltas
}

// onlyPicked: v is outputs whose gradient nobody reads but at what a max pooling picked.
func (n *net) onlyPicked(v int, need []bool) bool {
	return v > 0 && n.convs[v-1] != nil && n.convs[v-1].picks != nil && !need[n.convs[v-1].op.In[0]]
}

// instantiated is the size of the largest gradient that is computed and not kept.
func (n *net) instantiated() int {
	most := 0
	for _, st := range n.schedule.Steps {
		if st.Kind == ir.NormGram || st.Kind == ir.NormInstantiate || st.Kind == ir.GradSum && !n.byProduct(st.Op) && !n.grows(st.Op) {
			most = max(most, n.program.OpParams(st.Op))
		}
	}
	return most
}

// reorder pools before it activates: fewer values are left to activate. Where the activation
// makes equals of different values, the gradient goes to the one that was the largest; on a
// ReLU's constant stretch it is zero either way.
func reorder(p *ir.Program) *ir.Program {
	q := *p
	q.Ops = slices.Clone(p.Ops)
	readers := p.Consumers()
	for i := range len(q.Ops) - 1 {
		act, pool := &q.Ops[i], &q.Ops[i+1]
		if !act.Kind.Activation() || pool.Kind != ir.MaxPool || pool.In[0] != ir.Value(i+1) || readers[i+1] != 1 {
			continue
		}
		a, b := *act, *pool
		b.In, a.In = a.In, b.In
		a.Shape, a.Out = b.Out, b.Out
		*act, *pool = b, a
	}
	return &q
}

// placeGradients keeps single gradients in memory, or with a worker where each can go into a sum at once.
func (n *net) placeGradients() {
	if n.exact != nil {
		n.placeExact()
		return
	}
	p, s := n.program, n.schedule
	may := s.Passing()
	for _, st := range s.Steps {
		switch {
		case st.Kind == ir.GradStore && may[st.Op],
			st.Kind == ir.GradSum && !n.byProduct(st.Op) && !n.passing[st.Op]:
			n.passing[st.Op] = true
			n.keptAt[st.Op] = n.passed
			n.passed += p.OpParams(st.Op)
		case st.Kind == ir.GradStore:
			n.keptAt[st.Op] = n.stored
			n.stored += p.OpParams(st.Op)
		}
	}
	n.kept = pages.Make[float32](n.chunk * n.stored)
	n.unit = unitOf(n.chunk, n.passed)
	if n.lastOfSeveral() >= 0 {
		n.group = groupOf
	}
	n.parts = pages.Make[float32](n.units(n.chunk) * n.passed)
}

// groupOf is how many records' gradients a worker keeps where it computes all of them behind what takes several records
// together: the weights and sums that it reads for one record are then in cache for the next.
const groupOf = 2

// Examples pass into partial sums in units: enough of them to share out the work, few enough for little memory.
const leastUnit = 8

// mostParts is how many values all partial sums have together; a variable so that tests can make units large.
var mostParts = 32 << 20

// unitOf is the unit of a chunk whose partial sums have so many values.
func unitOf(chunk, values int) int {
	unit := leastUnit
	for units(chunk, unit)*values > mostParts && unit < chunk {
		unit *= 2
	}
	return unit
}

func (n *net) units(examples int) int { return units(examples, n.unit) }

func units(examples, unit int) int { return (examples + unit - 1) / unit }

// prepare gives a worker its memory.
func (n *net) prepare(w *worker) {
	w.images, w.gradients = make([][]float32, len(n.convs)), make([][]float32, len(n.convs))
	for i, c := range n.convs {
		if c != nil {
			w.images[i], w.gradients[i] = make([]float32, c.together()*c.x.scratch()), make([]float32, c.together()*c.dy.scratch())
		}
	}
	w.kept = pages.Make[float32](n.group * n.passed)
	w.gradient = pages.Make[float32](n.instantiated())
	if n.exact != nil {
		n.prepareExact(w)
	}
}

// value and delta are one example's row of a value, and picked that of what a pool picked.
func (n *net) value(v ir.Value, b int) []float32 { return n.valuesFrom(v, b)[:n.width[v]:n.width[v]] }
func (n *net) delta(v ir.Value, b int) []float32 { return n.deltasFrom(v, b)[:n.width[v]:n.width[v]] }
func (n *net) picked(op, b int) []int32 {
	return row(n.argmax[op], n.place(forStretch, b), n.width[op+1])
}

// valuesFrom and deltasFrom are an example's row and all that follows it.
func (n *net) valuesFrom(v ir.Value, b int) []float32 {
	return n.values[v][n.place(n.lives.values[v], b)*n.width[v]:]
}
func (n *net) deltasFrom(v ir.Value, b int) []float32 {
	return n.deltas[v][n.place(n.lives.deltas[v], b)*n.width[v]:]
}

// place is the number of example b's row among those of a lifetime.
func (n *net) place(l lifetime, b int) int {
	switch {
	case n.flights == nil || l == untilSums:
		return b
	case l == forExample:
		return n.flights[b].worker
	}
	return n.flights[b].row
}

func row[T any](x []T, b, size int) []T { return x[b*size : (b+1)*size : (b+1)*size] }

// param is where a parameter lies in a flat vector; nil if there is none.
func (n *net) param(flat []float32, q int) []float32 {
	if q == ir.None {
		return nil
	}
	return flat[n.program.Params[q].Offset:][:n.program.Params[q].Size()]
}

const (
	// A row is asked for so many examples ahead: an MLP reads one in some 50 ns.
	prefetched = 4
	// Before that, the pages of so many rows are looked up: lookups wait for memory at the same time. This helps where a
	// worker reads long stretches of rows, as in an MLP.
	lookedUp = 16
)

// gather reads an example: a record, as its table has it, and what the maps of views make of it.
func (n *net) gather(b int, w *worker) {
	r := b / n.views
	at, end := n.first+r, len(n.rows)
	if b != r*n.views { // another view of a row that is in the cache, or of the next one
		read(n.value(ir.Input, b), n.table, n.row(b))
		n.augment(b, w)
		return
	}
	if r%lookedUp == 0 {
		for _, unit := range n.rows[min(at+lookedUp, end):min(at+2*lookedUp, end)] {
			prefetch(n.table, n.schedule.Row(unit, 0), 1)
		}
	}
	if next := at + prefetched; next < end {
		prefetch(n.table, n.schedule.Row(n.rows[next], 0), mostPrefetched)
	}
	read(n.value(ir.Input, b), n.table, n.row(b))
	n.augment(b, w)
	clear(row(n.norm2, r, n.clipper.Groups))
}

// augment applies the maps of a view.
func (n *net) augment(b int, w *worker) {
	if len(n.words) == 0 {
		return
	}
	x := n.value(ir.Input, b)
	maps.ApplyView(x, n.schedule.Augment, host.View[float32]{Shape: n.program.Shape, Word: n.words[n.first*n.views+b], Scratch: w.scratch(len(x))})
}

// examples is how many go through the network in a chunk.
func (n *net) examples() int { return n.batch * n.views }

// row is an example's row of the table.
func (n *net) row(b int) int32 { return n.schedule.Row(n.rows[n.first+b/n.views], b%n.views) }

func (n *net) target(b int) float32 { return n.table.Targets[n.row(b)] }

func (n *net) lossGrad(b int, _ *worker) {
	for v, s := range n.shared {
		if s && n.deltas[v] != nil {
			clear(n.delta(ir.Value(v), b))
		}
	}
	for _, norm := range n.norms {
		if norm != nil && norm.summed != nil {
			norm.summed[n.place(forStretch, b)] = false
		}
	}
	z := n.program.Logits()
	d := n.delta(z, b)
	used := n.program.Loss.ValidTarget(n.target(b), len(d))
	if b%n.views == 0 {
		n.used[b/n.views] = used
	}
	if !used {
		clear(d)
		return
	}
	n.losses[b] = host.Loss(n.program.Loss, n.value(z, b), n.target(b), d)
	if n.program.ClassWeights != nil {
		vec.Scale(d, n.program.Weight(n.target(b)))
	}
	if n.views > 1 {
		vec.Scale(d, 1/float32(n.views)) // a record's gradient is the mean of its views'
	}
}

func (n *net) setFactor(b int, _ *worker) {
	g := n.clipper.Groups
	n.used[b] = host.Factors(n.clipper, row(n.factor, b, g), row(n.norm2, b, g), n.clip) && n.used[b]
}

// measured adds to the squared norm of record b that op i counts towards.
func (n *net) measured(i, b int, norm2 float64) {
	n.norm2[b*n.clipper.Groups+n.clipper.Group(i)] += norm2
}

// factorOf is what record b's gradient of op i is multiplied by.
func (n *net) factorOf(i, b int) float32 {
	return n.factor[b*n.clipper.Groups+n.clipper.Group(i)]
}

// applyFactors prepares an example for the sums that are matrix products over
// the batch: δ is scaled, and an example that counts as zero is zeroed on both
// sides, since 0·NaN would not be.
func (n *net) applyFactors() func(int, *worker) {
	var ops []int
	for _, st := range n.schedule.Steps {
		if st.Kind == ir.GradSum && n.byProduct(st.Op) {
			ops = append(ops, st.Op)
		}
	}
	return func(r int, _ *worker) {
		for b := n.views * r; b < n.views*(r+1); b++ {
			n.applyFactor(ops, r, b)
		}
	}
}

// applyFactor prepares an example of record r.
func (n *net) applyFactor(ops []int, r, b int) {
	// Automatic clipping may scale δ up. Where that overflows, the inputs are
	// next to nothing, and ∞·0 must not enter the sum.
	for _, i := range ops {
		if f := n.factorOf(i, r); f > 1 && !(float64(f)*math.Sqrt(vec.SumSquares(n.delta(ir.Value(i+1), b))) <= math.MaxFloat32) {
			n.used[r] = false
		}
	}
	if !n.used[r] {
		for _, i := range ops {
			clear(n.delta(ir.Value(i+1), b))
			clear(n.value(n.program.Ops[i].In[0], b))
		}
		return
	}
	for _, i := range ops {
		if f := n.factorOf(i, r); f != 1 {
			vec.Scale(n.delta(ir.Value(i+1), b), f)
		}
	}
}

func (n *net) ClippedSum(dst, params []float32, t *host.Table, batch host.Batch, clip float32) float64 {
	rows := batch.Rows
	n.dst, n.params, n.table, n.rows, n.words, n.clip = dst, params, t, rows, batch.Words, clip
	n.pack()
	n.within = 0
	if len(rows) <= n.chunk || n.exact != nil {
		n.sumChunks(len(rows), len(rows))
	} else {
		for n.dst = n.ofChunks; n.first < len(rows); {
			clear(n.ofChunks)
			n.sumChunks(len(rows), chunkGroup(n.chunk))
			vec.AddVec(dst, n.ofChunks)
		}
	}
	n.dst, n.params, n.table, n.rows, n.words, n.first = nil, nil, nil, nil, nil, 0 // the caller's memory
	return n.within
}

// sumChunks adds the chunks up to row end, at most so many, to n.dst.
func (n *net) sumChunks(end, most int) {
	for ; most > 0 && n.first < end; most-- {
		n.batch = min(n.chunk, end-n.first)
		n.run(n.all)
		if n.exact != nil {
			n.check()
		}
		if n.views == 1 && len(n.words) == 0 { // losses of records as they are
			n.present.note(n.table, n.rows[n.first:n.first+n.batch], n.losses, 1)
		}
		for b, used := range n.used[:n.batch] {
			if used {
				n.within += host.Within(n.factor[b*n.clipper.Groups])
			}
		}
		n.first += n.batch
	}
}

// chunkGroup is how many chunks are summed on their own before they join the others, which
// keeps rounding small: few where a chunk adds to the sum many times (denseGradSum).
func chunkGroup(chunk int) int {
	const additions = 24
	return max(additions/((chunk+rowBlock-1)/rowBlock), 2)
}

// pack prepares the weights, once a run.
func (n *net) pack() {
	for i, tiles := range n.packing {
		n.workers.do(len(tiles), n.packs[i])
	}
}

func (n *net) Close() { n.workers.stop() }
