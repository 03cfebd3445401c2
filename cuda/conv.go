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
	measures: map[ir.StepKind]func(*chunk, operands){
		ir.GradStore: func(c *chunk, o operands) {
			a := &c.net.arena
			c.convStore(o, a.keep(o.i), a.stored, a.norms(o.i))
		},
		ir.NormGram: func(c *chunk, o operands) {
			c.launch(c.net.math().NormGram(o.Batch, o.op, o.x[0], o.dy, c.net.arena.norms(o.i)))
		},
		ir.NormInstantiate: func(c *chunk, o operands) {
			a := &c.net.arena
			if a.made[o.i] != nil { // complete gradients, which are not kept
				c.convStore(o, a.again, c.size(o), a.norms(o.i))
				return
			}
			c.launch(c.net.math().ConvNorm(o.Batch, o.op, o.x[0], o.dy, a.norms(o.i)))
		},
	},
	sum: (*chunk).convSum,
}

// size is the number of an op's parameters.
func (l *list) size(o operands) int { return l.net.Schedule.Program.OpParams(o.i) }

// convStore writes examples' complete gradients, stride apart, and measures them.
func (c *chunk) convStore(o operands, to kernels.Ptr, stride int, norms kernels.Ptr) {
	m := c.net.arena.made[o.i]
	if m == nil {
		c.launch(c.net.math().ConvStore(o.Batch, o.op, o.x[0], o.dy, to, stride, norms))
		return
	}
	c.launch(c.net.math().ConvStore(o.Batch, o.op, o.x[0], o.dy, to, stride, c.net.arena.unread))
	m.back(c.list, o, c.params, to, stride, norms)
}

// convSum adds a convolution's clipped gradients without keeping them.
func (c *chunk) convSum(o operands) {
	a, m := &c.net.arena, c.net.math()
	if a.made[o.i] != nil {
		c.convStore(o, a.again, c.size(o), 0)
		c.combine(o.Batch, []int{o.i}, func(int) kernels.Ptr { return a.again }, c.size(o), c.dst)
		return
	}
	w, bias := c.param(c.dst, o.op.Weight, 8), c.param(c.dst, o.op.Bias, 8)
	c.launch(m.ConvSum(o.Batch, o.op, o.x[0], o.dy, a.factors(o.i), a.parts, c.size(o)))
	c.launch(kernels.SumParts(o.op, a.parts, c.size(o), m.ConvParts(o.op, a.chunk), w, bias))
}
