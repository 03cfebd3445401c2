package ir

import (
	"fmt"
	"math"
)

// contrast is √(max(mean(x²) − mean(x)², 0) + Epsilon) of a window through all channels.
var contrast = definition{
	name:   "contrast",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		oh, ow, err := op.slide()
		if err != nil {
			return shapes{}, err
		}
		if w := op.Window; w != unpadded(w) {
			return shapes{}, fmt.Errorf("has the window %+v, want one without padding and dilation", w)
		}
		if !(op.Epsilon > 0) || math.IsInf(op.Epsilon, 0) {
			return shapes{}, fmt.Errorf("has the epsilon %v, want one above 0", op.Epsilon)
		}
		return shapes{out: []int{1, oh, ow}}, nil
	},
	flops:   func(op *Op) int64 { return 3 * int64(Size(op.Out)) * int64(op.Shape[0]*op.Window.H*op.Window.W) },
	forward: true,
}
