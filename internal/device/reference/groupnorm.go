package reference

import "github.com/privgrad/privgrad/internal/ir"

// groupNorm has a weight and a bias of each channel.
var groupNorm = normalization(
	func(op *ir.Op) int { return op.Groups },
	func(op *ir.Op, i int) int { return i * op.Shape[0] / ir.Size(op.Shape) },
)
