package cpu

import (
	"math"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/plan"
)

// net is one compiled schedule: an arena for a chunk of examples and the
// phases that a chunk goes through.
type net struct {
	schedule *plan.Schedule
	program  *plan.Program
	capacity int
	chunk    int
	workers  *workers

	values  [][]float32 // by plan.Value, one row an example
	deltas  [][]float32 // the loss gradient at each value; nil where nobody needs it
	shared  []bool      // value read by several ops: its delta is zeroed, then added to
	kept    []float32   // stored gradients, one row an example
	keptAt  []int       // by op, offset in a row
	stored  int
	argmax  [][]int32 // by op
	packed  []packedWeights
	columns []*columns // by op, of convolutions
	norm2   []float64
	factor  []float32
	used    []bool
	group   []float32 // the sum of some chunks of a run; nil if none has several

	forward, all []phase

	// The batch in flight, read by the phases' bodies.
	table  *host.Table
	rows   []int32 // nil: rows first, first+1, … of a public table
	first  int
	batch  int
	params []float32
	dst    []float32
	clip   float32
}

type packedWeights struct{ w, wT gemm.PackedA }

// phase is a stretch of the schedule that needs no exchange between examples
// (each) or one that works on the whole chunk (tiles).
type phase struct {
	each  []func(b int, w *worker)
	tiles func() int
	body  func(tile int, w *worker)
}

func compile(s *plan.Schedule, capacity, threads int) host.Backend[float32] {
	p := s.Program
	n := &net{schedule: s, program: p, capacity: capacity, chunk: capacity, workers: startWorkers(threads)}
	if s.Chunk > 0 {
		n.chunk = min(s.Chunk, capacity)
	}
	ops := len(p.Ops)
	n.values, n.deltas = make([][]float32, ops+1), make([][]float32, ops+1)
	n.shared = make([]bool, ops+1)
	n.keptAt, n.argmax, n.packed = make([]int, ops), make([][]int32, ops), make([]packedWeights, ops)
	n.columns = make([]*columns, ops)
	for i := range p.Ops {
		if p.Ops[i].Kind == plan.Conv {
			n.columns[i] = newColumns(&p.Ops[i])
		}
	}
	n.norm2, n.factor, n.used = make([]float64, n.chunk), make([]float32, n.chunk), make([]bool, n.chunk)
	readers, need := p.Consumers(), p.NeedsGrad()
	for v := range n.values {
		size := n.chunk * p.ValueSize(plan.Value(v))
		n.shared[v] = readers[v] > 1
		if v > 0 {
			// An activation's derivative is a function of its output, so it
			// may overwrite an input that nobody else reads, unless that is
			// another activation's output.
			op := &p.Ops[v-1]
			in := op.In[0]
			if op.Kind.Activation() && readers[in] == 1 && in != plan.Input && !p.Ops[in-1].Kind.Activation() {
				n.values[v], n.deltas[v] = n.values[in], n.deltas[in]
				continue
			}
			if op.Kind == plan.MaxPool {
				n.argmax[v-1] = make([]int32, size)
			}
		}
		n.values[v] = make([]float32, size)
		if need[v] {
			n.deltas[v] = make([]float32, size)
		}
	}
	for _, st := range s.Steps {
		if st.Kind == plan.GradStore {
			n.keptAt[st.Op] = n.stored
			n.stored += paramCount(p, &p.Ops[st.Op])
		}
	}
	n.kept = make([]float32, n.chunk*n.stored)
	if n.chunk < capacity {
		n.group = make([]float32, p.NumParams())
	}
	n.build()
	return n
}

func paramCount(p *plan.Program, op *plan.Op) int {
	c := p.Params[op.Weight].Size()
	if op.Bias != plan.None {
		c += p.Params[op.Bias].Size()
	}
	return c
}

// build turns the steps into phases, fusing neighbours that treat each
// example by itself: one example then stays in cache through all of them.
func (n *net) build() {
	n.forward = []phase{{each: []func(int, *worker){n.gather}}}
	for _, st := range n.schedule.Steps {
		if st.Kind == plan.Forward {
			n.forward = join(n.forward, n.compileStep(st)...)
		}
	}
	n.all = n.phases(func(_ int, p phase) phase { return p })
}

// phases are those of the whole schedule, each step's changed by wrap.
func (n *net) phases(wrap func(step int, p phase) phase) []phase {
	all := []phase{{each: []func(int, *worker){n.gather}}}
	for i, st := range n.schedule.Steps {
		for _, p := range n.compileStep(st) {
			all = join(all, wrap(i, p))
		}
	}
	return all
}

func join(phases []phase, more ...phase) []phase {
	for _, m := range more {
		if last := &phases[len(phases)-1]; m.each != nil && last.each != nil {
			last.each = append(last.each, m.each...)
			continue
		}
		phases = append(phases, m)
	}
	return phases
}

func (n *net) compileStep(st plan.Step) []phase {
	each := func(f func(int, *worker)) []phase { return []phase{{each: []func(int, *worker){f}}} }
	switch st.Kind {
	case plan.LossGrad:
		return each(n.lossGrad)
	case plan.Factor:
		return []phase{{each: []func(int, *worker){n.setFactor, n.applyFactors()}}}
	}
	op := &n.program.Ops[st.Op]
	dense := op.Kind == plan.Dense
	switch st.Kind {
	case plan.Forward:
		if dense {
			return []phase{n.denseForward(st.Op)}
		}
		return each(n.forwardOp(st.Op))
	case plan.InputGrad:
		if dense {
			return []phase{n.denseInputGrad(st.Op)}
		}
		return each(n.inputGradOp(st.Op))
	case plan.NormGhost:
		return each(n.normGhost(st.Op))
	case plan.NormGram:
		return each(n.normGram(st.Op))
	case plan.NormInstantiate:
		return each(n.normInstantiate(st.Op))
	case plan.GradStore:
		if dense {
			return each(n.denseStore(st.Op))
		}
		return each(n.convStore(st.Op))
	case plan.Combine:
		return []phase{n.combine(st.Op)}
	default: // plan.GradSum
		if dense {
			return n.denseGradSum(st.Op)
		}
		return n.convGradSum(st.Op)
	}
}

// eachBlock is how many examples a worker takes at a time.
const eachBlock = 4

func (n *net) run(phases []phase) {
	for i := range phases {
		p := &phases[i]
		if p.each == nil {
			n.workers.do(p.tiles(), p.body)
			continue
		}
		n.workers.do((n.batch+eachBlock-1)/eachBlock, func(tile int, w *worker) {
			for b := tile * eachBlock; b < min((tile+1)*eachBlock, n.batch); b++ {
				for _, f := range p.each {
					f(b, w)
				}
			}
		})
	}
}

// value and delta are one example's row of a value.
func (n *net) value(v plan.Value, b int) []float32 {
	return row(n.values[v], b, n.program.ValueSize(v))
}
func (n *net) delta(v plan.Value, b int) []float32 {
	return row(n.deltas[v], b, n.program.ValueSize(v))
}

func row[T any](x []T, b, size int) []T { return x[b*size : (b+1)*size : (b+1)*size] }

// weight and bias are an op's parameters, or nil.
func (n *net) param(flat []float32, q int) []float32 {
	if q == plan.None {
		return nil
	}
	return flat[n.program.Params[q].Offset:][:n.program.Params[q].Size()]
}

func (n *net) gather(b int, _ *worker) {
	r := int32(n.first + b)
	if n.rows != nil {
		r = n.rows[n.first+b]
	}
	vec.Bytes(n.value(plan.Input, b), n.table.Row(r), n.table.Scale, n.table.Offset)
	n.norm2[b] = 0
}

func (n *net) target(b int) float32 {
	if n.rows != nil {
		return n.table.Targets[n.rows[n.first+b]]
	}
	return n.table.Targets[n.first+b]
}

func (n *net) lossGrad(b int, _ *worker) {
	for v, s := range n.shared {
		if s && n.deltas[v] != nil {
			clear(n.delta(plan.Value(v), b))
		}
	}
	z := n.program.Logits()
	d := n.delta(z, b)
	n.used[b] = n.program.Loss.ValidTarget(n.target(b), len(d))
	if n.used[b] {
		host.Loss(n.program.Loss, n.value(z, b), n.target(b), d)
	} else {
		clear(d)
	}
}

func (n *net) setFactor(b int, _ *worker) {
	n.factor[b] = 1
	if !n.schedule.Private() {
		return
	}
	if x := n.norm2[b]; math.IsNaN(x) || math.IsInf(x, 0) {
		n.used[b] = false
	} else {
		n.factor[b] = device.Factor(n.clip, math.Sqrt(x))
	}
}

// applyFactors prepares an example for the sums that are matrix products over
// the batch: δ is scaled, and an example that counts as zero is zeroed on both
// sides, since 0·NaN would not be. Sums of convolutions see factors themselves.
func (n *net) applyFactors() func(int, *worker) {
	var outs, ins []plan.Value
	for _, st := range n.schedule.Steps {
		if st.Kind == plan.GradSum && n.program.Ops[st.Op].Kind == plan.Dense {
			outs = append(outs, plan.Value(st.Op+1))
			ins = append(ins, n.program.Ops[st.Op].In[0])
		}
	}
	return func(b int, _ *worker) {
		if !n.used[b] {
			for i := range outs {
				clear(n.delta(outs[i], b))
				clear(n.value(ins[i], b))
			}
			return
		}
		if f := n.factor[b]; f != 1 {
			for _, v := range outs {
				vec.Scale(n.delta(v, b), f)
			}
		}
	}
}

func (n *net) ClippedSum(dst, params []float32, t *host.Table, rows []int32, clip float32) {
	n.dst, n.params, n.table, n.rows, n.clip = dst, params, t, rows, clip
	n.pack(true)
	n.first = 0
	switch n.batch = len(rows); {
	case n.batch == 0:
	case n.batch <= n.chunk:
		n.run(n.all)
	default:
		n.sumChunks(dst, len(rows))
	}
	n.release()
}

// chunkGroup is how many chunks are summed on their own before they join the
// others, so that rounding does not grow with the number of chunks.
const chunkGroup = 24

func (n *net) sumChunks(dst []float32, rows int) {
	n.dst = n.group
	for n.first = 0; n.first < rows; {
		clear(n.group)
		for range chunkGroup {
			if n.batch = min(n.chunk, rows-n.first); n.batch > 0 {
				n.run(n.all)
				n.first += n.batch
			}
		}
		n.flat(len(dst), func(lo, hi int, _ *worker) { vec.AddVec(dst[lo:hi], n.group[lo:hi]) })
	}
}

func (n *net) Score(params []float32, t *host.Table) device.Score {
	var s device.Score
	n.evaluate(params, t, nil, t.Count, func(z []float32, target float32) {
		if n.program.Loss.ValidTarget(target, len(z)) {
			host.Tally(&s, n.program.Loss, z, target)
		}
	})
	return s
}

func (n *net) Losses(params []float32, t *host.Table, rows []int32, clip float32) float64 {
	sum := 0.0
	n.evaluate(params, t, rows, len(rows), func(z []float32, target float32) {
		sum += host.ClippedLoss(n.program.Loss, z, target, clip)
	})
	return sum
}

// evaluate runs rows (nil: the first count) forward and visits their logits in
// order.
func (n *net) evaluate(params []float32, t *host.Table, rows []int32, count int, visit func(z []float32, target float32)) {
	n.params, n.table, n.rows = params, t, rows
	n.pack(false)
	for n.first = 0; n.first < count; n.first += n.chunk {
		n.batch = min(n.chunk, count-n.first)
		n.run(n.forward)
		for b := range n.batch {
			visit(n.value(n.program.Logits(), b), n.target(b))
		}
	}
	n.release()
}

// release drops references into the caller's memory.
func (n *net) release() { n.dst, n.params, n.table, n.rows = nil, nil, nil, nil }

// pack prepares the convolutions' weights, once a run.
func (n *net) pack(backward bool) {
	for i := range n.program.Ops {
		op := &n.program.Ops[i]
		if op.Kind != plan.Conv {
			continue
		}
		out, k, _ := op.Columns()
		w := gemm.RowMajor(n.param(n.params, op.Weight), out, k)
		gemm.PackA(&n.packed[i].w, w)
		if backward && n.deltas[op.In[0]] != nil {
			gemm.PackA(&n.packed[i].wT, w.T())
		}
	}
}

// flatBlock is how many parameters a worker takes at a time in the passes
// over the flat vector; even, as normals come in pairs.
const flatBlock = 8192

func (n *net) flat(size int, f func(lo, hi int, w *worker)) {
	n.workers.do((size+flatBlock-1)/flatBlock, func(tile int, w *worker) {
		f(tile*flatBlock, min((tile+1)*flatBlock, size), w)
	})
}

func (n *net) Release(dst, src []float32, std float32, noise device.Noise, draw uint64) {
	if std == 0 {
		copy(dst, src)
		return
	}
	n.flat(len(dst), func(lo, hi int, w *worker) {
		if w.normals == nil {
			w.normals = make([]float64, flatBlock)
		}
		z := w.normals[:hi-lo]
		noise.Stream().Normals(z, draw, noise.Tensor(), lo)
		for i, x := range src[lo:hi] {
			dst[lo+i] = float32(float64(x) + float64(std)*z[i])
		}
	})
}

func (n *net) Update(r device.Rule, s *[device.Slots]float32, p, g []float32, state [][]float32) {
	n.flat(len(p), func(lo, hi int, _ *worker) {
		switch r {
		case device.HeavyBall:
			heavyBall(s, p[lo:hi], g[lo:hi], state[0][lo:hi])
		case device.Adam:
			adam(s, p[lo:hi], g[lo:hi], state[0][lo:hi], state[1][lo:hi])
		default:
			sgd(s, p[lo:hi], g[lo:hi])
		}
	})
}

func sgd(s *[device.Slots]float32, p, g []float32) {
	scale, rate, l2 := s[device.Scale], s[device.Rate], s[device.L2]
	for i, x := range p {
		p[i] = x - rate*(g[i]*scale+l2*x)
	}
}

func heavyBall(s *[device.Slots]float32, p, g, m []float32) {
	scale, rate, l2, momentum := s[device.Scale], s[device.Rate], s[device.L2], s[device.Momentum]
	for i, x := range p {
		m[i] = momentum*m[i] + (g[i]*scale + l2*x)
		p[i] = x - rate*m[i]
	}
}

func adam(s *[device.Slots]float32, p, g, m, v []float32) {
	scale, rate, l2 := s[device.Scale], s[device.Rate], s[device.L2]
	b1, b2, c1, c2, eps := s[device.Beta1], s[device.Beta2], s[device.Bias1], s[device.Bias2], s[device.Epsilon]
	for i, x := range p {
		d := g[i]*scale + l2*x
		m[i] = b1*m[i] + (1-b1)*d
		v[i] = b2*v[i] + (1-b2)*d*d
		p[i] = x - rate*(m[i]/c1)/(float32(math.Sqrt(float64(v[i]/c2)))+eps)
	}
}

func (n *net) Close() { n.workers.stop() }
