package ir

import (
	"fmt"
	"math"
)

// groupNorm is (x−μ)/√(v+Epsilon)·weight + bias, with μ and v of a group of channels, weight and bias of each channel
// (Wu and He 2018).
var groupNorm = definition{
	name:   "groupnorm",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		channels := op.Shape[0]
		switch {
		case op.Groups < 1 || channels%op.Groups != 0:
			return shapes{}, fmt.Errorf("cannot divide %d channels into %d groups", channels, op.Groups)
		case Size(op.Shape) < 2*op.Groups:
			return shapes{}, fmt.Errorf("has groups of one element, which have no variance; use fewer groups")
		}
		return normShapes(op, channels)
	},
	flops: perOutput(8), // mean, variance, both uses
	ways:  []Way{{GradStore, Combine}},
}

// normShapes are those of a normalization with so many weights.
func normShapes(op *Op, weights int) (shapes, error) {
	if !(op.Epsilon > 0) || math.IsInf(op.Epsilon, 0) {
		return shapes{}, fmt.Errorf("has the epsilon %v, want one above 0", op.Epsilon)
	}
	return shapes{op.Shape, []int{weights}, []int{weights}}, nil
}
