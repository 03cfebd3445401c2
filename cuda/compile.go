package cuda

import (
	"slices"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// work is one thing that a step puts on the stream: a launch, memory to be zeroed, or
// a product of cuBLAS.
type work struct {
	launch   kernels.Launch
	function driver.Function // of the launch, once it is loaded
	zero     kernels.Ptr     // 0: no memory
	words    int
	product  *driver.Product
	step     int // of the schedule, noStep for none
}

const noStep = -1

// list is the work of a step, in order. It is the one place where steps of a
// schedule become launches.
type list struct {
	net  *net
	work []work
	step int   // of the schedule, that is being put down; of several that go together the first
	err  error // the first
}

func (l *list) put(w work) {
	w.step = l.step
	l.work = append(l.work, w)
}

func (l *list) launch(k kernels.Launch) { l.put(work{launch: k}) }

// check keeps the first error.
func (l *list) check(err error) bool {
	if l.err == nil {
		l.err = err
	}
	return l.err == nil
}

func (l *list) try(k kernels.Launch, err error) {
	l.check(err)
	l.launch(k)
}

func (l *list) zero(at kernels.Ptr, bytes int) {
	l.put(work{zero: at, words: bytes / 4})
}

// chunks calls f with every chunk of a run of so many rows.
func (l *list) chunks(run kernels.Ptr, rows int, f func(kernels.Batch)) {
	for first := 0; first < rows; first += l.net.arena.chunk {
		f(kernels.Batch{Run: run, First: first, Capacity: l.net.arena.chunk})
	}
}

// gather brings a chunk of a table's rows in. A trunk does that by itself.
func (l *list) gather(b kernels.Batch, t *table) {
	a := &l.net.arena
	if a.trunk != nil {
		return
	}
	l.launch(kernels.Gather(b, t.inMemory(), a.values[ir.Input], a.targets))
}

// param is where a parameter lies in a flat vector of float32 or of 8-byte values; 0 for none.
func (l *list) param(flat kernels.Ptr, q, bytes int) kernels.Ptr {
	if q == ir.None {
		return 0
	}
	return flat + uint64(bytes*l.net.Schedule.Program.Params[q].Offset)
}

// find is the index of a step.
func (l *list) find(kind ir.StepKind, op int) int {
	return slices.IndexFunc(l.net.Schedule.Steps, func(st ir.Step) bool { return st.Kind == kind && st.Op == op })
}

// forward takes a chunk to the logits, one that was gathered or, where there is a trunk, of the table. Weights that are functions
// have been made.
func (l *list) forward(b kernels.Batch, t *table, params kernels.Ptr) {
	a, p := &l.net.arena, l.net.Schedule.Program
	defer func() { l.step = noStep }()
	first := 0
	if a.trunk != nil {
		first = a.trunk.Ops
		l.step = l.find(ir.Forward, 0)
		l.launch(kernels.TrunkForward(b, a.trunk, t.inMemory(), a.values[ir.Input], a.targets, params, a.stages))
	}
	for i := first; i < len(p.Ops); i++ {
		l.step = l.find(ir.Forward, i)
		if a.activated(p, i) { // by the op that gave its input
			continue
		}
		l.convert(b, i)
		o, does := l.at(b, i, params), a.operation(p, i)
		if act := a.after[i]; act != none {
			does.activated(l, o, p.Ops[act].Kind, a.values[act+1])
		} else {
			does.forward(l, o)
		}
	}
}

// inputGrad passes an op's δ on to its inputs. The first to write a value's δ
// overwrites what an earlier chunk left, the others add.
func (l *list) inputGrad(b kernels.Batch, i int, params kernels.Ptr, written []bool) {
	a, p := &l.net.arena, l.net.Schedule.Program
	if a.passed(p, i) {
		return
	}
	o, does := l.at(b, i, params), a.operation(p, i)
	if act := a.through[i]; act != none {
		v := p.Ops[act].In[0]
		written[v] = true
		does.through(l, o, p.Ops[act].Kind, a.deltas[v])
		return
	}
	for k, v := range o.op.In {
		home := a.deltas[v]
		if home == 0 {
			continue
		}
		if _, dx := a.input(p, i, v); dx == o.dy { // of a sum
		} else if dx == home {
			does.back(l, o, o.x[k], dx, written[v])
		} else {
			does.back(l, o, o.x[k], dx, false)
			l.launch(a.conversion(b, shapeOf(p, v), a.takes(p, i, v), a.home(v), dx, home, written[v]))
		}
		written[v] = true
	}
}

// clippedSum adds the schedule's sum over the rows of a run to dst. Where count is
// not 0 it adds the centred count of Queue.CountedSum there.
func (l *list) clippedSum(dst, count kernels.Ptr, t *table) {
	n := l.net
	a := &n.arena
	l.makeWeights(n.vectors[0], true)
	l.viewRun()
	l.chunks(a.run, n.Options.Capacity, func(b kernels.Batch) {
		l.gatherViews(b, t)
		if a.addsNorms {
			l.zero(a.norm2, a.normBytes())
		}
		c := &chunk{list: l, Batch: b, examples: a.examples(b), params: n.vectors[0], dst: dst, count: count, written: make([]bool, len(a.deltas)), went: make([]bool, len(a.deltas))}
		l.forward(c.examples, t, c.params)
		for l.step = range n.Schedule.Steps {
			c.put(n.Schedule.Steps[l.step])
		}
		l.combine(b, c.params, c.kept, a.keep, a.stored, dst)
		c.sums.launch(c, kernels.DenseSums)
		c.pixelSums.launch(c, l.math().DenseSums)
		l.step = noStep
	})
}

// chunk is records on their way from the logits to the sum, with what waits to be launched together.
type chunk struct {
	*list
	kernels.Batch                    // of records
	examples           kernels.Batch // their views
	params, dst, count kernels.Ptr
	written            []bool // by value: its δ
	went               []bool // by op: its inputs' gradients are there
	back               bool   // the trunk has gone back
	ghosts             []kernels.Ghost
	kept               []int // ops whose kept gradients are to be combined
	sums, pixelSums    denseSums
}

// put puts a step of the schedule down.
func (c *chunk) put(st ir.Step) {
	n, b := c.net, c.examples
	a, p := &n.arena, n.Schedule.Program
	switch st.Kind {
	case ir.LossGrad:
		z := p.Logits()
		last := &c.work[len(c.work)-1]
		if l, ok := kernels.LossGradBehind(last.launch, p.Loss, p.Outputs(), a.values[z], a.targets, a.deltas[z]); ok {
			last.launch = l
		} else {
			c.launch(kernels.LossGrad(b, p.Loss, p.Outputs(), a.values[z], a.targets, a.deltas[z]))
		}
		return
	case ir.Factor:
		c.factors()
		return
	}
	switch st.Kind {
	case ir.Forward: // done before
	case ir.InputGrad, ir.GradStore:
		c.goBack(st)
	case ir.GradSum:
		switch o := c.at(b, st.Op, c.params); {
		case a.inTrunk(st.Op):
			c.trunkBackward()
			c.kept = append(c.kept, st.Op)
		case a.joins(n.Schedule, st.Op):
			c.kept = append(c.kept, st.Op)
		case a.sumsAgain(n.Schedule, st.Op):
			c.sumAgain(o)
		default:
			a.operation(p, st.Op).sum(c, o)
		}
	case ir.Combine:
		if a.twice(n.Schedule, st.Op) {
			a.operation(p, st.Op).sum(c, c.at(b, st.Op, c.params))
		} else {
			c.kept = append(c.kept, st.Op)
		}
	default: // one that measures
		if o := c.at(b, st.Op, c.params); a.completes(st.Op) {
			c.gradients(o, a.again, p.OpParams(st.Op), a.norms(st.Op))
		} else {
			a.operation(p, st.Op).measures[st.Kind](c, o)
		}
	}
}

// goBack puts an op's input gradient down, or the gradients of its parameters that the schedule keeps.
func (c *chunk) goBack(st ir.Step) {
	a, s := &c.net.arena, c.net.Schedule
	switch {
	case a.inTrunk(st.Op):
		c.trunkBackward()
	case st.Kind == ir.InputGrad && c.went[st.Op]: // with its gradients
	case st.Kind == ir.InputGrad && a.joins(s, st.Op), st.Kind == ir.GradStore && !c.went[st.Op] && a.both(s.Program, st.Op):
		c.both(st.Op)
	case st.Kind == ir.InputGrad:
		c.inputGrad(c.examples, st.Op, c.params, c.written)
		c.went[st.Op] = true
	case a.twice(s, st.Op):
		a.operation(s.Program, st.Op).measures[ir.NormInstantiate](c, c.at(c.examples, st.Op, c.params))
	default:
		c.gradients(c.at(c.examples, st.Op, c.params), a.keep(st.Op), a.stored, a.norms(st.Op))
	}
}

// both puts an op's gradients and that at its input down, which one launch has.
func (c *chunk) both(i int) {
	a, s := &c.net.arena, c.net.Schedule
	v, act := a.reaches(s.Program, i)
	w := kernels.NormBack{Kept: a.keep(i), Stride: a.stored, Dx: a.deltas[v], Add: c.written[v], Through: act}
	if s.Private() {
		w.Norm2 = a.norms(i)
	}
	a.operation(s.Program, i).both(c.list, c.at(c.examples, i, c.params), w)
	c.written[v], c.went[i] = true, true
}

// reaches is the value at which the launch of an op's input gradient leaves it, and the activation that it goes through.
func (a *arena) reaches(p *ir.Program, i int) (v ir.Value, act ir.Kind) {
	if on := a.through[i]; on != none {
		return p.Ops[on].In[0], p.Ops[on].Kind
	}
	return p.Ops[i].In[0], 0
}

// both says that one launch has an op's gradients and that at its input.
func (a *arena) both(p *ir.Program, i int) bool {
	v, _ := a.reaches(p, i)
	return a.operation(p, i).both != nil && !a.completes(i) && a.takes(p, i, p.Ops[i].In[0]) == a.home(p.Ops[i].In[0]) && a.fusion.delta[v]
}

// joins says it of a plain step, which keeps these few gradients: they cost it less than another launch.
func (a *arena) joins(s *ir.Schedule, i int) bool { return !s.Private() && a.both(s.Program, i) }

// trunkBackward goes back through the trunk, once, when the gradient at its output is complete.
func (c *chunk) trunkBackward() {
	a := &c.net.arena
	if c.back {
		return
	}
	c.back = true
	delta, through := a.deltas[a.trunk.Ops], false
	if delta == 0 { // the op behind it went through the last activation
		delta, through = a.deltas[a.trunk.Ops-1], true
	}
	c.launch(kernels.TrunkBackward(c.Batch, a.trunk, a.values[ir.Input], delta, through, c.params, a.kept, a.stored, a.stages))
}

// factors turns norms into factors, measures ghost norms with them, and counts the factors of 1.
func (c *chunk) factors() {
	a, s := &c.net.arena, c.net.Schedule
	p := s.Program
	if c.net.Options.Exact {
		c.launch(kernels.GridScale(c.Batch, a.kept, a.stored, a.stored, p.Loss, p.Outputs(), a.recordTargets(), a.scale))
		return
	}
	together := min(len(c.ghosts), kernels.MostGhosts)
	for some := range slices.Chunk(c.ghosts[together:], kernels.MostGhosts) {
		c.launch(kernels.NormGhosts(c.Batch, some...))
	}
	within := kernels.Ptr(0)
	if c.count != 0 {
		within = a.within
	}
	c.launch(kernels.Factors(c.Batch, s.Clipping, a.groups, a.normParts, a.norm2, p.Loss, p.Outputs(), a.recordTargets(), a.factor, within, c.ghosts[:together]...))
	if c.count != 0 {
		c.launch(kernels.Count(c.Batch, within, c.count))
	}
}

// combine adds gradients, clipped: of each op the parameters in their order, from where keep says that the first example's lie;
// those of examples lie a stride apart. Those that lie side by side, there and in the sum, and have one factor, go together; a weight whose gradients
// are turned as they are read is the first of those that go with it.
func (l *list) combine(b kernels.Batch, params kernels.Ptr, ops []int, keep func(op int) kernels.Ptr, stride int, dst kernels.Ptr) {
	a, p := &l.net.arena, l.net.Schedule.Program
	type stretch struct {
		kept, to kernels.Ptr
		size     int
		factors  kernels.Ptr
		step     int
		turns    int // the op whose weight is turned, or ir.None
	}
	var all []stretch
	for _, i := range ops {
		kept := keep(i)
		for _, q := range p.Ops[i].Parameters() {
			s := stretch{kept, l.param(dst, q, 8), p.Params[q].Size(), a.factors(i), max(l.find(ir.Combine, i), l.find(ir.GradSum, i)), ir.None}
			if m := a.made[i]; q == p.Ops[i].Weight && m != nil && m.turns != 0 {
				s.turns = i
			}
			kept += uint64(4 * s.size)
			if n := len(all) - 1; n >= 0 && s.turns == ir.None && all[n].factors == s.factors &&
				all[n].kept+uint64(4*all[n].size) == s.kept && all[n].to+uint64(8*all[n].size) == s.to {
				all[n].size += s.size
			} else {
				all = append(all, s)
			}
		}
	}
	for _, s := range all {
		l.step = s.step
		switch {
		case l.net.Options.Exact:
			l.launch(kernels.GridCombine(b, a.scale, s.kept, stride, s.size, s.to))
		case s.turns != ir.None:
			o := l.at(b, s.turns, params)
			functions[o.op.Function].combine(l, o, a.made[o.i], l.given(o.op, params), s.factors, s.size, s.to)
		default:
			l.launch(kernels.Combine(b, s.factors, s.kept, stride, s.size, s.to))
		}
	}
}

// lossSums adds what a query asks of a run's rows to dst.
func (l *list) lossSums(dst, at, dir kernels.Ptr, t *table, q device.LossQuery) {
	n := l.net
	a, p := &n.arena, n.Schedule.Program
	z := a.values[p.Logits()]
	l.chunks(a.run, n.Options.Capacity, func(b kernels.Batch) {
		l.gather(b, t)
		row := func(i int, params kernels.Ptr) {
			l.makeWeights(params, false)
			l.forward(b, t, params)
			l.launch(kernels.Losses(b, p.Loss, p.Outputs(), z, a.targets, a.losses+uint64(8*a.chunk*i), 0))
		}
		first := kernels.FirstShare(q.Form)
		if first > 0 {
			row(0, at)
		}
		for i := range q.K {
			l.launch(kernels.Shift(a.run, i, at, dir, n.Size, a.shifted))
			row(first+i, a.shifted)
		}
		l.launch(kernels.LossShares(b, q.Form, q.K, a.losses, p.Loss, p.Outputs(), a.targets))
		l.launch(kernels.LossSums(b, a.losses+uint64(8*a.chunk*first), q.K, dst))
	})
}

// score adds up a public table; rows is a run of all of its rows.
func (l *list) score(at kernels.Ptr, t *table, rows, to kernels.Ptr) {
	a, p := &l.net.arena, l.net.Schedule.Program
	l.zero(to, kernels.ScoreBytes(p.Loss, p.Outputs()))
	l.makeWeights(at, false)
	l.chunks(rows, t.Count, func(b kernels.Batch) {
		l.gather(b, t)
		l.forward(b, t, at)
		l.launch(kernels.Losses(b, p.Loss, p.Outputs(), a.values[p.Logits()], a.targets, a.losses, a.predicted))
		l.launch(kernels.Score(b, p.Loss, p.Outputs(), a.targets, a.losses, a.predicted, to))
	})
}
