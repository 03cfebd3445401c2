package kernels

import "github.com/privgrad/privgrad/internal/ir"

// noActivation is what kernels take where there is none to fuse.
const noActivation ir.Kind = 0

// Fusible says of an op that it is an activation that launches of others can do, if FusesForward or FusesBackward say so.
// They know nothing of a leaky ReLU's slope.
func Fusible(act ir.Kind) bool { return act.Activation() && act != ir.LeakyReLU }

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
