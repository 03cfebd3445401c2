package ir

import "fmt"

// dense is W·x + b with W stored (out, in).
var dense = definition{
	name:   "dense",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		if len(op.Out) != 1 {
			return shapes{}, fmt.Errorf("gives shape %v, want a vector", op.Out)
		}
		return shapes{op.Out, []int{op.Out[0], Size(op.Shape)}, op.Out}, nil
	},
	flops: products,
	ways:  []Way{{NormGhost, GradSum}, {GradStore, Combine}},
	// The gradient of several views is no outer product. What one of them adds to a product over the batch is not bounded.
	ofViews: []Way{{NormInstantiate, GradSum}},
}
