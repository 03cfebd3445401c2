package ir

import "fmt"

// activation is max(x, 0), whose derivative at 0 is 0, tanh x or 1/(1+exp(−x)).
func activation(name string) definition {
	return definition{name: name, inputs: 1, shapes: sameShape, flops: perOutput(1), activation: true}
}

// leakyReLU is max(x, Slope·x); its derivative at 0 is Slope.
var leakyReLU = definition{
	name:   "leakyrelu",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		if !(op.Slope > 0 && op.Slope < 1) {
			return shapes{}, fmt.Errorf("has the slope %v, want one between 0 and 1", op.Slope)
		}
		return sameShape(op)
	},
	flops:      perOutput(1),
	activation: true,
}
