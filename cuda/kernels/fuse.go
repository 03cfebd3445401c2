package kernels

import "github.com/privgrad/privgrad/internal/plan"

// noActivation is what kernels take where there is none to fuse.
const noActivation plan.Kind = 0

// FusesForward reports whether the launch of an op's forward pass can do the activation
// behind it too. Kernels with many results a thread would grow by what tanh takes for each.
func FusesForward(op *plan.Op, act plan.Kind) bool {
	switch op.Kind {
	case plan.Dense:
		return !large(op)
	case plan.Conv:
		return act == plan.ReLU
	}
	return false
}

// FusesBackward reports whether the launch of an op's input gradient can take it on
// through the activation that gave the input.
func FusesBackward(op *plan.Op, act plan.Kind) bool {
	return FusesForward(op, act) || op.Kind == plan.MaxPool || op.Kind == plan.AvgPool
}
