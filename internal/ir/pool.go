package ir

import "fmt"

// pool is the maximum of a window, in which padding never wins and a tie goes to the first in row-major order, or the
// mean over the whole window, padding counted as zeros.
func pool(name string) definition {
	return definition{name: name, inputs: 1, shapes: poolShapes, flops: func(op *Op) int64 {
		return int64(Size(op.Out)) * int64(op.Window.H*op.Window.W)
	}}
}

func poolShapes(op *Op) (shapes, error) {
	oh, ow, err := op.slide()
	if err != nil {
		return shapes{}, err
	}
	w := op.Window
	if max(w.PadTop, w.PadBottom) >= w.H || max(w.PadLeft, w.PadRight) >= w.W {
		return shapes{}, fmt.Errorf("pool %d×%d is padded by a whole window; some would see no pixel", w.H, w.W)
	}
	if w.DilationH != 1 || w.DilationW != 1 {
		return shapes{}, fmt.Errorf("pool %d×%d is dilated; only convolutions can be", w.H, w.W)
	}
	return shapes{out: []int{op.Shape[0], oh, ow}}, nil
}
