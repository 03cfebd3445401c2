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

// FusesForwardInPixels and FusesBackwardInPixels are FusesForward and FusesBackward of ops in pixels.
func FusesForwardInPixels(op *ir.Op, act ir.Kind) bool {
	return act == ir.ReLU && (Products(op) || op.Kind == ir.GroupNorm || op.Kind == ir.Add)
}

func FusesBackwardInPixels(op *ir.Op, act ir.Kind) bool {
	return act == ir.ReLU && (Products(op) || op.Kind == ir.MaxPool || op.Kind == ir.AvgPool || op.Kind == ir.GroupNorm)
}

// FusesBackward reports whether the launch of an op's input gradient can take it on
// through the activation that gave the input.
func FusesBackward(op *ir.Op, act ir.Kind) bool {
	return FusesForward(op, act) || op.Kind == ir.MaxPool || op.Kind == ir.AvgPool
}

// FusesForward reports whether the launch of an op's forward pass can do the activation
// behind it too. Kernels with many results a thread would grow by what tanh takes for each.
func FusesForward(op *ir.Op, act ir.Kind) bool {
	switch op.Kind {
	case ir.Dense:
		return true
	case ir.Conv, ir.GroupNorm, ir.LayerNorm:
		return act == ir.ReLU
	}
	return false
}
