package ir

import "fmt"

// reflect pads an image by its mirror image: the pixels at its borders are not repeated.
var reflect = definition{
	name:   "reflect",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		w := op.Window
		if len(op.Shape) != 3 {
			return shapes{}, fmt.Errorf("needs channels, rows and columns, has shape %v", op.Shape)
		}
		if min(w.PadTop, w.PadBottom, w.PadLeft, w.PadRight) < 0 || max(w.PadTop, w.PadBottom) >= op.Shape[1] || max(w.PadLeft, w.PadRight) >= op.Shape[2] {
			return shapes{}, fmt.Errorf("cannot pad a %d×%d image by %d to %d rows and %d to %d columns of its mirror image", op.Shape[1], op.Shape[2], w.PadTop, w.PadBottom, w.PadLeft, w.PadRight)
		}
		return shapes{out: []int{op.Shape[0], w.PadTop + op.Shape[1] + w.PadBottom, w.PadLeft + op.Shape[2] + w.PadRight}}, nil
	},
	flops:   perOutput(1),
	forward: true,
}

// Reflected is the place in a line of n that place i, which may lie less than n beyond its ends, mirrors.
func Reflected(i, n int) int {
	if i < 0 {
		i = -i
	}
	if i >= n {
		i = 2*(n-1) - i
	}
	return i
}
