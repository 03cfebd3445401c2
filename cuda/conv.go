package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

var conv = operation{
	forward: func(l *list, o operands) {
		l.launch(kernels.ConvForward(o.Batch, o.op, o.x[0], o.weight, o.bias, o.y))
	},
	activated: func(l *list, o operands, act ir.Kind, y kernels.Ptr) {
		l.launch(kernels.ConvActivated(o.Batch, o.op, act, o.x[0], o.weight, o.bias, y))
	},
	back: func(l *list, o operands, _, dx kernels.Ptr, add bool) {
		l.launch(kernels.ConvInputGrad(o.Batch, o.op, o.dy, o.weight, dx, add))
	},
	through: func(l *list, o operands, _ ir.Kind, dx kernels.Ptr) {
		l.launch(kernels.ConvInputGradThrough(o.Batch, o.op, o.x[0], o.dy, o.weight, dx))
	},
	store: func(l *list, o operands, to kernels.Ptr, stride int, norms kernels.Ptr) {
		l.launch(kernels.ConvStore(o.Batch, o.op, o.x[0], o.dy, to, stride, norms))
	},
	measures: map[ir.StepKind]func(*chunk, operands){
		ir.NormGram: func(c *chunk, o operands) {
			c.launch(kernels.NormGram(o.Batch, o.op, o.x[0], o.dy, c.net.arena.norms(o.i)))
		},
		ir.NormInstantiate: func(c *chunk, o operands) {
			c.launch(kernels.ConvNorm(o.Batch, o.op, o.x[0], o.dy, c.net.arena.norms(o.i)))
		},
	},
	// Gradients are added without being kept.
	sum: func(c *chunk, o operands) {
		a, size := &c.net.arena, c.net.Schedule.Program.OpParams(o.i)
		c.launch(kernels.ConvSum(o.Batch, o.op, o.x[0], o.dy, a.factors(o.i), a.parts, size))
		c.sumParts(o, kernels.ConvParts(o.op, a.chunk))
	},
	norms: func(_ kernels.Math, op *ir.Op) int { return kernels.ConvNorms(op) },
	parts: func(_ kernels.Math, op *ir.Op, chunk int) int { return kernels.ConvParts(op, chunk) },
}

// sumParts adds the partial sums of a convolution's gradients. Those of a weight that is computed are added up before they are taken back.
func (c *chunk) sumParts(o operands, parts int) {
	w, bias, size := c.param(c.dst, o.op.Weight, 8), c.param(c.dst, o.op.Bias, 8), c.net.Schedule.Program.OpParams(o.i)
	a, m := &c.net.arena, c.net.arena.made[o.i]
	if m == nil {
		c.launch(kernels.SumParts(o.op, a.parts, size, parts, w, bias))
		return
	}
	c.zero(a.weightSum, 8*c.net.Schedule.Program.Params[o.op.Weight].Size())
	c.launch(kernels.SumParts(o.op, a.parts, size, parts, a.weightSum, bias))
	functions[o.op.Function].sum(c.list, o.op, m, c.param(c.params, o.op.Weight, 4), c.given(o.op, c.params), a.weightSum, w, c.givenOf(o.op, c.dst, 8))
}
