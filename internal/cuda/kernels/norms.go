package kernels

import "github.com/privgrad/privgrad/internal/ir"

// Ghost is what NormGhost takes, or Factors: that adds it to a group's norm at once, this to Norm2.
type Ghost struct {
	Op    *ir.Op
	X, Dy Ptr
	Norm2 Ptr
	Group int
}

// MostGhosts is how many dense ops NormGhosts and Factors take.
const MostGhosts = 4

// NormGhosts is NormGhost of a few ops, with different places for their norms, in one launch.
func NormGhosts(b Batch, g ...Ghost) Launch {
	l := Launch{Module: "norms", Name: "norm_ghost", Grid: [3]int{b.Capacity, len(g), 1}, Block: [3]int{2 * warp, 1, 1}, Args: b.args()}
	l.Args = append(l.Args, ghostArgs(g, func(i int) uint64 { return g[i].Norm2 })...)
	return l
}

// ghostArgs are the parameters GHOSTS of squares.cuh.
func ghostArgs(g []Ghost, more func(i int) uint64) []uint64 {
	var args []uint64
	for i := range MostGhosts {
		if i >= len(g) {
			args = append(args, 0, 0, 0, 0, 0, 0)
			continue
		}
		out, in, _ := g[i].Op.Columns()
		args = append(args, g[i].X, g[i].Dy, more(i), I(in), I(out), flag(g[i].Op.Bias != ir.None))
	}
	return args
}
