package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device/record"
	"github.com/privgrad/privgrad/internal/ir"
)

// An operation has the launches of a kind of op.
type operation struct {
	forward func(l *list, o operands)
	back    func(l *list, o operands, x, dx kernels.Ptr, add bool) // of what reaches one of its inputs, x
	// activated is forward with the activation behind it, through is back with the one before it, where kernels fuse them.
	activated func(l *list, o operands, act ir.Kind, y kernels.Ptr)
	through   func(l *list, o operands, act ir.Kind, dx kernels.Ptr)
	// store writes examples' gradients of an op's parameters, stride apart, and adds their squared norms, which all ops with parameters do.
	store func(l *list, o operands, to kernels.Ptr, stride int, norms kernels.Ptr)
	// both is store, and the gradient at the input beside it; nil: they are two launches.
	both func(l *list, o operands, w kernels.NormBack)
	// measures are other ways to these norms, by step; sum is GradSum; nil: stored gradients are added. Both are of gradients that the op's kernels give.
	measures map[ir.StepKind]func(c *chunk, o operands)
	sum      func(c *chunk, o operands)
	// moments are the bytes that it leaves of an example for the way back, beside its output; nil: none.
	moments func(op *ir.Op) int
	// norms is the number of parts of squared norms that store and measures add; nil: one. parts is how many rows of partial sums sum
	// needs for a chunk; nil: none.
	norms func(m kernels.Math, op *ir.Op) int
	parts func(m kernels.Math, op *ir.Op, chunk int) int
	takes func(m kernels.Math, op *ir.Op) bool // says which ops there are kernels for; nil: all
	twice bool                                 // gradients are faster computed again than kept: measures has NormInstantiate
}

// operands are an op of a chunk, and where it finds and leaves its values: 0 for what it has not.
type operands struct {
	kernels.Batch
	i            int
	op           *ir.Op
	in           form // of x
	x            []kernels.Ptr
	y, dy        kernels.Ptr
	weight, bias kernels.Ptr
	moments      kernels.Ptr
}

// operations has every op of this device.
var operations = map[ir.Kind]operation{
	ir.Conv:      conv,
	ir.Dense:     dense,
	ir.ReLU:      activation,
	ir.Tanh:      activation,
	ir.Sigmoid:   activation,
	ir.LeakyReLU: activation,
	ir.MaxPool:   maxPool,
	ir.AvgPool:   avgPool,
	ir.Add:       add,
	ir.GroupNorm: groupNorm,
	ir.LayerNorm: layerNorm,
	ir.GELU:      gelu,
}

var repertoire = record.Repertoire{
	Device: name, Precisions: precisions,
	Ops:       func(k ir.Kind) bool { _, ok := operations[k]; return ok },
	Functions: func(f ir.Function) bool { _, ok := functions[f]; return ok },
	Views:     kernels.HasDrawn,
}

// at is op i of a batch.
func (l *list) at(b kernels.Batch, i int, params kernels.Ptr) operands {
	a, p := &l.net.arena, l.net.Schedule.Program
	op := &p.Ops[i]
	o := operands{
		Batch: b, i: i, op: op, in: a.takes(p, i, op.In[0]), y: a.values[i+1], dy: a.deltas[i+1],
		weight: l.param(params, op.Weight, 4), bias: l.param(params, op.Bias, 4), moments: a.moments[i],
	}
	if m := a.made[i]; m != nil {
		o.weight = m.weight
	}
	for _, v := range op.In {
		x, _ := a.input(p, i, v)
		o.x = append(o.x, x)
	}
	return o
}

var activation = operation{
	forward: func(l *list, o operands) { l.try(kernels.Activation(o.Batch, o.op, o.x[0], o.y)) },
	back: func(l *list, o operands, _, dx kernels.Ptr, add bool) {
		l.try(kernels.ActivationGrad(o.Batch, o.op, o.y, o.dy, dx, add))
	},
}

var gelu = operation{
	forward: func(l *list, o operands) { l.launch(kernels.GELU(o.Batch, ir.Size(o.op.Out), o.x[0], o.y)) },
	back: func(l *list, o operands, x, dx kernels.Ptr, add bool) {
		l.launch(kernels.GELUGrad(o.Batch, ir.Size(o.op.Out), x, o.dy, dx, add))
	},
}

var maxPool = operation{
	forward: func(l *list, o operands) { l.launch(kernels.MaxPool(o.Batch, o.op, o.x[0], o.y)) },
	back: func(l *list, o operands, x, dx kernels.Ptr, add bool) {
		l.launch(kernels.MaxPoolGrad(o.Batch, o.op, x, o.dy, dx, add))
	},
	through: throughPool,
}

var avgPool = operation{
	forward: func(l *list, o operands) { l.launch(kernels.AvgPool(o.Batch, o.op, o.x[0], o.y)) },
	back: func(l *list, o operands, _, dx kernels.Ptr, add bool) {
		l.launch(kernels.AvgPoolGrad(o.Batch, o.op, o.dy, dx, add))
	},
	through: throughPool,
}

func throughPool(l *list, o operands, act ir.Kind, dx kernels.Ptr) {
	l.launch(kernels.PoolGradThrough(o.Batch, o.op, act, o.x[0], o.dy, dx))
}

var add = operation{
	forward: func(l *list, o operands) { l.launch(kernels.Add(o.Batch, o.op, o.x[0], o.x[1], o.y)) },
	back: func(l *list, o operands, _, dx kernels.Ptr, add bool) {
		l.launch(kernels.AddGrad(o.Batch, o.op, o.dy, dx, add))
	},
}

var (
	groupNorm = normalization(
		func(_ *list, o operands, act ir.Kind, y kernels.Ptr) kernels.Launch {
			return kernels.GroupNormActivated(o.Batch, o.op, act, o.x[0], o.weight, o.bias, y, o.moments)
		},
		func(_ *list, o operands, w kernels.NormBack) kernels.Launch {
			return kernels.GroupNormBackward(o.Batch, o.op, w)
		},
		func(_ kernels.Math, op *ir.Op) int { return kernels.GroupNormNorms(op) }, kernels.MomentBytes)

	layerNorm = normalization(
		func(_ *list, o operands, act ir.Kind, y kernels.Ptr) kernels.Launch {
			return kernels.LayerNormActivated(o.Batch, o.op, act, o.x[0], o.weight, o.bias, y, o.moments)
		},
		func(_ *list, o operands, w kernels.NormBack) kernels.Launch {
			return kernels.LayerNormBackward(o.Batch, o.op, w)
		},
		func(_ kernels.Math, op *ir.Op) int { return kernels.LayerNormNorms(op) }, kernels.LayerNormMomentBytes)
)

// normalization is the operation of two launches: forward, with the ReLU act behind it or none, and back, for whatever is asked.
func normalization(forward func(l *list, o operands, act ir.Kind, y kernels.Ptr) kernels.Launch,
	backward func(l *list, o operands, w kernels.NormBack) kernels.Launch, norms func(kernels.Math, *ir.Op) int, moments func(*ir.Op) int) operation {
	back := func(l *list, o operands, w kernels.NormBack) {
		w.X, w.Dy, w.Weight, w.Moments = o.x[0], o.dy, o.weight, o.moments
		l.launch(backward(l, o, w))
	}
	return operation{
		forward:   func(l *list, o operands) { l.launch(forward(l, o, 0, o.y)) },
		activated: func(l *list, o operands, act ir.Kind, y kernels.Ptr) { l.launch(forward(l, o, act, y)) },
		back: func(l *list, o operands, _, dx kernels.Ptr, add bool) {
			back(l, o, kernels.NormBack{Dx: dx, Add: add})
		},
		store: func(l *list, o operands, to kernels.Ptr, stride int, norms kernels.Ptr) {
			back(l, o, kernels.NormBack{Kept: to, Stride: stride, Norm2: norms})
		},
		through: func(l *list, o operands, act ir.Kind, dx kernels.Ptr) {
			back(l, o, kernels.NormBack{Dx: dx, Through: act})
		},
		both: back, norms: norms, moments: moments,
	}
}
