package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

// pixelOperations has every op that takes pixels.
var pixelOperations = map[ir.Kind]operation{
	ir.Conv:      pixelConv,
	ir.Dense:     pixelDense,
	ir.ReLU:      pixelActivation,
	ir.Tanh:      pixelActivation,
	ir.Sigmoid:   pixelActivation,
	ir.LeakyReLU: pixelActivation,
	ir.GELU:      pixelGELU,
	ir.MaxPool:   pixelMaxPool,
	ir.AvgPool:   pixelAvgPool,
	ir.Add:       pixelAdd,
	ir.GroupNorm: pixelGroupNorm,
}

func (l *list) math() kernels.Math { return l.net.arena.math }

func (l *list) laidOut(i int) laid { return l.net.arena.laid[i] }

var pixelConv = pixelProduct(operation{
	takes: func(m kernels.Math, op *ir.Op) bool { return kernels.Products(op) && m.FitsGradient(op) },
	store: func(l *list, o operands, to kernels.Ptr, stride int, norms kernels.Ptr) {
		l.launch(l.math().GradientStore(o.Batch, o.op, o.x[0], o.dy, to, stride, norms))
	},
	measures: map[ir.StepKind]func(*chunk, operands){ir.NormGram: pixelNorm, ir.NormInstantiate: pixelNorm},
	sum: func(c *chunk, o operands) {
		a, size := &c.net.arena, c.net.Schedule.Program.OpParams(o.i)
		sum := a.math.GradientSum
		if !c.net.Schedule.Private() {
			sum = a.math.GradientAdd
		}
		c.launch(sum(o.Batch, o.op, o.x[0], o.dy, a.factors(o.i), a.parts, size))
		c.sumParts(o, a.math.GradientParts(o.op, a.chunk))
	},
	norms: kernels.Math.GradientNorms,
	parts: kernels.Math.GradientParts,
	twice: true,
})

// pixelProduct adds to an operation what all products in pixels have: all but their gradients of weights.
func pixelProduct(o operation) operation {
	o.forward = func(l *list, o operands) {
		l.launch(l.math().Forward(o.Batch, o.op, 0, o.x[0], l.laidOut(o.i).forward, o.bias, o.y))
	}
	o.activated = func(l *list, o operands, act ir.Kind, y kernels.Ptr) {
		l.launch(l.math().Forward(o.Batch, o.op, act, o.x[0], l.laidOut(o.i).forward, o.bias, y))
	}
	o.back = func(l *list, o operands, _, dx kernels.Ptr, add bool) {
		l.launch(l.math().InputGrad(o.Batch, o.op, o.dy, l.laidOut(o.i).back, dx, add, 0))
	}
	o.through = func(l *list, o operands, _ ir.Kind, dx kernels.Ptr) {
		l.launch(l.math().InputGrad(o.Batch, o.op, o.dy, l.laidOut(o.i).back, dx, false, o.x[0]))
	}
	return o
}

// pixelNorm measures gradients as they will be summed, whatever way the schedule would take: a Gram matrix is no faster.
func pixelNorm(c *chunk, o operands) {
	c.launch(c.math().GradientNorm(o.Batch, o.op, o.x[0], o.dy, c.net.arena.norms(o.i)))
}

var pixelActivation = operation{
	forward: func(l *list, o operands) { l.try(l.math().Activation(o.Batch, o.op, o.x[0], o.y)) },
	back: func(l *list, o operands, _, dx kernels.Ptr, add bool) {
		l.try(l.math().ActivationGrad(o.Batch, o.op, o.y, o.dy, dx, add))
	},
}

var pixelGELU = operation{
	forward: func(l *list, o operands) { l.launch(l.math().GELU(o.Batch, o.op, o.x[0], o.y)) },
	back: func(l *list, o operands, x, dx kernels.Ptr, add bool) {
		l.launch(l.math().GELUGrad(o.Batch, o.op, x, o.dy, dx, add))
	},
}

var pixelMaxPool = operation{
	forward: func(l *list, o operands) { l.launch(l.math().MaxPool(o.Batch, o.op, o.x[0], o.y)) },
	back: func(l *list, o operands, x, dx kernels.Ptr, add bool) {
		l.launch(l.math().MaxPoolGrad(o.Batch, o.op, x, o.dy, dx, add))
	},
	through: pixelThroughPool,
}

var pixelAvgPool = operation{
	forward: func(l *list, o operands) { l.launch(l.math().AvgPool(o.Batch, o.op, o.x[0], o.y)) },
	back: func(l *list, o operands, _, dx kernels.Ptr, add bool) {
		l.launch(l.math().AvgPoolGrad(o.Batch, o.op, o.dy, dx, add))
	},
	through: pixelThroughPool,
}

func pixelThroughPool(l *list, o operands, act ir.Kind, dx kernels.Ptr) {
	l.launch(l.math().PoolGradThrough(o.Batch, o.op, act, o.x[0], o.dy, dx))
}

var pixelAdd = operation{
	forward: func(l *list, o operands) { l.launch(l.math().Add(o.Batch, o.op, 0, o.x[0], o.x[1], o.y)) },
	activated: func(l *list, o operands, act ir.Kind, y kernels.Ptr) {
		l.launch(l.math().Add(o.Batch, o.op, act, o.x[0], o.x[1], y))
	},
	back: func(l *list, o operands, _, dx kernels.Ptr, add bool) {
		l.launch(l.math().AddGrad(o.Batch, o.op, o.dy, dx, add))
	},
}

var pixelGroupNorm = func() operation {
	o := normalization(
		func(l *list, o operands, act ir.Kind, y kernels.Ptr) kernels.Launch {
			return l.math().GroupNormActivated(o.Batch, o.op, act, o.x[0], o.weight, o.bias, y, o.moments)
		},
		func(l *list, o operands, w kernels.NormBack) kernels.Launch {
			return l.math().GroupNormBackward(o.Batch, o.op, w)
		},
		kernels.Math.GroupNormNorms, kernels.MomentBytes)
	o.takes = kernels.Math.FitsGroupNorm
	return o
}()
