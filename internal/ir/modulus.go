package ir

import "fmt"

// modulus takes the absolute values of complex numbers: each of the Groups has channels of real parts, then as many of
// imaginary parts.
var modulus = definition{
	name:   "modulus",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		if op.Groups < 1 || op.Shape[0]%2 != 0 || op.Shape[0]/2%op.Groups != 0 {
			return shapes{}, fmt.Errorf("cannot divide %d channels into real and imaginary parts of %d groups", op.Shape[0], op.Groups)
		}
		return shapes{out: append([]int{op.Shape[0] / 2}, op.Shape[1:]...)}, nil
	},
	flops:   perOutput(4),
	forward: true,
}
