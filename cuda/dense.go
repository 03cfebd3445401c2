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
		c.sums.add(c, kernels.Sum{Op: o.op, X: o.x[0], Dy: o.dy, Factors: factors, SumW: w, SumB: bias})
	},
}

// pixelDense is for values in pixels.
var pixelDense = pixelProduct(operation{
	takes: func(m kernels.Math, op *ir.Op) bool { return kernels.Products(op) },
	store: func(l *list, o operands, to kernels.Ptr, stride int, norms kernels.Ptr) {
		l.launch(l.math().DenseStore(o.Batch, o.op, o.x[0], o.dy, to, stride, norms))
	},
	measures: map[ir.StepKind]func(*chunk, operands){
		ir.NormGhost: func(c *chunk, o operands) {
			a := &c.net.arena
			c.ghosts = append(c.ghosts, kernels.Ghost{Op: o.op, Math: a.math, X: o.x[0], Dy: o.dy, Norm2: a.norms(o.i), Group: a.group[o.i]})
		},
	},
	sum: func(c *chunk, o operands) {
		sum := kernels.Sum{Op: o.op, X: o.x[0], Dy: o.dy, Factors: c.net.arena.factors(o.i), SumW: c.param(c.dst, o.op.Weight, 8), SumB: c.param(c.dst, o.op.Bias, 8)}
		if kernels.SumsTogether(o.op) {
			c.pixelSums.add(c, sum)
			return
		}
		for _, k := range c.math().DenseSums(o.Batch, 0, sum) {
			c.launch(k)
		}
	},
})

// denseSums are sums that wait to be launched together, and their steps.
type denseSums struct {
	sums  []kernels.Sum
	steps []int
}

func (s *denseSums) add(c *chunk, sum kernels.Sum) {
	s.sums, s.steps = append(s.sums, sum), append(s.steps, c.step)
}

// launch puts them down, as launches of some at a time.
func (s *denseSums) launch(c *chunk, of func(kernels.Batch, kernels.Ptr, ...kernels.Sum) []kernels.Launch) {
	for first := 0; first < len(s.sums); first += kernels.MostSums {
		c.step = s.steps[first]
		for _, k := range of(c.Batch, c.net.arena.sumParts, s.sums[first:min(first+kernels.MostSums, len(s.sums))]...) {
			c.launch(k)
		}
	}
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
