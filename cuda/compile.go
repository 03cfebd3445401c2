package cuda

import (
	"fmt"

	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
)

// work is one thing that a step puts on the stream: a launch, or memory to be zeroed.
type work struct {
	launch kernels.Launch
	zero   kernels.Ptr // 0: a launch
	words  int
}

// list is the work of a step, in order. It is the one place where steps of a
// schedule become launches.
type list struct {
	net  *net
	work []work
	err  error // the first
}

// math chooses the kernels of products.
func (n *net) math() kernels.Math { return kernels.Math(n.options.Precision) }

func (l *list) launch(k kernels.Launch) { l.work = append(l.work, work{launch: k}) }

func (l *list) try(k kernels.Launch, err error) {
	if err != nil && l.err == nil {
		l.err = err
	}
	l.launch(k)
}

func (l *list) zero(at kernels.Ptr, bytes int) {
	l.work = append(l.work, work{zero: at, words: bytes / 4})
}

// chunks calls f with every chunk of a run of so many rows.
func (l *list) chunks(run kernels.Ptr, rows int, f func(kernels.Batch)) {
	for first := 0; first < rows; first += l.net.arena.chunk {
		f(kernels.Batch{Run: run, First: first, Capacity: l.net.arena.chunk})
	}
}

func (l *list) gather(b kernels.Batch, t *table) {
	a := &l.net.arena
	l.launch(kernels.Gather(b, uint64(t.features), uint64(t.targets), t.Width, t.Scale, t.Offset, a.values[plan.Input], a.targets))
}

// param is where a parameter lies in a flat vector of float32 or of 8-byte values; 0 for none.
func (l *list) param(flat kernels.Ptr, q, bytes int) kernels.Ptr {
	if q == plan.None {
		return 0
	}
	return flat + uint64(bytes*l.net.schedule.Program.Params[q].Offset)
}

// forward takes a gathered chunk to the logits.
func (l *list) forward(b kernels.Batch, params kernels.Ptr) {
	a, p := &l.net.arena, l.net.schedule.Program
	for i := range p.Ops {
		op := &p.Ops[i]
		x, y := a.values[op.In[0]], a.values[i+1]
		w, bias := l.param(params, op.Weight, 4), l.param(params, op.Bias, 4)
		switch op.Kind {
		case plan.Dense:
			l.launch(l.net.math().DenseForward(b, op, x, w, bias, y))
		case plan.Conv:
			l.launch(l.net.math().ConvForward(b, op, x, w, bias, y))
		case plan.MaxPool:
			l.launch(kernels.MaxPool(b, op, x, y))
		case plan.AvgPool:
			l.launch(kernels.AvgPool(b, op, x, y))
		case plan.Add:
			l.launch(kernels.Add(b, op, x, a.values[op.In[1]], y))
		default:
			l.try(kernels.Activation(b, op, x, y))
		}
	}
}

// inputGrad passes an op's δ on to its inputs. The first to write a value's δ
// overwrites what an earlier chunk left, the others add.
func (l *list) inputGrad(b kernels.Batch, i int, params kernels.Ptr, written []bool) {
	a, op := &l.net.arena, &l.net.schedule.Program.Ops[i]
	dy, w := a.deltas[i+1], l.param(params, op.Weight, 4)
	for _, v := range op.In {
		dx, add := a.deltas[v], written[v]
		if dx == 0 {
			continue
		}
		written[v] = true
		switch op.Kind {
		case plan.Dense:
			l.launch(l.net.math().DenseInputGrad(b, op, dy, w, dx, add))
		case plan.Conv:
			l.launch(l.net.math().ConvInputGrad(b, op, dy, w, dx, add))
		case plan.MaxPool:
			l.launch(kernels.MaxPoolGrad(b, op, a.values[v], dy, dx, add))
		case plan.AvgPool:
			l.launch(kernels.AvgPoolGrad(b, op, dy, dx, add))
		case plan.Add:
			l.launch(kernels.AddGrad(b, op, dy, dx, add))
		default:
			l.try(kernels.ActivationGrad(b, op, a.values[i+1], dy, dx, add))
		}
	}
}

// clippedSum adds the schedule's sum over the rows of a run to dst. Where count is
// not 0 it adds the centred count of Queue.CountedSum there.
func (l *list) clippedSum(dst, count kernels.Ptr, t *table) {
	n := l.net
	a, s := &n.arena, n.schedule
	p := s.Program
	params := uint64(n.vectors[0].at)
	z := p.Logits()
	l.chunks(a.run, n.options.Capacity, func(b kernels.Batch) {
		l.gather(b, t)
		l.zero(a.norm2, 8*a.chunk*a.groups)
		l.forward(b, params)
		written := make([]bool, len(a.deltas))
		for _, st := range s.Steps {
			var op *plan.Op
			var x, dy kernels.Ptr
			if st.Op != plan.NoOp {
				op = &p.Ops[st.Op]
				x, dy = a.values[op.In[0]], a.deltas[st.Op+1]
			}
			switch st.Kind {
			case plan.Forward: // done above
			case plan.LossGrad:
				l.launch(kernels.LossGrad(b, p.Loss, p.Outputs(), a.values[z], a.targets, a.deltas[z]))
			case plan.InputGrad:
				l.inputGrad(b, st.Op, params, written)
			case plan.NormGhost:
				l.launch(kernels.NormGhost(b, op, x, dy, a.norms(st.Op)))
			case plan.NormGram:
				l.launch(n.math().NormGram(b, op, x, dy, a.norms(st.Op)))
			case plan.NormInstantiate:
				l.launch(n.math().ConvNorm(b, op, x, dy, a.norms(st.Op)))
			case plan.GradStore:
				if op.Kind == plan.Conv {
					l.launch(n.math().ConvStore(b, op, x, dy, a.keep(st.Op), a.stored, a.norms(st.Op)))
				} else {
					l.launch(kernels.DenseStore(b, op, x, dy, a.keep(st.Op), a.stored, a.norms(st.Op)))
				}
			case plan.Factor:
				l.factors(b, count)
			case plan.GradSum:
				l.gradSum(b, st.Op, x, dy, dst)
			case plan.Combine:
				l.combine(b, st.Op, dst)
			default:
				l.try(kernels.Launch{}, fmt.Errorf("step %s is not supported on cuda yet", st.Kind))
			}
		}
	})
}

// factors turns norms into factors, and counts those of 1.
func (l *list) factors(b kernels.Batch, count kernels.Ptr) {
	a, s := &l.net.arena, l.net.schedule
	p := s.Program
	if l.net.options.Exact {
		l.launch(kernels.GridScale(b, a.kept, a.stored, a.stored, p.Loss, p.Outputs(), a.targets, a.scale))
		return
	}
	within := kernels.Ptr(0)
	if count != 0 {
		within = a.within
	}
	l.launch(kernels.Factors(b, s.Clipping, a.groups, a.norm2, p.Loss, p.Outputs(), a.targets, a.factor, within))
	if count != 0 {
		l.launch(kernels.Count(b, within, count))
	}
}

// gradSum adds an op's clipped gradients without keeping them.
func (l *list) gradSum(b kernels.Batch, i int, x, dy, dst kernels.Ptr) {
	a, op := &l.net.arena, &l.net.schedule.Program.Ops[i]
	w, bias := l.param(dst, op.Weight, 8), l.param(dst, op.Bias, 8)
	if op.Kind == plan.Dense {
		l.launch(l.net.math().DenseSum(b, op, x, dy, a.factors(i), w, bias))
		return
	}
	l.launch(l.net.math().ConvSum(b, op, x, dy, a.factors(i), a.parts, a.part))
	parts, size := kernels.ConvParts(a.chunk), l.net.schedule.Program.Params[op.Weight].Size()
	l.launch(kernels.SumParts(a.parts, a.part, parts, size, w))
	if bias != 0 {
		l.launch(kernels.SumParts(a.parts+uint64(4*size), a.part, parts, op.Out[0], bias))
	}
}

// combine adds an op's kept gradients, clipped: weights, then the bias behind them.
func (l *list) combine(b kernels.Batch, i int, dst kernels.Ptr) {
	a, p := &l.net.arena, l.net.schedule.Program
	kept := a.keep(i)
	for _, q := range []int{p.Ops[i].Weight, p.Ops[i].Bias} {
		if q == plan.None {
			continue
		}
		size, to := p.Params[q].Size(), l.param(dst, q, 8)
		if l.net.options.Exact {
			l.launch(kernels.GridCombine(b, a.scale, kept, a.stored, size, to))
		} else {
			l.launch(kernels.Combine(b, a.factors(i), kept, a.stored, size, to))
		}
		kept += uint64(4 * size)
	}
}

// lossSums adds what a query asks of a run's rows to dst.
func (l *list) lossSums(dst, at, dir kernels.Ptr, t *table, q device.LossQuery) {
	n := l.net
	a, p := &n.arena, n.schedule.Program
	z := a.values[p.Logits()]
	l.chunks(a.run, n.options.Capacity, func(b kernels.Batch) {
		l.gather(b, t)
		row := func(i int, params kernels.Ptr) {
			l.forward(b, params)
			l.launch(kernels.Losses(b, p.Loss, p.Outputs(), z, a.targets, a.losses+uint64(8*a.chunk*i), 0))
		}
		first := kernels.FirstShare(q.Form)
		if first > 0 {
			row(0, at)
		}
		for i := range q.K {
			l.launch(kernels.Shift(a.run, i, at, dir, n.params, a.shifted))
			row(first+i, a.shifted)
		}
		l.launch(kernels.LossShares(b, q.Form, q.K, a.losses, p.Loss, p.Outputs(), a.targets, n.options.Exact))
		shares := a.losses + uint64(8*a.chunk*first)
		if n.options.Exact {
			l.launch(kernels.GridLossSums(b, shares, q.K, dst))
		} else {
			l.launch(kernels.LossSums(b, shares, q.K, dst))
		}
	})
}

// score adds up a public table; rows is a run of all of its rows.
func (l *list) score(at kernels.Ptr, t *table, rows, to kernels.Ptr) {
	a, p := &l.net.arena, l.net.schedule.Program
	l.zero(to, kernels.ScoreBytes(p.Loss, p.Outputs()))
	l.chunks(rows, t.Count, func(b kernels.Batch) {
		l.gather(b, t)
		l.forward(b, at)
		l.launch(kernels.Losses(b, p.Loss, p.Outputs(), a.values[p.Logits()], a.targets, a.losses, a.predicted))
		l.launch(kernels.Score(b, p.Loss, p.Outputs(), a.targets, a.losses, a.predicted, to))
	})
}
