package ir

import "fmt"

// concat joins values: of each in turn the first of Groups equal stretches, then of each the second, and so on.
var concat = definition{
	name:   "concat",
	inputs: several,
	sizes: func(op *Op, sizes []int) error {
		all := 0
		for _, n := range sizes {
			if op.Groups < 1 || n%op.Groups != 0 {
				return fmt.Errorf("cannot divide a value of %d elements into %d groups", n, op.Groups)
			}
			all += n
		}
		if all != Size(op.Shape) {
			return fmt.Errorf("reads values of %d elements together as %v", all, op.Shape)
		}
		return nil
	},
	shapes:  sameShape,
	flops:   perOutput(1),
	forward: true,
}
