package kernels

import "github.com/privgrad/privgrad/internal/ir"

// What cells.cu has.
const (
	Cells        = 4  // over which it adds, for each excess
	cellsEach    = 64 // atoms of a block
	cellsThreads = 256
	cellsShared  = 48 << 10 // bytes that every GPU gives a block
)

// HasCells reports whether CellMeans takes so many places.
func HasCells(places int) bool { return 4*(Cells+1)*places <= cellsShared }

// An Excess is max(Weight·v + Bias, 0), of values v.
type Excess struct{ Weight, Bias float32 }

// CellMeans is Σ_i share[c][i]·excess(x[i]/by[i]) over the places i of a plane: for each channel of the products x, which have the op's shape, for both
// excesses and for the cells c = 0 … Cells−1. The results lie [excess][channel][cell]. The quotient is x·(1/by), rounded twice. A lane adds every 32nd
// place in order, fused from zero, then lanes add in a tree of halves.
func CellMeans(b Batch, op *ir.Op, x, by, share Ptr, of [2]Excess, y Ptr) Launch {
	places := ir.Size(op.Shape[1:])
	return Launch{
		Module: "cells", Name: "cells", Shared: 4 * (Cells + 1) * places,
		Grid: [3]int{b.Capacity, ceil(op.Shape[0], cellsEach), 1}, Block: [3]int{cellsThreads, 1, 1},
		Args: b.args(x, by, share, F(of[0].Weight), F(of[0].Bias), F(of[1].Weight), F(of[1].Bias), y, I(op.Shape[0]), I(places)),
	}
}
