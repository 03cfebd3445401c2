package ir

import "fmt"

// conv is cross-correlation with zero padding, plus a bias of each output channel.
var conv = definition{
	name:   "conv",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		oh, ow, err := op.slide()
		if err != nil {
			return shapes{}, err
		}
		w := op.Window
		return shapes{[]int{op.Out[0], oh, ow}, []int{op.Out[0], op.Shape[0], w.H, w.W}, op.Out[:1]}, nil
	},
	flops: products,
	ways: []Way{
		{GradStore, Combine}, {NormGram, GradSum}, {NormInstantiate, GradSum},
		{GradStore, GradSum}, // what is kept for the norm is computed again for the sum
	},
}

// products counts those of a matrix product.
func products(op *Op) int64 {
	out, k, n := op.Columns()
	return 2 * int64(out) * int64(k) * int64(n)
}

// Columns gives the extents of a convolution or dense op seen as a matrix
// product: out×k weights against k×positions columns.
func (op *Op) Columns() (out, k, positions int) {
	if op.Kind == Conv {
		return op.Out[0], op.Shape[0] * op.Window.H * op.Window.W, op.Out[1] * op.Out[2]
	}
	return op.Out[0], Size(op.Shape), 1
}

// Same says that an image op has windows of k×k at stride one, with margins so that outputs lie as inputs do.
func (op *Op) Same(k int) bool {
	return op.Window == Square(k, 1, k/2) && op.Out[1] == op.Shape[1] && op.Out[2] == op.Shape[2]
}

// Window is the geometry of a convolution or a pool.
type Window struct {
	H, W                 int
	StrideH, StrideW     int
	PadTop, PadBottom    int
	PadLeft, PadRight    int
	DilationH, DilationW int
}

// Square is an undilated k×k window with one stride and symmetric padding.
func Square(k, stride, pad int) Window {
	return Window{k, k, stride, stride, pad, pad, pad, pad, 1, 1}
}

// Out gives the number of window positions over an h×w image, 0 where the
// window does not fit.
func (w Window) Out(h, wd int) (oh, ow int) {
	positions := func(n, k, dilation, stride int) int {
		if free := n - (k-1)*dilation - 1; free >= 0 {
			return free/stride + 1
		}
		return 0
	}
	return positions(h+w.PadTop+w.PadBottom, w.H, w.DilationH, w.StrideH),
		positions(wd+w.PadLeft+w.PadRight, w.W, w.DilationW, w.StrideW)
}

// slide gives the rows and columns of an op's output, which has a window.
func (op *Op) slide() (rows, cols int, err error) {
	w := op.Window
	if len(op.Shape) != 3 || len(op.Out) != 3 {
		return 0, 0, fmt.Errorf("needs channels, rows and columns, has shape %v to %v", op.Shape, op.Out)
	}
	if min(w.H, w.W, w.StrideH, w.StrideW, w.DilationH, w.DilationW) < 1 || min(w.PadTop, w.PadBottom, w.PadLeft, w.PadRight) < 0 ||
		max(w.H, w.W, w.StrideH, w.StrideW, w.DilationH, w.DilationW, w.PadTop, w.PadBottom, w.PadLeft, w.PadRight) > most {
		return 0, 0, fmt.Errorf("has the impossible window %+v", w)
	}
	oh, ow := w.Out(op.Shape[1], op.Shape[2])
	if oh < 1 || ow < 1 {
		return 0, 0, fmt.Errorf("window %d×%d does not fit the %d×%d image", w.H, w.W, op.Shape[1], op.Shape[2])
	}
	return oh, ow, nil
}
