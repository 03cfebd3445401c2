package ir

import "fmt"

// deskew shears an image upright (LeCun, Bottou, Bengio and Haffner 1998, section III.A). With brightness b at height y and
// place x from the middle, in all channels, m = Σb (at least DeskewLeast), μ = Σby/m and
//
//	slant = (Σbyx − μ·Σbx) / (Σby² − μ·Σby + DeskewFloor·m)
//
// the pixel at (y, x) becomes what the line through it has at x + slant·(y − μ), interpolated between two pixels, with
// zeros beyond its ends.
var deskew = definition{
	name:   "deskew",
	inputs: 1,
	shapes: func(op *Op) (shapes, error) {
		if len(op.Shape) != 3 {
			return shapes{}, fmt.Errorf("needs channels, rows and columns, has shape %v", op.Shape)
		}
		return sameShape(op)
	},
	flops:   perOutput(12),
	forward: true,
}

const (
	DeskewFloor = .1   // added to the variance of heights, in pixels²: one row of pixels has no slant
	DeskewLeast = 1e-6 // brightness of a blank image, which stays as it is
)
