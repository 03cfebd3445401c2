// Package nn turns a Gorgonia graph into a network that privgrad can train:
//
//	network, err := nn.Lower(logits, nn.WithName("mine")) // for train.Options.Network
//
// It also builds the named models (Build), and has layers such as Conv, StandardConv, GroupNorm, LayerNorm, GELU and
// Residual.
//
// A graph's input is a float32 or float64 node whose axis 0 is the batch:
// (N, C, H, W) for images, (N, n) for vectors, or any other per-example
// shape, which counts as a vector. The batch axis stays first from the input
// to the logits, and no op may let one example see another, or a gradient
// would not belong to one example and could not be clipped.
//
// # Layer conventions
//
// The named models pool over 2×2 windows with stride 2 (mnist-tf: stride 1),
// pad 3×3 convolutions by 1, flatten in the order C, H, W, and put the
// activation after every convolution and dense layer but the last. Node names
// are conv1.weight, conv1.bias, …, fc1.weight, fc1.bias, …, numbered per kind
// in network order. A convolution's weight node is (out, in, kh, kw) and its
// bias (1, out, 1, 1); that of StandardConv has a gain (out, 1, 1, 1), too, which
// stands behind weight and bias in the table. A dense layer's weight node is stored
// (in, out), as Gorgonia multiplies it, and its bias (1, out). The Program's parameter table
// and the flat vectors of Network are in PyTorch's layout throughout:
// (out, in, kh, kw), (out, in) and (out).
//
// # What lowers
//
// Conv2d and Conv1d with padding, stride and dilation; Mul with a weight in
// either orientation, reshaped or transposed; a bias by BroadcastAdd or Add;
// Rectify, LeakyRelu, Tanh, Sigmoid; MaxPool2D, AveragePool2D, GlobalAveragePool2D;
// GroupNorm, times a scale and plus a shift of each channel; the nodes of LayerNorm, GELU and StandardConv, which are ops
// of this package's own, among any others; Reshape that keeps the batch axis first;
// Add of two activations, with which Residual makes the blocks of residual networks. Everything
// else is refused with an error that names the node and says what to do. Batch
// normalization is refused too, for it mixes examples; GroupNorm takes its place.
//
// Gorgonia v0.9.18 differs from its documentation in places that a lowered
// model must not inherit silently. AveragePool2D divides by the width of the
// image instead of the size of the window (AvgPool corrects it). Pools with
// four paddings swap top with bottom and left with right (refused). Its GroupNorm
// computes a wrong variance for groups of more than 256 elements (refused; this package's
// GroupNorm is right), and makes one node of two that differ in epsilon alone. LogSoftMax
// after SoftMax of one node gives the SoftMax node, and two Dropouts with
// different probabilities become one (both ops are refused). MaxPool2D with
// padding or overlapping windows can panic in Gorgonia's backward pass, which
// nothing here runs: such pools lower and train as any other.
package nn
