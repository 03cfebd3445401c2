package ir

import "fmt"

// planes compares every channel by itself with the same filters, without padding: channel c and filter f, of n, give
// channel c·n+f. With a window as large as the plane it is a matrix from pixels to filters.
var planes = definition{
	name:   "planes",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		oh, ow, err := op.slide()
		if err != nil {
			return shapes{}, err
		}
		if w := op.Window; w != unpadded(w) {
			return shapes{}, fmt.Errorf("has the window %+v, want one without padding and dilation", w)
		}
		if op.Out[0] < 1 || op.Out[0]%op.Shape[0] != 0 {
			return shapes{}, fmt.Errorf("cannot divide %d outputs among %d channels", op.Out[0], op.Shape[0])
		}
		return shapes{out: []int{op.Out[0], oh, ow}, weight: []int{op.Out[0] / op.Shape[0], 1, op.Window.H, op.Window.W}}, nil
	},
	flops:   func(op *Op) int64 { return 2 * int64(Size(op.Out)) * int64(op.Window.H*op.Window.W) },
	forward: true,
}

// unpadded is a window without padding and dilation.
func unpadded(w Window) Window {
	return Window{H: w.H, W: w.W, StrideH: w.StrideH, StrideW: w.StrideW, DilationH: 1, DilationW: 1}
}
