package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/ir"
)

// frontOp is an op of a front end and where it finds and leaves its values; 0 for what it has not.
type frontOp struct {
	kernels.Batch
	*ir.Op
	program      *ir.Program
	inputs       []int // elements of each of x
	x            []kernels.Ptr
	y            kernels.Ptr
	weight, bias kernels.Ptr
	index        kernels.Ptr
	moments      kernels.Ptr
	many         func(each int) kernels.Batch // of so many examples a record
}

// frontOps has the launches of every op that a front end may have on this device. All compute in float32, in every precision of training.
var frontOps = map[ir.Kind]func(o *frontOp) ([]kernels.Launch, error){
	ir.Conv: one(func(o *frontOp) kernels.Launch {
		return kernels.ConvForward(o.Batch, o.Op, o.x[0], o.weight, o.bias, o.y)
	}),
	ir.Dense: one(func(o *frontOp) kernels.Launch {
		return kernels.DenseForward(o.Batch, o.Op, o.x[0], o.weight, o.bias, o.y)
	}),
	ir.ReLU:      frontActivation,
	ir.Tanh:      frontActivation,
	ir.Sigmoid:   frontActivation,
	ir.LeakyReLU: frontActivation,
	ir.GELU:      one(func(o *frontOp) kernels.Launch { return kernels.GELU(o.Batch, ir.Size(o.Out), o.x[0], o.y) }),
	ir.MaxPool:   one(func(o *frontOp) kernels.Launch { return kernels.MaxPool(o.Batch, o.Op, o.x[0], o.y) }),
	ir.AvgPool:   one(func(o *frontOp) kernels.Launch { return kernels.AvgPool(o.Batch, o.Op, o.x[0], o.y) }),
	ir.Add:       one(func(o *frontOp) kernels.Launch { return kernels.Add(o.Batch, o.Op, o.x[0], o.x[1], o.y) }),
	ir.GroupNorm: one(func(o *frontOp) kernels.Launch {
		return kernels.GroupNorm(o.Batch, o.Op, o.x[0], o.weight, o.bias, o.y, o.moments)
	}),
	ir.LayerNorm: one(func(o *frontOp) kernels.Launch {
		return kernels.LayerNorm(o.Batch, o.Op, o.x[0], o.weight, o.bias, o.y, o.moments)
	}),
	ir.Reflect:  one(func(o *frontOp) kernels.Launch { return kernels.Reflect(o.Batch, o.Op, o.x[0], o.y) }),
	ir.Planes:   one(frontPlanes),
	ir.Modulus:  one(func(o *frontOp) kernels.Launch { return kernels.Modulus(o.Batch, o.Op, o.x[0], o.y) }),
	ir.Concat:   frontConcat,
	ir.Pick:     one(func(o *frontOp) kernels.Launch { return kernels.Pick(o.Batch, o.Op, o.x[0], o.index, o.y) }),
	ir.Affine:   one(frontAffine),
	ir.Contrast: one(func(o *frontOp) kernels.Launch { return kernels.Contrast(o.Batch, o.Op, o.x[0], o.y) }),
	ir.Divide:   one(func(o *frontOp) kernels.Launch { return kernels.Divide(o.Batch, o.Op, o.x[0], o.x[1], o.y) }),
	ir.Unit:     one(func(o *frontOp) kernels.Launch { return kernels.Unit(o.Batch, o.Op, o.x[0], o.y) }),
	ir.Deskew:   one(func(o *frontOp) kernels.Launch { return kernels.Deskew(o.Batch, o.Op, o.x[0], o.y) }),
}

// one is an op that is one launch.
func one(f func(o *frontOp) kernels.Launch) func(o *frontOp) ([]kernels.Launch, error) {
	return func(o *frontOp) ([]kernels.Launch, error) { return []kernels.Launch{f(o)}, nil }
}

func frontActivation(o *frontOp) ([]kernels.Launch, error) {
	l, err := kernels.Activation(o.Batch, o.Op, o.x[0], o.y)
	return []kernels.Launch{l}, err
}

// frontPlanes takes every channel of a record for an example of one channel. Windows as large as the plane are a matrix.
func frontPlanes(o *frontOp) kernels.Launch {
	channels := o.Shape[0]
	plane := *o.Op
	plane.Kind = ir.Conv
	plane.Shape, plane.Out = []int{1, o.Shape[1], o.Shape[2]}, []int{o.Out[0] / channels, o.Out[1], o.Out[2]}
	if o.Window.H == o.Shape[1] && o.Window.W == o.Shape[2] {
		plane.Kind, plane.Shape, plane.Out = ir.Dense, []int{ir.Size(plane.Shape)}, plane.Out[:1]
		return kernels.DenseForward(o.many(channels), &plane, o.x[0], o.weight, 0, o.y)
	}
	return kernels.ConvForward(o.many(channels), &plane, o.x[0], o.weight, 0, o.y)
}

func frontConcat(o *frontOp) (all []kernels.Launch, _ error) {
	before := 0
	for i, size := range o.inputs {
		all = append(all, kernels.Concat(o.Batch, o.Op, o.x[i], size, before, o.y))
		before += size
	}
	return all, nil
}

func frontAffine(o *frontOp) kernels.Launch {
	shape := func(q int) []int {
		if q == ir.None {
			return nil
		}
		return o.program.Params[q].Shape
	}
	return kernels.Affine(o.Batch, o.Op, o.x[0], o.weight, shape(o.Weight), o.bias, shape(o.Bias), o.y)
}

// frontMoments are the bytes that an op leaves of an example, for a way back that there is none of.
func frontMoments(op *ir.Op) int {
	if f := operations[op.Kind].moments; f != nil {
		return f(op)
	}
	return 0
}

// hasFrontOp says whether the device has an op of a front end.
func hasFrontOp(op *ir.Op) bool {
	return frontOps[op.Kind] != nil && op.Function == ir.Identity && (op.Kind != ir.Affine || len(op.Shape) <= kernels.AffineAxes)
}
