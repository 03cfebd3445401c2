package devicetest

import "github.com/privgrad/privgrad/internal/plan"

// Programs lists small programs that together use every op, geometry and loss,
// and small networks of the structure of each named model.
func Programs() []*plan.Program {
	return append(opPrograms(), modelPrograms()...)
}

// program is the one of a name.
func program(name string) *plan.Program {
	for _, p := range Programs() {
		if p.Name == name {
			return p
		}
	}
	return &plan.Program{Name: name} // which no device accepts
}

const ce = plan.SoftmaxCrossEntropy

func pool2(stride int) plan.Window { return plan.Square(2, stride, 0) }

func opPrograms() []*plan.Program {
	var list []*plan.Program
	build := func(name string, loss plan.Loss, shape []int, body func(b *Builder)) {
		b := NewBuilder(name, loss, shape...)
		body(b)
		list = append(list, b.Program())
	}

	build("conv-asymmetric", ce, []int{2, 7, 6}, func(b *Builder) {
		x := b.Conv(plan.Input, 3, plan.Window{H: 3, W: 2, StrideH: 2, StrideW: 1, PadTop: 1, PadLeft: 2, PadRight: 1, DilationH: 1, DilationW: 2}, true)
		x = b.Act(plan.ReLU, x)
		x = b.Conv(x, 4, plan.Window{H: 2, W: 3, StrideH: 1, StrideW: 2, PadBottom: 2, PadRight: 3, DilationH: 2, DilationW: 1}, false)
		b.Dense(b.Act(plan.Tanh, x), 3, true)
	})
	// More taps than a block of K in a matrix product holds, more output
	// channels than a register tile, more weights than a block of a sum.
	build("conv-deep", ce, []int{40, 4, 4}, func(b *Builder) {
		x := b.Act(plan.Tanh, b.Conv(plan.Input, 7, plan.Square(3, 1, 1), true))
		b.Dense(b.Act(plan.Tanh, b.Conv(x, 3, plan.Square(2, 2, 0), true)), 4, true)
	})
	build("conv-logits", ce, []int{1, 3, 5}, func(b *Builder) {
		b.Conv(plan.Input, 5, plan.Window{H: 3, W: 5, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, true)
	})
	build("conv-row", ce, []int{2, 1, 9}, func(b *Builder) {
		x := b.Conv(plan.Input, 4, plan.Window{H: 1, W: 3, StrideH: 1, StrideW: 3, PadLeft: 1, PadRight: 1, DilationH: 1, DilationW: 2}, true)
		b.Dense(b.Act(plan.Sigmoid, x), 2, false)
	})
	build("maxpool-2x2", ce, []int{2, 6, 7}, func(b *Builder) {
		x := b.Pool(plan.MaxPool, b.Act(plan.Tanh, b.Conv(plan.Input, 3, plan.Square(3, 1, 1), true)), pool2(2))
		b.Dense(x, 3, true)
	})
	build("maxpool-overlapping", ce, []int{1, 7, 8}, func(b *Builder) {
		x := b.Act(plan.Tanh, b.Conv(plan.Input, 2, plan.Square(2, 1, 0), true))
		x = b.Pool(plan.MaxPool, x, plan.Window{H: 3, W: 2, StrideH: 2, StrideW: 1, PadTop: 2, PadBottom: 1, PadRight: 1, DilationH: 1, DilationW: 1})
		x = b.Act(plan.ReLU, b.Conv(x, 3, plan.Square(2, 1, 1), true))
		b.Dense(b.Pool(plan.MaxPool, x, pool2(1)), 3, true)
	})
	build("maxpool-input", ce, []int{1, 6, 6}, func(b *Builder) {
		x := b.Pool(plan.MaxPool, plan.Input, plan.Square(3, 2, 1))
		b.Dense(b.Act(plan.ReLU, b.Conv(x, 3, plan.Square(2, 1, 0), true)), 4, true)
	})
	build("avgpool", ce, []int{2, 7, 6}, func(b *Builder) {
		x := b.Act(plan.Tanh, b.Conv(plan.Input, 3, plan.Square(3, 1, 1), true))
		x = b.Pool(plan.AvgPool, x, plan.Window{H: 3, W: 3, StrideH: 1, StrideW: 2, PadTop: 2, PadLeft: 1, PadRight: 1, DilationH: 1, DilationW: 1})
		x = b.Conv(x, 4, pool2(1), true)
		b.Pool(plan.AvgPool, x, plan.Window{H: 6, W: 2, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1})
	})
	build("activation-chain", ce, []int{9}, func(b *Builder) {
		x := b.Act(plan.Sigmoid, b.Act(plan.Tanh, b.Dense(plan.Input, 6, true)))
		x = b.Act(plan.ReLU, b.Act(plan.Tanh, b.Dense(x, 6, true)))
		b.Act(plan.Tanh, b.Act(plan.Sigmoid, b.Dense(x, 3, true)))
	})
	build("residual", ce, []int{2, 4, 4}, func(b *Builder) {
		x := b.Act(plan.ReLU, b.Conv(plan.Input, 3, plan.Square(3, 1, 1), true))
		y := b.Conv(b.Act(plan.ReLU, b.Conv(x, 3, plan.Square(3, 1, 1), true)), 3, plan.Square(3, 1, 1), false)
		b.Dense(b.Act(plan.ReLU, b.Add(y, x)), 3, true)
	})
	build("residual-dense", ce, []int{7}, func(b *Builder) {
		x := b.Dense(plan.Input, 6, true)
		y := b.Dense(b.Act(plan.Tanh, x), 6, true)
		b.Dense(b.Act(plan.Tanh, b.Add(x, y)), 3, true)
	})
	build("residual-input", ce, []int{1, 4, 4}, func(b *Builder) {
		x := b.Add(plan.Input, plan.Input)
		y := b.Add(b.Conv(x, 1, plan.Square(3, 1, 1), true), plan.Input)
		b.Dense(b.Act(plan.Tanh, y), 3, true)
	})
	build("twice", ce, []int{6}, func(b *Builder) {
		x := b.Act(plan.Tanh, b.Dense(plan.Input, 5, true))
		x = b.Act(plan.Sigmoid, b.Add(x, x))
		b.Dense(b.Add(x, x), 3, true)
	})
	build("thrice", ce, []int{1, 4, 5}, func(b *Builder) {
		x := b.Conv(plan.Input, 2, plan.Square(3, 1, 1), true)
		y := b.Add(b.Act(plan.Tanh, x), b.Add(b.Act(plan.ReLU, x), b.Conv(x, 2, plan.Square(3, 1, 1), true)))
		z := b.Pool(plan.MaxPool, y, pool2(1))
		z = b.Add(z, b.Add(b.Pool(plan.AvgPool, y, pool2(1)), b.Conv(y, 2, pool2(1), true)))
		b.Add(b.Add(b.Dense(z, 3, true), b.Dense(z, 3, false)), b.Dense(b.Act(plan.Sigmoid, z), 3, true))
	})
	build("reshape", ce, []int{10}, func(b *Builder) {
		x := b.Reshape(b.Act(plan.Tanh, b.Dense(plan.Input, 18, true)), 2, 3, 3)
		b.Dense(b.Act(plan.Tanh, b.Conv(x, 3, pool2(1), true)), 3, true)
	})
	// Wider than the tiles into which a matrix product over the batch is cut.
	build("dense-wide", ce, []int{330}, func(b *Builder) {
		b.Dense(b.Act(plan.ReLU, b.Dense(plan.Input, 210, true)), 3, true)
	})
	build("dense-no-bias", ce, []int{20}, func(b *Builder) {
		b.Dense(b.Act(plan.Tanh, b.Dense(plan.Input, 17, false)), 10, false)
	})
	for _, loss := range []plan.Loss{plan.Logistic, plan.Hinge, plan.HuberHinge, plan.Huber} {
		build("linear-"+loss.String(), loss, []int{13}, func(b *Builder) { b.Dense(plan.Input, 1, true) })
		build("mlp-"+loss.String(), loss, []int{1, 2, 4}, func(b *Builder) {
			b.Dense(b.Act(plan.Tanh, b.Dense(plan.Input, 5, true)), 1, true)
		})
	}
	return list
}

// modelPrograms copies the structure of the named models at a fraction of
// their size.
func modelPrograms() []*plan.Program {
	mlp := func(name string, hidden ...int) *plan.Program {
		b := NewBuilder(name, ce, 1, 6, 6)
		x := plan.Input
		for _, h := range hidden {
			x = b.Act(plan.Tanh, b.Dense(x, h, true))
		}
		b.Dense(x, 10, true)
		return b.Program()
	}
	cifar := func(name string, channels []int, dense ...int) *plan.Program {
		b := NewBuilder(name, ce, 3, 8, 8)
		x := plan.Input
		for i, c := range channels {
			x = b.Act(plan.ReLU, b.Conv(x, c, plan.Square(3, 1, 1), true))
			if i%2 == 1 {
				x = b.Pool(plan.MaxPool, x, pool2(2))
			}
		}
		for _, d := range dense {
			x = b.Act(plan.ReLU, b.Dense(x, d, true))
		}
		b.Dense(x, 10, true)
		return b.Program()
	}
	return []*plan.Program{
		mlp("mlp-mnist", 24),
		mlp("mlp-fmnist", 12, 12),
		LeNet("cnn-mnist", 16, 3, 4, 12, 8),
		mnistTF(),
		cifar("cifar-small", []int{3, 3, 4, 4, 5, 5}, 6),
		cifar("cifar-paper", []int{3, 3, 4, 4, 5, 5}, 8, 6),
	}
}

// LeNet has the structure of cnn-mnist over size×size images; cnn-mnist itself
// is LeNet(…, 28, 6, 16, 256, 128).
func LeNet(name string, size, conv1, conv2, fc1, fc2 int) *plan.Program {
	b := NewBuilder(name, ce, 1, size, size)
	x := b.Pool(plan.MaxPool, b.Act(plan.Tanh, b.Conv(plan.Input, conv1, plan.Square(5, 1, 0), true)), pool2(2))
	x = b.Pool(plan.MaxPool, b.Act(plan.Tanh, b.Conv(x, conv2, plan.Square(5, 1, 0), true)), pool2(2))
	x = b.Act(plan.Tanh, b.Dense(x, fc1, true))
	b.Dense(b.Act(plan.Tanh, b.Dense(x, fc2, true)), 10, true)
	return b.Program()
}

func mnistTF() *plan.Program {
	b := NewBuilder("mnist-tf", ce, 1, 18, 18)
	x := b.Pool(plan.MaxPool, b.Act(plan.ReLU, b.Conv(plan.Input, 3, plan.Square(8, 2, 3), true)), pool2(1))
	x = b.Pool(plan.MaxPool, b.Act(plan.ReLU, b.Conv(x, 4, plan.Square(4, 2, 0), true)), pool2(1))
	b.Dense(b.Act(plan.ReLU, b.Dense(x, 6, true)), 10, true)
	return b.Program()
}
