package devicetest

import (
	"slices"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Programs lists small programs that together use every op, geometry and loss,
// and small networks of the structure of each named model.
func Programs() []*ir.Program {
	return slices.Concat(imagePrograms(), graphPrograms(), modelPrograms())
}

// ProgramsIn are those with which devices are tested in a precision: below float32 these have products that fill the tiles of
// tensor cores, too.
func ProgramsIn(p device.Precision) []*ir.Program {
	if p == device.Float32 {
		return Programs()
	}
	return append(tensorPrograms(), Programs()...)
}

// program is the one of a name.
func program(name string) *ir.Program {
	for _, p := range ProgramsIn(device.TF32) {
		if p.Name == name {
			return p
		}
	}
	return &ir.Program{Name: name} // which no device accepts
}

const ce = ir.SoftmaxCrossEntropy

func pool2(stride int) ir.Window { return ir.Square(2, stride, 0) }

// build is the program that a body writes.
func build(name string, loss ir.Loss, shape []int, body func(b *Builder)) *ir.Program {
	b := NewBuilder(name, loss, shape...)
	body(b)
	return b.Program()
}

// linear is one dense layer.
func linear(name string, loss ir.Loss, in, out int, bias bool) *ir.Program {
	return build(name, loss, []int{in}, func(b *Builder) { b.Dense(ir.Input, out, bias) })
}

// imagePrograms are convolutions and pools of all geometries.
func imagePrograms() []*ir.Program {
	return []*ir.Program{
		build("conv-asymmetric", ce, []int{2, 7, 6}, func(b *Builder) {
			x := b.Conv(ir.Input, 3, ir.Window{H: 3, W: 2, StrideH: 2, StrideW: 1, PadTop: 1, PadLeft: 2, PadRight: 1, DilationH: 1, DilationW: 2}, true)
			x = b.Act(ir.ReLU, x)
			x = b.Conv(x, 4, ir.Window{H: 2, W: 3, StrideH: 1, StrideW: 2, PadBottom: 2, PadRight: 3, DilationH: 2, DilationW: 1}, false)
			b.Dense(b.Act(ir.Tanh, x), 3, true)
		}),
		// More taps than a block of K in a matrix product holds, more output
		// channels than a register tile, more weights than a block of a sum.
		build("conv-deep", ce, []int{40, 4, 4}, func(b *Builder) {
			x := b.Act(ir.Tanh, b.Conv(ir.Input, 7, ir.Square(3, 1, 1), true))
			b.Dense(b.Act(ir.Tanh, b.Conv(x, 3, ir.Square(2, 2, 0), true)), 4, true)
		}),
		build("conv-logits", ce, []int{1, 3, 5}, func(b *Builder) {
			b.Conv(ir.Input, 5, ir.Window{H: 3, W: 5, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, true)
		}),
		build("conv-row", ce, []int{2, 1, 9}, func(b *Builder) {
			x := b.Conv(ir.Input, 4, ir.Window{H: 1, W: 3, StrideH: 1, StrideW: 3, PadLeft: 1, PadRight: 1, DilationH: 1, DilationW: 2}, true)
			b.Dense(b.Act(ir.Sigmoid, x), 2, false)
		}),
		build("maxpool-2x2", ce, []int{2, 6, 7}, func(b *Builder) {
			x := b.Pool(ir.MaxPool, b.Act(ir.Tanh, b.Conv(ir.Input, 3, ir.Square(3, 1, 1), true)), pool2(2))
			b.Dense(x, 3, true)
		}),
		build("maxpool-overlapping", ce, []int{1, 7, 8}, func(b *Builder) {
			x := b.Act(ir.Tanh, b.Conv(ir.Input, 2, ir.Square(2, 1, 0), true))
			x = b.Pool(ir.MaxPool, x, ir.Window{H: 3, W: 2, StrideH: 2, StrideW: 1, PadTop: 2, PadBottom: 1, PadRight: 1, DilationH: 1, DilationW: 1})
			x = b.Act(ir.ReLU, b.Conv(x, 3, ir.Square(2, 1, 1), true))
			b.Dense(b.Pool(ir.MaxPool, x, pool2(1)), 3, true)
		}),
		build("maxpool-input", ce, []int{1, 6, 6}, func(b *Builder) {
			x := b.Pool(ir.MaxPool, ir.Input, ir.Square(3, 2, 1))
			b.Dense(b.Act(ir.ReLU, b.Conv(x, 3, ir.Square(2, 1, 0), true)), 4, true)
		}),
		build("avgpool", ce, []int{2, 7, 6}, func(b *Builder) {
			x := b.Act(ir.Tanh, b.Conv(ir.Input, 3, ir.Square(3, 1, 1), true))
			x = b.Pool(ir.AvgPool, x, ir.Window{H: 3, W: 3, StrideH: 1, StrideW: 2, PadTop: 2, PadLeft: 1, PadRight: 1, DilationH: 1, DilationW: 1})
			x = b.Conv(x, 4, pool2(1), true)
			b.Pool(ir.AvgPool, x, ir.Window{H: 6, W: 2, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1})
		}),
	}
}

// graphPrograms chain ops, join values and read them again, and have all losses.
func graphPrograms() []*ir.Program {
	list := []*ir.Program{
		build("activation-chain", ce, []int{9}, func(b *Builder) {
			x := b.Act(ir.Sigmoid, b.Act(ir.Tanh, b.Dense(ir.Input, 6, true)))
			x = b.Act(ir.ReLU, b.Act(ir.Tanh, b.Dense(x, 6, true)))
			b.Act(ir.Tanh, b.Act(ir.Sigmoid, b.Dense(x, 3, true)))
		}),
		build("residual", ce, []int{2, 4, 4}, func(b *Builder) {
			x := b.Act(ir.ReLU, b.Conv(ir.Input, 3, ir.Square(3, 1, 1), true))
			y := b.Conv(b.Act(ir.ReLU, b.Conv(x, 3, ir.Square(3, 1, 1), true)), 3, ir.Square(3, 1, 1), false)
			b.Dense(b.Act(ir.ReLU, b.Add(y, x)), 3, true)
		}),
		build("residual-dense", ce, []int{7}, func(b *Builder) {
			x := b.Dense(ir.Input, 6, true)
			y := b.Dense(b.Act(ir.Tanh, x), 6, true)
			b.Dense(b.Act(ir.Tanh, b.Add(x, y)), 3, true)
		}),
		// As little as a device may compute by squares of outputs: of what is read again, and with a ReLU.
		build("squares", ce, []int{1, 2, 26}, func(b *Builder) {
			x := b.Act(ir.Tanh, b.Conv(ir.Input, 16, ir.Square(1, 1, 0), true))
			y := b.Act(ir.ReLU, b.Conv(x, 18, ir.Square(3, 1, 1), true))
			y = b.Add(y, b.Conv(x, 18, ir.Square(1, 1, 0), false))
			b.Dense(b.Pool(ir.AvgPool, y, pool2(2)), 3, true)
		}),
		build("residual-input", ce, []int{1, 4, 4}, func(b *Builder) {
			x := b.Add(ir.Input, ir.Input)
			y := b.Add(b.Conv(x, 1, ir.Square(3, 1, 1), true), ir.Input)
			y = b.Add(b.Act(ir.Tanh, ir.Input), b.Conv(y, 1, ir.Square(1, 1, 0), true))
			b.Dense(b.Act(ir.Tanh, y), 3, true)
		}),
		build("twice", ce, []int{6}, func(b *Builder) {
			x := b.Act(ir.Tanh, b.Dense(ir.Input, 5, true))
			x = b.Act(ir.Sigmoid, b.Add(x, x))
			b.Dense(b.Add(x, x), 3, true)
		}),
		build("thrice", ce, []int{1, 4, 5}, func(b *Builder) {
			x := b.Conv(ir.Input, 2, ir.Square(3, 1, 1), true)
			y := b.Add(b.Act(ir.Tanh, x), b.Add(b.Act(ir.ReLU, x), b.Conv(x, 2, ir.Square(3, 1, 1), true)))
			z := b.Pool(ir.MaxPool, y, pool2(1))
			z = b.Add(z, b.Add(b.Pool(ir.AvgPool, y, pool2(1)), b.Conv(y, 2, pool2(1), true)))
			b.Add(b.Add(b.Dense(z, 3, true), b.Dense(z, 3, false)), b.Dense(b.Act(ir.Sigmoid, z), 3, true))
		}),
		build("reshape", ce, []int{10}, func(b *Builder) {
			x := b.Reshape(b.Act(ir.Tanh, b.Dense(ir.Input, 18, true)), 2, 3, 3)
			b.Dense(b.Act(ir.Tanh, b.Conv(x, 3, pool2(1), true)), 3, true)
		}),
		// After a dense layer, another worker may go on with an example.
		build("pool-after-dense", ce, []int{10}, func(b *Builder) {
			x := b.Reshape(b.Act(ir.Tanh, b.Dense(ir.Input, 32, true)), 2, 4, 4)
			b.Dense(b.Act(ir.Tanh, b.Pool(ir.MaxPool, b.Conv(x, 3, ir.Square(3, 1, 1), true), pool2(2))), 3, true)
		}),
		// Wider than the tiles into which a matrix product over the batch is cut.
		build("dense-wide", ce, []int{330}, func(b *Builder) {
			b.Dense(b.Act(ir.ReLU, b.Dense(ir.Input, 210, true)), 3, true)
		}),
		build("dense-no-bias", ce, []int{20}, func(b *Builder) {
			b.Dense(b.Act(ir.Tanh, b.Dense(ir.Input, 17, false)), 10, false)
		}),
	}
	list = append(append(list, normPrograms()...), linePrograms()...)
	for _, loss := range []ir.Loss{ir.Logistic, ir.Hinge, ir.HuberHinge, ir.Huber} {
		list = append(list, linear("linear-"+loss.String(), loss, 13, 1, true), build("mlp-"+loss.String(), loss, []int{1, 2, 4}, func(b *Builder) {
			b.Dense(b.Act(ir.Tanh, b.Dense(ir.Input, 5, true)), 1, true)
		}))
	}
	return list
}

// normPrograms have group normalizations, leaky ReLUs, and the blocks of a residual network.
func normPrograms() []*ir.Program {
	return []*ir.Program{
		build("leaky", ce, []int{2, 6, 6}, func(b *Builder) {
			x := b.Leaky(b.Conv(ir.Input, 3, ir.Square(3, 1, 1), true), 0.1)
			x = b.Leaky(b.Pool(ir.AvgPool, b.Leaky(b.Pool(ir.MaxPool, x, pool2(2)), 0.5), pool2(1)), 0.01)
			x = b.Dense(x, 5, true)
			b.Dense(b.Leaky(b.Add(b.Leaky(x, 0.25), x), 0.75), 3, true)
		}),
		build("group-norm", ce, []int{2, 5, 7}, func(b *Builder) {
			x := b.GroupNorm(b.Conv(ir.Input, 6, ir.Square(3, 1, 1), true), 3, true)
			x = b.GroupNorm(b.Conv(b.Act(ir.ReLU, x), 4, ir.Square(3, 2, 1), false), 4, false)
			b.Dense(b.Act(ir.Tanh, x), 3, true)
		}),
		// Without a convolution; the first is of the input, the last gives the logits.
		build("group-norm-dense", ce, []int{3, 2, 4}, func(b *Builder) {
			x := b.GroupNorm(ir.Input, 1, true)
			x = b.Act(ir.Tanh, b.GroupNorm(b.Dense(x, 12, true), 3, true))
			b.GroupNorm(b.Dense(x, 4, false), 1, true)
		}),
		build("resnet", ce, []int{2, 6, 6}, func(b *Builder) {
			x := b.Act(ir.ReLU, b.GroupNorm(b.Conv(ir.Input, 4, ir.Square(3, 1, 1), true), 2, true))
			y := b.Leaky(b.GroupNorm(b.Conv(x, 6, ir.Square(3, 2, 1), true), 2, true), 0.1)
			y = b.GroupNorm(b.Conv(y, 6, ir.Square(3, 1, 1), true), 3, true)
			y = b.Act(ir.ReLU, b.Add(y, b.Conv(x, 6, ir.Square(1, 2, 0), true))) // a projection
			z := b.GroupNorm(b.Conv(y, 6, ir.Square(3, 1, 1), true), 2, true)
			z = b.Act(ir.Tanh, b.Add(b.GroupNorm(z, 1, true), y)) // one of another
			b.Dense(b.Pool(ir.AvgPool, z, ir.Square(3, 1, 0)), 10, true)
		}),
	}
}

// linePrograms have layer normalizations, GELUs and standardized convolutions.
func linePrograms() []*ir.Program {
	return []*ir.Program{
		build("layer-norm", ce, []int{2, 3, 5}, func(b *Builder) { // of the input, of lines, of a vector, of the logits
			x := b.LayerNorm(ir.Input, true)
			x = b.Act(ir.GELU, b.LayerNorm(b.Conv(x, 3, ir.Square(3, 1, 1), true), false))
			x = b.Dense(b.LayerNorm(b.Reshape(x, 45), true), 7, true)
			b.LayerNorm(b.Dense(b.Act(ir.Tanh, b.Add(x, b.LayerNorm(x, true))), 4, false), true)
		}),
		build("layer-norm-relu", ce, []int{3, 8}, func(b *Builder) { // before it and behind it
			x := b.Act(ir.ReLU, b.LayerNorm(ir.Input, true))
			x = b.LayerNorm(b.Act(ir.ReLU, b.Dense(b.Reshape(x, 24), 12, true)), true)
			b.Dense(b.Act(ir.ReLU, b.LayerNorm(x, false)), 4, true)
		}),
		build("gelu", ce, []int{9}, func(b *Builder) {
			x := b.Act(ir.GELU, b.Dense(ir.Input, 8, true))
			x = b.Act(ir.GELU, b.Act(ir.ReLU, b.Act(ir.GELU, b.Dense(x, 6, true))))
			b.Dense(b.Add(b.Act(ir.GELU, x), b.Act(ir.Tanh, x)), 3, true)
		}),
		build("standard-conv", ce, []int{2, 6, 6}, func(b *Builder) {
			x := b.Act(ir.ReLU, b.StandardConv(ir.Input, 4, ir.Square(3, 1, 1), true))
			x = b.StandardConv(b.Pool(ir.MaxPool, x, pool2(2)), 5, ir.Square(2, 1, 0), false)
			b.Dense(b.Act(ir.Tanh, x), 3, true)
		}),
		// A block of a wide residual network: activation, normalization, standardized convolution.
		build("wrn", ce, []int{2, 6, 6}, func(b *Builder) {
			x := b.StandardConv(ir.Input, 4, ir.Square(3, 1, 1), true)
			y := b.GroupNorm(b.Act(ir.ReLU, x), 2, true)
			z := b.GroupNorm(b.Act(ir.ReLU, b.StandardConv(y, 6, ir.Square(3, 2, 1), true)), 2, true)
			z = b.Add(b.StandardConv(z, 6, ir.Square(3, 1, 1), true), b.StandardConv(y, 6, ir.Square(1, 2, 0), true))
			b.Dense(b.Pool(ir.AvgPool, b.Act(ir.ReLU, z), ir.Square(3, 1, 0)), 10, true)
		}),
		// Of the size that a device may compute by squares of outputs, and behind a maximum pool that picks.
		build("standard-squares", ce, []int{1, 2, 26}, func(b *Builder) {
			x := b.Act(ir.Tanh, b.Conv(ir.Input, 16, ir.Square(1, 1, 0), true))
			y := b.Act(ir.GELU, b.StandardConv(x, 18, ir.Square(3, 1, 1), true))
			b.Dense(b.Pool(ir.AvgPool, y, pool2(2)), 3, true)
		}),
	}
}

// modelPrograms copies the structure of the named models at a fraction of
// their size.
func modelPrograms() []*ir.Program {
	mlp := func(name string, hidden ...int) *ir.Program {
		return build(name, ce, []int{1, 6, 6}, func(b *Builder) {
			x := ir.Input
			for _, h := range hidden {
				x = b.Act(ir.Tanh, b.Dense(x, h, true))
			}
			b.Dense(x, 10, true)
		})
	}
	cifar := func(name string, dense ...int) *ir.Program {
		return build(name, ce, []int{3, 8, 8}, func(b *Builder) {
			x := ir.Input
			for _, c := range []int{3, 4, 5} {
				x = b.Act(ir.ReLU, b.Conv(x, c, ir.Square(3, 1, 1), true))
				x = b.Act(ir.ReLU, b.Conv(x, c, ir.Square(3, 1, 1), true))
				x = b.Pool(ir.MaxPool, x, pool2(2))
			}
			for _, d := range dense {
				x = b.Act(ir.ReLU, b.Dense(x, d, true))
			}
			b.Dense(x, 10, true)
		})
	}
	return []*ir.Program{
		mlp("mlp-mnist", 24),
		mlp("mlp-fmnist", 12, 12),
		LeNet("cnn-mnist", 16, 3, 4, 12, 8),
		build("mnist-tf", ce, []int{1, 18, 18}, func(b *Builder) {
			x := b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(ir.Input, 3, ir.Square(8, 2, 3), true)), pool2(1))
			x = b.Pool(ir.MaxPool, b.Act(ir.ReLU, b.Conv(x, 4, ir.Square(4, 2, 0), true)), pool2(1))
			b.Dense(b.Act(ir.ReLU, b.Dense(x, 6, true)), 10, true)
		}),
		cifar("cifar-small", 6),
		cifar("cifar-paper", 8, 6),
	}
}

// LeNet has the structure of cnn-mnist over size×size images; cnn-mnist itself
// is LeNet(…, 28, 6, 16, 256, 128).
func LeNet(name string, size, conv1, conv2, fc1, fc2 int) *ir.Program {
	return build(name, ce, []int{1, size, size}, func(b *Builder) {
		x := b.Pool(ir.MaxPool, b.Act(ir.Tanh, b.Conv(ir.Input, conv1, ir.Square(5, 1, 0), true)), pool2(2))
		x = b.Pool(ir.MaxPool, b.Act(ir.Tanh, b.Conv(x, conv2, ir.Square(5, 1, 0), true)), pool2(2))
		x = b.Act(ir.Tanh, b.Dense(x, fc1, true))
		b.Dense(b.Act(ir.Tanh, b.Dense(x, fc2, true)), 10, true)
	})
}

// tensorPrograms have convolutions that fill the tiles of tensor cores: in tf32 devices leave what does not to float32. Their
// values are smooth functions of what is rounded, but for one ReLU. It is of a sum of products of the input, which is exact in every
// precision, and of weights, which all devices round alike: so every device has it on the same side of zero. A kink further in would
// be a coin toss. What a device writes between two ops it may round or not, which moves a value of 1 by some 2^-12 in tf32; so in a
// layer of 1,000 values one in four records has one on the other side, which changes the sum by a percent.
func tensorPrograms() []*ir.Program {
	three := ir.Square(3, 1, 1)
	return []*ir.Program{
		build("tensor-plain", ce, []int{24, 4, 16}, func(b *Builder) {
			x := b.Act(ir.GELU, b.Conv(ir.Input, 24, three, true)) // behind which no trunk goes on
			x = b.Act(ir.Tanh, b.Conv(x, 26, three, true))         // of no whole number of tiles
			b.Dense(b.Pool(ir.AvgPool, b.Conv(x, 17, three, false), pool2(2)), 3, true)
		}),
		build("tensor-residual", ce, []int{2, 4, 16}, func(b *Builder) {
			x := b.Act(ir.Tanh, b.GroupNorm(b.Conv(ir.Input, 24, three, true), 4, true))
			y := b.Act(ir.GELU, b.GroupNorm(b.Conv(x, 24, three, false), 4, true))
			y = b.GroupNorm(b.StandardConv(y, 24, three, true), 4, true)
			b.Dense(b.Pool(ir.AvgPool, b.Act(ir.Tanh, b.Add(y, x)), ir.Window{H: 4, W: 16, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}), 5, true)
		}),
		// A value that is read twice; strides of 2, and windows of a pixel.
		build("tensor-twice", ce, []int{24, 4, 16}, func(b *Builder) {
			x := b.Act(ir.Tanh, b.Conv(ir.Input, 24, three, true))
			y := b.Act(ir.Tanh, b.Conv(x, 24, three, true))
			y = b.Add(b.Conv(y, 64, ir.Square(3, 2, 1), true), b.Conv(x, 64, ir.Square(1, 2, 0), false))
			b.Dense(b.Act(ir.GELU, y), 3, true)
		}),
	}
}
