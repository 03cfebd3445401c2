package ir

import "fmt"

// pick is y[i] = x[Index[i]].
var pick = definition{
	name:   "pick",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		if len(op.Index) == 0 || len(op.Index) != Size(op.Out) {
			return shapes{}, fmt.Errorf("picks %d elements as %v", len(op.Index), op.Out)
		}
		for _, i := range op.Index {
			if i < 0 || int(i) >= Size(op.Shape) {
				return shapes{}, fmt.Errorf("picks element %d of %d", i, Size(op.Shape))
			}
		}
		return shapes{out: op.Out}, nil
	},
	flops:   perOutput(1),
	forward: true,
}
