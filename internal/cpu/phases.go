package cpu

import "github.com/privgrad/privgrad/internal/ir"

// phase is a part of the schedule that goes example by example (each) or a stretch of
// them at a time (rows), or one that works on the whole chunk (tiles).
type phase struct {
	each  []func(b int, w *worker)
	rows  func(r0, r1 int, w *worker)
	tiles func() int
	body  func(tile int, w *worker)
}

// build turns the steps into phases, each step's changed by wrap. Neighbours that treat
// each example by itself are fused: one example then stays in cache through all of them.
func (n *net) build(wrap func(step int, p phase) phase) {
	all := []phase{{each: []func(int, *worker){n.gather}}}
	var sums []phase // of the whole chunk, after everything that an example goes through by itself
	for i, st := range n.schedule.Steps {
		for _, p := range n.compileStep(st) {
			p = wrap(i, p)
			last := &all[len(all)-1]
			switch {
			case p.each == nil && (st.Kind == ir.GradSum || st.Kind == ir.Combine):
				sums = append(sums, p)
			case p.each != nil && last.each != nil:
				last.each = append(last.each, p.each...)
			default:
				all = append(all, p)
			}
		}
	}
	n.all = n.fuse(append(all, together(sums)))
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

// fuse gives phases their tiles: units of examples, or where a network works by
// rows one stretch of them for all phases up to the sums.
func (n *net) fuse(phases []phase) []phase {
	for i := range phases {
		p := &phases[i]
		if p.each == nil {
			continue
		}
		p.tiles = func() int { return n.units(n.batch) }
		p.rows = func(r0, r1 int, w *worker) {
			for b := r0; b < r1; b++ {
				for _, f := range p.each {
					f(b, w)
				}
			}
		}
		p.body = func(tile int, w *worker) { p.rows(tile*n.unit, min((tile+1)*n.unit, n.batch), w) }
	}
	if !n.byRows {
		return phases
	}
	last := len(phases) - 1
	through := phases[:last]
	return []phase{{
		tiles: func() int { return n.stretches() },
		body: func(tile int, w *worker) {
			if r0, r1 := cut(n.batch, n.unit, tile, n.stretches()); r0 < r1 {
				for _, p := range through {
					p.rows(r0, r1, w)
				}
			}
		},
	}, phases[last]}
}

// mostRows go through the network at a time: what a layer makes of them is still in
// cache for the next, and a layer's weights are read seldom.
const mostRows = 192

// stretches is in how many a chunk's rows are cut, as many for every worker.
func (n *net) stretches() int {
	each := n.workers.n * mostRows
	return (n.batch + each - 1) / each * n.workers.n
}

func (n *net) compileStep(st ir.Step) []phase {
	each := func(f func(int, *worker)) []phase { return []phase{{each: []func(int, *worker){f}}} }
	if phases, ok := n.exactStep(st); ok {
		return phases
	}
	switch st.Kind {
	case ir.LossGrad:
		return each(n.lossGrad)
	case ir.Factor:
		return []phase{{each: []func(int, *worker){n.setFactor, n.applyFactors(), n.pass()}}}
	}
	op := &n.program.Ops[st.Op]
	dense := op.Kind == ir.Dense
	switch st.Kind {
	case ir.Forward:
		if dense {
			return []phase{n.denseForward(st.Op)}
		}
		if st.Op > 0 && n.convs[st.Op-1] != nil && n.convs[st.Op-1].relu {
			return nil // done on the way out of the convolution
		}
		return each(n.forwardOp(st.Op))
	case ir.InputGrad:
		if dense {
			return []phase{n.denseInputGrad(st.Op)}
		}
		return each(n.inputGradOp(st.Op))
	case ir.NormGhost:
		return each(n.normGhost(st.Op))
	case ir.NormGram:
		return each(n.normGram(st.Op))
	case ir.NormInstantiate:
		return each(n.normInstantiate(st.Op))
	case ir.GradStore:
		return each(n.store(st.Op))
	case ir.Combine:
		if n.passing[st.Op] {
			return []phase{n.sumParts(st.Op)}
		}
		return []phase{n.combine(st.Op)}
	default: // ir.GradSum
		if dense {
			return n.denseGradSum(st.Op)
		}
		return n.convGradSum(st.Op)
	}
}

func (n *net) run(phases []phase) {
	for i := range phases {
		n.workers.do(phases[i].tiles(), phases[i].body)
	}
}
