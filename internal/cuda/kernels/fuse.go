package kernels

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// noActivation is what kernels take where there is none to fuse.
const noActivation ir.Kind = 0

// fused are the activations that launches of others can do, as activation.cuh has them.
var fused = [...]ir.Kind{ir.ReLU, ir.Tanh, ir.Sigmoid}

// Fusible says of an op that it is one of them, if FusesForward or FusesBackward say so.
func Fusible(act ir.Kind) bool { return slices.Contains(fused[:], act) }

// FusesForward reports whether the launch of an op's forward pass can do the activation
// behind it too. Kernels with many results a thread would grow by what tanh takes for each.
func FusesForward(op *ir.Op, act ir.Kind) bool {
	switch op.Kind {
	case ir.Dense:
		return true
	case ir.Conv:
		return act == ir.ReLU
	}
	return false
}
