package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

var conv = operation{
	forward: func(l *list, o operands) {
		l.launch(l.net.math().ConvForward(o.Batch, o.op, o.x[0], l.convWeights(o.op, false, o.weight), o.bias, o.y))
	},
	activated: func(l *list, o operands, act ir.Kind, y kernels.Ptr) {
		l.launch(l.net.math().ConvActivated(o.Batch, o.op, act, o.x[0], l.convWeights(o.op, false, o.weight), o.bias, y))
	},
	back: func(l *list, o operands, _, dx kernels.Ptr, add bool) {
		l.launch(l.net.math().ConvInputGrad(o.Batch, o.op, o.dy, l.convWeights(o.op, true, o.weight), dx, add))
	},
	through: func(l *list, o operands, _ ir.Kind, dx kernels.Ptr) {
		l.launch(l.net.math().ConvInputGradThrough(o.Batch, o.op, o.x[0], o.dy, l.convWeights(o.op, true, o.weight), dx))
	},
	store: func(l *list, o operands, to kernels.Ptr, stride int, norms kernels.Ptr) {
		l.launch(l.net.math().ConvStore(o.Batch, o.op, o.x[0], o.dy, to, stride, norms))
	},
	measures: map[ir.StepKind]func(*chunk, operands){
		ir.NormGram: func(c *chunk, o operands) {
			c.launch(c.net.math().NormGram(o.Batch, o.op, o.x[0], o.dy, c.net.arena.norms(o.i)))
		},
		ir.NormInstantiate: func(c *chunk, o operands) {
			c.launch(c.net.math().ConvNorm(o.Batch, o.op, o.x[0], o.dy, c.net.arena.norms(o.i)))
		},
	},
	// Gradients are added without being kept.
	sum: func(c *chunk, o operands) {
		a, m := &c.net.arena, c.net.math()
		w, bias, size := c.param(c.dst, o.op.Weight, 8), c.param(c.dst, o.op.Bias, 8), c.net.Schedule.Program.OpParams(o.i)
		c.launch(m.ConvSum(o.Batch, o.op, o.x[0], o.dy, a.factors(o.i), a.parts, size))
		c.launch(kernels.SumParts(o.op, a.parts, size, m.ConvParts(o.op, a.chunk), w, bias))
	},
}
