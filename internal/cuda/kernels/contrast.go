package kernels

import "github.com/privgrad/privgrad/internal/ir"

// Contrast is √(max(mean(x²) − mean(x)², 0) + Epsilon) of the window at every position, through all channels. It computes in float64 and
// rounds once: means of flat windows cancel.
func Contrast(b Batch, op *ir.Op, x, y Ptr) Launch {
	w, size := op.Window, ir.Size(op.Out)
	return line("contrast", "contrast", ceil(b.Capacity*size, pointwiseThreads), pointwiseThreads,
		b.args(x, y, I(op.Shape[0]), I(op.Shape[1]), I(op.Shape[2]), I(w.H), I(w.W), I(w.StrideH), I(w.StrideW), I(op.Out[2]), D(op.Epsilon), I(size))...)
}
