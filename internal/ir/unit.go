package ir

import (
	"fmt"
	"math"
)

// scaled brings a whole value to the length Norm. A value of zeros stays one.
var scaled = definition{
	name:   "unit",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		if !(op.Norm > 0) || math.IsInf(op.Norm, 0) {
			return shapes{}, fmt.Errorf("has the norm %v, want one above 0", op.Norm)
		}
		return sameShape(op)
	},
	flops:   perOutput(3),
	forward: true,
}
