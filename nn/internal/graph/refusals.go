package graph

import (
	"slices"

	G "gorgonia.org/gorgonia"
)

// Unsupported gives the reason for which ops of n's type never lower, or nil.
func Unsupported(n *G.Node) error {
	if _, own := n.Op().(Op); own {
		return nil
	}
	switch t := Type(n); t {
	case Leaf, Constant, Reshape, Transpose, Repeat, Size, LinAlg, Binary, Unary, Im2col, MaxPool, AvgPool, GlobalAvg, GroupNorm:
		return nil
	case "*gorgonia.BatchNormOp":
		return Refuse(n, "batch normalization mixes the examples of a batch, so that no gradient belongs to one example; use nn.GroupNorm in its place, which normalizes each example by itself")
	case "*gorgonia.dropoutOp":
		return Refuse(n, "dropout is not supported (gorgonia v0.9.18 also makes one node of two dropouts with different probabilities); leave it out, the noise of private training regularises too")
	case "*gorgonia.softmaxOp":
		if FieldsOf(n).Int("axis") == 0 {
			return Refuse(n, "a softmax along the batch axis mixes examples; pass the node before it, the logits, and choose the loss with WithLoss")
		}
		return Refuse(n, "the loss takes the softmax itself; pass the node before it, the logits, and choose the loss with WithLoss (gorgonia v0.9.18 returns the SoftMax node for a LogSoftMax of the same input)")
	case "gorgonia.sumOp", "*gorgonia.sumOp", "gorgonia.maxOp", "*gorgonia.maxOp":
		if slices.Contains(FieldsOf(n).Ints("along"), 0) {
			return Refuse(n, "it reduces along the batch axis and so mixes examples; pass the logits, not the cost, and choose the loss with WithLoss")
		}
		return Refuse(n, "reductions are not supported; use GlobalAveragePool2D for a mean over positions")
	case "gorgonia.constantTensor":
		return Refuse(n, "constants are not supported; make it a parameter, or fold it into the data")
	default:
		return Refuse(n, "this op is not supported; supported are Conv2d, Mul, BroadcastAdd, Add, Rectify, LeakyRelu, Tanh, Sigmoid, GroupNorm, MaxPool2D, AveragePool2D, GlobalAveragePool2D and Reshape, and the layers of package nn")
	}
}
