package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

var dense = operation{
	forward: func(l *list, o operands) { l.denseForward(o.Batch, o.i, o.x[0], o.weight, o.bias, o.y) },
	activated: func(l *list, o operands, act ir.Kind, y kernels.Ptr) {
		l.launch(kernels.DenseActivated(o.Batch, o.op, act, o.x[0], o.weight, o.bias, y))
	},
	back: func(l *list, o operands, _, dx kernels.Ptr, add bool) {
		l.denseInputGrad(o.Batch, o.i, o.dy, o.weight, dx, add)
	},
	through: func(l *list, o operands, act ir.Kind, dx kernels.Ptr) {
		l.launch(kernels.DenseInputGradThrough(o.Batch, o.op, act, o.x[0], o.dy, o.weight, dx))
	},
	store: func(l *list, o operands, to kernels.Ptr, stride int, norms kernels.Ptr) {
		l.launch(kernels.DenseStore(o.Batch, o.op, o.x[0], o.dy, to, stride, norms))
	},
	measures: map[ir.StepKind]func(*chunk, operands){
		ir.NormGhost: func(c *chunk, o operands) {
			a := &c.net.arena
			c.ghosts = append(c.ghosts, kernels.Ghost{Op: o.op, X: o.x[0], Dy: o.dy, Norm2: a.norms(o.i), Group: a.group[o.i]})
		},
	},
	sum: func(c *chunk, o operands) {
		factors := c.net.arena.factors(o.i)
		w, bias := c.param(c.dst, o.op.Weight, 8), c.param(c.dst, o.op.Bias, 8)
		if c.net.apart || !kernels.SumsTogether(o.op) {
			c.denseSum(o.Batch, o.i, o.x[0], o.dy, factors, w, bias)
			return
		}
		c.sums = append(c.sums, kernels.Sum{Op: o.op, X: o.x[0], Dy: o.dy, Factors: factors, SumW: w, SumB: bias})
		c.summed = append(c.summed, c.step)
	},
}

// layParts makes room for the parts of all dense sums that may go together.
func (a *arena) layParts(s *ir.Schedule, apart bool) {
	var ops []*ir.Op
	for _, st := range s.Steps {
		if st.Kind != ir.GradSum {
			continue
		}
		if op := &s.Program.Ops[st.Op]; op.Kind == ir.Dense && !apart && kernels.SumsTogether(op) {
			ops = append(ops, op)
		}
	}
	a.take(&a.sumParts, kernels.PartBytes(a.chunk, ops...))
}
