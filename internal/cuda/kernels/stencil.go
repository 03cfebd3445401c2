package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/ir"
)

// What stencil.cu has in a block, and of which pixels a thread has results.
const (
	stencilThreads = 128
	stencilPixels  = 8 // side by side
	stencilPlanes  = 4 // in a stage, at most
	stencilStages  = 3 // at most
	stencilMargin  = 4
	stencilShared  = 96 << 10 // bytes of shared memory, at most
)

// stencils reports whether stencil.cu has a convolution's forward pass and input gradient: of 3×3 windows that leave rows as
// long as they are, and of 5×5 windows that read no column of padding.
func stencils(op *ir.Op) bool {
	w := op.Window
	w.PadTop, w.PadBottom = w.PadLeft, w.PadLeft
	return (w == ir.Square(3, 1, 1) || w == ir.Square(5, 1, 0)) && op.Shape[2] <= stencilThreads
}

// A stencilTile is what a block has: lines, which are filters or channels, by strips of pixels.
type stencilTile struct {
	name          string
	lines, strips int
}

// stencilTileOf chooses the tile for so many lines of pixels; the order of a sum does not depend on it.
func stencilTileOf(window, lines, cols int) stencilTile {
	switch {
	case window == 5 && lines <= 8:
		return stencilTile{"5_8", 8, 64}
	case window == 5:
		return stencilTile{"5_16", 16, 32}
	case ceil(lines, 32)%2 == 1:
		return stencilTile{"3_32", 32, 32}
	case cols == stencilPixels:
		return stencilTile{"3_64_full", 64, 16}
	default:
		return stencilTile{"3_64", 64, 16}
	}
}

// stencil is a launch that makes images of the shape to out of those of the shape from.
func stencil(b Batch, op *ir.Op, name string, from, to []int, args []uint64) Launch {
	window := op.Window.H
	t := stencilTileOf(window, to[0], to[2])
	across := ceil(to[2], stencilPixels)
	// A warp's strips are of one row, if need be of several examples: rows of a window that lie outside are left out by warps.
	bundle := min(max(1, t.strips*32/stencilThreads/across), b.Capacity)
	down := t.strips / (across * bundle)
	slots, shared := t.memory(window, bundle, down, from, to)
	for shared > stencilShared { // tiny images
		if down > 1 {
			down--
		} else {
			bundle--
		}
		slots, shared = t.memory(window, bundle, down, from, to)
	}
	return Launch{
		Module: "stencil", Name: fmt.Sprintf("stencil_%s_%s", name, t.name), Shared: shared,
		Grid: [3]int{ceil(ceil(b.Capacity, bundle)*to[1], down), ceil(to[0], t.lines), 1}, Block: [3]int{stencilThreads, 1, 1},
		Args: append(append(args, I(bundle), I(down), I(slots)), geometry(op)...),
	}
}

// memory is how many rows of images a block reads, and the bytes of its shared memory.
func (t stencilTile) memory(window, bundle, down int, from, to []int) (slots, bytes int) {
	between := (to[1] + down - 2) / to[1] // examples that end before the last row of a block, at most
	if to[1]%down == 0 {
		between = 0
	}
	slots = (down + (window-1)*(1+between)) * bundle
	copies := slots * from[2]
	if from[2]%4 == 0 {
		copies /= 4
	}
	planes, stages := min(from[0], stencilPlanes), min(ceil(from[0], stencilPlanes), stencilStages)
	stage := stencilPlanes*window*window*(t.lines+stencilMargin) + planes*(slots*((from[2]+7)/4*4)+16)
	return slots, 4 * (stages*stage + 2*planes*copies)
}
