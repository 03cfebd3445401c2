package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// phase is a part of the schedule that goes example by example (each) and then by the record whose views they are
// (records), or a stretch of examples or of records at a time (rows, lines), or one that works on the whole chunk (tiles).
type phase struct {
	each, records []func(b int, w *worker)
	rows, lines   func(r0, r1 int, w *worker)
	tiles         func() int
	body          func(tile int, w *worker)
	grouped       bool // each function takes a group of records before the next one does
}

// inGroup takes records r0 to r1 through a phase, function by function: what one reads beside them is then in cache for all.
func (p *phase) inGroup(views, r0, r1 int, w *worker) {
	for _, f := range p.each {
		for b := views * r0; b < views*r1; b++ {
			f(b, w)
		}
	}
	for _, f := range p.records {
		for r := r0; r < r1; r++ {
			f(r, w)
		}
	}
}

// small says that a phase takes one example, or record, at a time.
func (p *phase) small() bool { return len(p.each)+len(p.records) > 0 }

// fused appends a phase. What takes one example at a time joins its neighbour that does: rows that are needed by the next op alone
// are there for one example.
func fused(all []phase, p phase) []phase {
	if last := &all[len(all)-1]; p.small() && last.small() && p.grouped == last.grouped && (p.each == nil || last.records == nil) {
		last.each, last.records = append(last.each, p.each...), append(last.records, p.records...)
		return all
	}
	return append(all, p)
}

// build turns the steps into phases, each step's changed by wrap. Neighbours that treat
// each example, or record, by itself are fused: one then stays in cache through all of them.
func (n *net) build(wrap func(step int, p phase) phase) {
	all := []phase{{each: []func(int, *worker){n.gather}}}
	var sums []phase // of the whole chunk, after everything that an example goes through by itself
	add := func(p phase) { all = fused(all, p) }
	// A worker has memory for the gradients of one example, which stay there up to its factor. So they are computed after
	// the last op that takes several examples together: all of them, so that norms are added up in the schedule's order. Until
	// then nothing overwrites the values and deltas that they are computed from.
	var waiting []phase
	last := n.lastOfSeveral()
	for i, st := range n.schedule.Steps {
		for _, p := range n.compileStep(st) {
			p = wrap(i, p)
			p.grouped = n.group > 1 && (i > last || st.Kind.Measures())
			switch {
			case p.tiles != nil && (st.Kind == ir.GradSum || st.Kind == ir.Combine):
				sums = append(sums, p)
			case i < last && st.Kind.Measures():
				waiting = append(waiting, p)
			default:
				add(p)
			}
		}
		if i == last {
			for _, p := range waiting {
				add(p)
			}
		}
	}
	n.all = append([]phase{n.through(all), together(sums)}, n.takeBack()...)
}

// lastOfSeveral is the last step whose gradients at the input are computed of several examples together, or the last of all
// such gradients where a record has several views; -1 for none.
func (n *net) lastOfSeveral() int {
	last := -1
	for i, st := range n.schedule.Steps {
		if st.Kind == ir.InputGrad && (n.views > 1 || n.convs[st.Op] != nil && n.convs[st.Op].together() > 1) {
			last = i
		}
	}
	return last
}

// together makes one phase of several that touch nothing in common.
func together(phases []phase) phase {
	return phase{
		tiles: func() int {
			n := 0
			for _, p := range phases {
				n += p.tiles()
			}
			return n
		},
		body: func(tile int, w *worker) {
			for _, p := range phases {
				if n := p.tiles(); tile >= n {
					tile -= n
					continue
				}
				p.body(tile, w)
				return
			}
		},
	}
}

// through takes records through phases, a stretch of them a tile.
func (n *net) through(phases []phase) phase {
	for i := range phases {
		switch p := &phases[i]; {
		case p.rows != nil:
			p.lines = func(r0, r1 int, w *worker) { p.rows(n.views*r0, n.views*r1, w) }
		case p.lines == nil:
			p.lines = func(r0, r1 int, w *worker) {
				if p.grouped {
					for ; r0 < r1; r0 += n.group {
						p.inGroup(n.views, r0, min(r0+n.group, r1), w)
					}
					return
				}
				for r := r0; r < r1; r++ {
					for b := n.views * r; b < n.views*(r+1); b++ {
						for _, f := range p.each {
							f(b, w)
						}
					}
					for _, f := range p.records {
						f(r, w)
					}
				}
			}
		}
	}
	pass := func(r0, r1 int, w *worker) {
		first, lo := n.views*r0, n.views*r0 // where every example has rows of its own
		if n.inFlight < n.views*n.chunk {
			first = w.number * n.views * n.stretch
		}
		for b := lo; b < n.views*r1; b++ {
			n.flights[b] = flight{w.number, first + b - lo}
		}
		for i := range phases {
			phases[i].lines(r0, r1, w)
		}
	}
	return phase{
		tiles: n.cutUp,
		body: func(tile int, w *worker) {
			r1 := n.ends[tile+1]
			for b := n.ends[tile]; b < r1; b += n.stretch { // a unit may be longer
				pass(b, min(b+n.stretch, r1), w)
			}
		},
	}
}

// cutUp cuts a chunk into stretches of whole units, and says how many they are. First each worker gets most of its share, then
// most of its share of what is left, and so on: stretches are long, and at the end no worker waits long for another.
func (n *net) cutUp() int {
	n.ends = append(n.ends[:0], 0)
	for at, units := 0, n.units(n.batch); at < units; {
		length := max(n.stretch/n.unit, 1)
		if n.workers.n > 1 {
			length = max(min(length, (3*(units-at)/4+n.workers.n-1)/n.workers.n), 1)
		}
		for range n.workers.n {
			if at < units {
				at += length
				n.ends = append(n.ends, min(at*n.unit, n.batch))
			}
		}
	}
	return len(n.ends) - 1
}

// So many examples go through the network at a time. Exact nets need multiples of vec.Columns. Variables for tests.
var (
	inCache  = max(gemm.TileN, vec.Columns) // usually: a register tile of a dense layer's products, whose values stay in cache
	mostRows = 128                          // of an MLP, or where a stretch reads more than largeWeights: they are then read seldom
)

// largeWeights, in floats, do not stay in cache beside what else a step reads; a variable so that tests can make them small.
var largeWeights = 2 << 20

func (n *net) compileStep(st ir.Step) []phase {
	if phases, ok := n.exactStep(st); ok {
		return phases
	}
	switch st.Kind {
	case ir.LossGrad:
		return each(n.lossGrad)
	case ir.Factor:
		return n.perRecord(append([]func(int, *worker){n.setFactor, n.applyFactors()}, n.pass()...)...)
	}
	op := &n.ops[st.Op]
	switch {
	case st.Kind == ir.Forward && op.forward == nil:
		return n.forwardEach(st.Op)
	case st.Kind == ir.Forward:
		return op.forward(n, st.Op)
	case st.Kind == ir.InputGrad:
		return op.back(n, st.Op)
	case st.Kind == ir.Combine && n.passing[st.Op]:
		return []phase{n.sumParts(st.Op)}
	case st.Kind == ir.Combine:
		return []phase{n.combine(st.Op)}
	case st.Kind == ir.GradSum && n.byProduct(st.Op):
		return op.sum(n, st.Op)
	case st.Kind == ir.GradSum:
		return n.recordSum(st.Op)
	case st.Kind == ir.GradStore:
		return n.perRecord(n.store(st.Op))
	case st.Kind == ir.NormInstantiate:
		return n.perRecord(n.normInstantiate(st.Op))
	}
	return n.perRecord(op.measures[st.Kind](n, st.Op))
}

// perRecord is one phase that does its work record by record. One of a single view is its example.
func (n *net) perRecord(work ...func(int, *worker)) []phase {
	if n.views == 1 {
		return each(work...)
	}
	return []phase{{records: work}}
}

// each is one phase that does its work example by example.
func each(work ...func(int, *worker)) []phase { return []phase{{each: work}} }

func (n *net) run(phases []phase) {
	for i := range phases {
		n.workers.do(phases[i].tiles(), phases[i].body)
	}
}
