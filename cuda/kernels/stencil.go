package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

// What stencil.cu has in a block, and of which pixels a thread has results.
const (
	stencilThreads = 128
	stencilLines   = 8 // filters or channels of a thread
	stencilPixels  = 8 // side by side
	stencilPlanes  = 4 // in a stage
	stencilStages  = 3
	stencilTaps    = 9
)

// stencils reports whether stencil.cu has a convolution's forward pass and input gradient.
func stencils(op *ir.Op) bool {
	w := op.Window
	w.PadTop, w.PadBottom = 1, 1
	return w == ir.Square(3, 1, 1) && op.Shape[2] <= stencilThreads
}

// stencil is a launch for results of so many planes and rows, as wide as the image.
func stencil(b Batch, op *ir.Op, name string, planes, rows int, args []uint64) Launch {
	cols, lines := op.Shape[2], 64
	if ceil(planes, 32)%2 == 1 {
		lines = 32
	}
	across, strips := ceil(cols, stencilPixels), stencilThreads/(lines/stencilLines)
	// A warp's strips are of one row, if need be of several examples: rows of a window that lie outside are left out by warps.
	bundle := max(1, strips*32/stencilThreads/across)
	down := strips / (across * bundle)
	between := (rows + down - 2) / rows // examples that end before the last row of a block, at most
	if rows%down == 0 {
		between = 0
	}
	slots := (down + 2 + 2*between) * bundle
	l := Launch{
		Module: "stencil", Name: fmt.Sprintf("%s_%d", name, lines),
		Grid: [3]int{ceil(ceil(b.Capacity, bundle)*rows, down), ceil(planes, lines), 1}, Block: [3]int{stencilThreads, 1, 1},
		Args: append(append(args, I(bundle), I(down), I(slots)), geometry(op)...),
	}
	if lines == 64 && cols == stencilPixels {
		l.Name += "_full"
	}
	copies := slots * cols
	if cols%4 == 0 {
		copies /= 4
	}
	image := slots*((cols+7)/4*4) + 16
	l.Shared = 4 * (stencilStages*stencilPlanes*(stencilTaps*(lines+4)+image) + 2*stencilPlanes*copies)
	return l
}
