package ir

import "fmt"

// layerNorm is (x−μ)/√(v+Epsilon)·weight + bias, with μ and v of each line of the last axis, weight and bias of each
// element of such a line (Ba, Kiros and Hinton 2016).
var layerNorm = definition{
	name:   "layernorm",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		size := op.Shape[len(op.Shape)-1]
		if size < 2 {
			return shapes{}, fmt.Errorf("has lines of one element, which have no variance; normalize a longer last axis")
		}
		return normShapes(op, size)
	},
	flops: perOutput(8),
	ways:  []Way{{GradStore, Combine}},
}

// Lines are those that a LayerNorm normalizes, and their length.
func (op *Op) Lines() (lines, size int) {
	size = op.Shape[len(op.Shape)-1]
	return Size(op.Shape) / size, size
}
