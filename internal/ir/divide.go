package ir

import "fmt"

// divide is every channel of an image over one plane.
var divide = definition{
	name:   "divide",
	inputs: 2,
	sizes: func(op *Op, sizes []int) error {
		if plane := Size(op.Shape) / op.Shape[0]; sizes[0] != Size(op.Shape) || sizes[1] != plane {
			return fmt.Errorf("reads values of %d and %d elements as %v and one channel of it", sizes[0], sizes[1], op.Shape)
		}
		return nil
	},
	shapes:  sameShape,
	flops:   perOutput(1),
	forward: true,
}
