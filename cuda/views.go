package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

// Where a record has several views, each goes through the network as an example, and a record's gradient is the mean of its
// views': it is made before its norm is taken. So launches of values and deltas have a batch of examples, and all others one of
// records (kernels.ViewRun).

// words is how many random words a run brings for each row.
func words(s *ir.Schedule) int {
	if len(s.Augment) == 0 {
		return 0
	}
	return s.Views()
}

// views are what the arena has for records of several views.
type views struct {
	each    int         // views of a record
	run     kernels.Ptr // the examples of a run of records; like what follows nothing where each is 1
	targets kernels.Ptr // of records
	single  kernels.Ptr // the gradients of the views of so many records, of one op
	atOnce  int
}

// layViews makes room beside that for examples.
func (a *arena) layViews(s *ir.Schedule, capacity int) {
	a.views = views{each: s.Views()}
	v := &a.views
	if v.each == 1 {
		return
	}
	a.take(&v.run, kernels.ViewRunBytes(v.each*capacity, min(words(s), 1)))
	a.take(&v.targets, 4*a.chunk)
	// As many rows as there are records, unless these are few. Four examples of any size begin where vectors do.
	v.atOnce = min(max(a.chunk/(4*v.each)*4, 4), a.chunk)
	rows, size, norms := v.each*v.atOnce, 0, 0
	for i := range s.Program.Ops {
		if op := &s.Program.Ops[i]; op.Weight != ir.None {
			size = max(size, own(s.Program, i))
			norms = max(norms, a.storedNorms(s.Program, i))
		}
	}
	a.take(&v.single, 4*rows*size)
	a.unreadBytes = max(a.unreadBytes, 8*rows*norms)
}

// own is the number of an op's parameters without those of its function.
func own(p *ir.Program, i int) int {
	n := p.OpParams(i)
	for _, q := range p.Ops[i].Given {
		n -= p.Params[q].Size()
	}
	return n
}

// completes says of an op that its gradients are not the ones that its kernels give, but follow from them.
func (a *arena) completes(i int) bool { return a.views.each > 1 || a.made[i] != nil }

// sumsAgain says of an op's GradSum that each record's gradient is written before it is added: it is complete only then, or
// the op has no kernels that add without writing.
func (a *arena) sumsAgain(s *ir.Schedule, i int) bool {
	return a.views.each > 1 || a.turning(s, i) == rewritten || a.operation(s.Program, i).sum == nil
}

// examples is the batch of the views of a batch of records.
func (a *arena) examples(b kernels.Batch) kernels.Batch {
	if a.views.each == 1 {
		return b
	}
	return kernels.Batch{Run: a.views.run, First: a.views.each * b.First, Capacity: a.views.each * b.Capacity}
}

// recordTargets are those of a chunk's records.
func (a *arena) recordTargets() kernels.Ptr {
	if a.views.each == 1 {
		return a.targets
	}
	return a.views.targets
}

// viewRun begins a sum of gradients.
func (l *list) viewRun() {
	n := l.net
	if v := &n.arena.views; v.each > 1 {
		l.launch(kernels.ViewRun(n.arena.run, n.Options.Capacity, v.each, max(n.Schedule.UnitRows, 1), words(n.Schedule) > 0, v.run))
	}
}

// gatherViews brings a chunk of records in, as they are for a gradient, and the targets of both.
func (l *list) gatherViews(b kernels.Batch, t *table) {
	a, s := &l.net.arena, l.net.Schedule
	examples := a.examples(b)
	if words(s) == 0 {
		l.gather(examples, t)
	} else {
		l.launch(kernels.GatherViews(examples, t.inMemory(), kernels.DrawnOf(s.Augment, s.Program.Shape), a.values[ir.Input], a.targets))
	}
	if a.views.each > 1 {
		l.launch(kernels.ViewTargets(b, a.views.each, a.targets, a.views.targets))
	}
}

// gradients writes records' complete gradients of an op's parameters, stride apart, and adds their squared norms; norms 0: nobody
// asks for them.
func (c *chunk) gradients(o operands, to kernels.Ptr, stride int, norms kernels.Ptr) {
	a := &c.net.arena
	store := a.operation(c.net.Schedule.Program, o.i).store
	m := a.made[o.i]
	switch {
	case a.views.each > 1 && m == nil:
		c.mean(o, to, stride, norms)
	case a.views.each > 1:
		c.mean(o, to, stride, 0)
	case m == nil && norms != 0:
		store(c.list, o, to, stride, norms)
	default:
		store(c.list, o, to, stride, a.unread)
	}
	if m == nil {
		return
	}
	o.Batch = c.Batch
	if m.turns != 0 {
		functions[o.op.Function].measure(c.list, o, m, c.given(o.op, c.params), norms)
	} else {
		m.back(c.list, o, c.params, to, stride, norms)
	}
}

// mean writes the means of the gradients of records' views. Those of some records at a time are in memory.
func (c *chunk) mean(o operands, to kernels.Ptr, stride int, norms kernels.Ptr) {
	a := &c.net.arena
	v, n := &a.views, own(c.net.Schedule.Program, o.i)
	for first := 0; first < c.Capacity; first += v.atOnce {
		some := kernels.Batch{Run: c.Run, First: c.First + first, Capacity: min(v.atOnce, c.Capacity-first)}
		does := a.operation(c.net.Schedule.Program, o.i)
		does.store(c.list, o.from(a, v.each*first, a.examples(some), does.moments), v.single, n, a.unread)
		at := norms
		if norms != 0 {
			at += uint64(8 * first)
		}
		c.launch(kernels.ViewMean(some, v.each, n, v.single, n, to+uint64(4*first*stride), stride, at))
	}
}

// from are the operands of the examples from the first on, which a batch has.
func (o operands) from(a *arena, first int, b kernels.Batch, moments func(*ir.Op) int) operands {
	at := func(p kernels.Ptr, bytes int) kernels.Ptr {
		if p == 0 {
			return 0
		}
		return p + uint64(first*bytes)
	}
	o.Batch = b
	x := o.x
	o.x = make([]kernels.Ptr, len(x))
	for k := range x {
		o.x[k] = at(x[k], o.in.bytes(a.math, o.op.Shape)) // all of an op's inputs have one shape
	}
	size := a.home(ir.Value(o.i+1)).bytes(a.math, o.op.Out)
	o.y, o.dy = at(o.y, size), at(o.dy, size)
	if moments != nil {
		o.moments = at(o.moments, moments(o.op))
	}
	return o
}

// sumAgain adds gradients that are written for it, one op's at a time.
func (c *chunk) sumAgain(o operands) {
	a, size := &c.net.arena, c.net.Schedule.Program.OpParams(o.i)
	c.gradients(o, a.again, size, 0)
	c.combine(c.Batch, c.params, []int{o.i}, func(int) kernels.Ptr { return a.again }, size, c.dst)
}
