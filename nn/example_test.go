package nn_test

import (
	"fmt"
	"log"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/nn"
)

// A residual network of one's own: blocks of layers with a sum around them, and a 1×1 convolution as the shortcut of a
// block that changes the shape. Group normalization stands where others have batch normalization.
func ExampleResidual() {
	g := gorgonia.NewGraph()
	x := gorgonia.NewTensor(g, tensor.Float32, 4, gorgonia.WithShape(1, 3, 32, 32), gorgonia.WithName("x"))
	init := nn.He(1)
	logits, err := nn.Apply(x,
		nn.Conv("stem", 16, 3, 1, 1, init), nn.GroupNorm("stem.norm", 2), nn.LeakyReLU(0.1),
		nn.Residual(nil,
			nn.Conv("a1", 16, 3, 1, 1, init), nn.GroupNorm("a1.norm", 2), nn.LeakyReLU(0.1), nn.Conv("a2", 16, 3, 1, 1, init)),
		nn.Residual(nn.Conv("b.shortcut", 32, 1, 2, 0, init),
			nn.Conv("b1", 32, 3, 2, 1, init), nn.GroupNorm("b1.norm", 4), nn.LeakyReLU(0.1), nn.Conv("b2", 32, 3, 1, 1, init)),
		nn.GlobalAvgPool, nn.Flatten, nn.Dense("logits", 10, init))
	if err != nil {
		log.Fatal(err)
	}
	network, err := nn.Lower(logits, nn.WithName("mine"))
	if err != nil {
		log.Fatal(err)
	}
	for _, op := range network.Program.Ops {
		fmt.Println(op.Name, op.Out)
	}
	fmt.Println(network.Program.NumParams(), "parameters")
	// Output:
	// conv1 [16 32 32]
	// groupnorm1 [16 32 32]
	// leakyrelu1 [16 32 32]
	// conv2 [16 32 32]
	// groupnorm2 [16 32 32]
	// leakyrelu2 [16 32 32]
	// conv3 [16 32 32]
	// add1 [16 32 32]
	// conv4 [32 16 16]
	// groupnorm3 [32 16 16]
	// leakyrelu3 [32 16 16]
	// conv5 [32 16 16]
	// conv6 [32 16 16]
	// add2 [32 16 16]
	// avgpool1 [32 1 1]
	// fc1 [10]
	// 19978 parameters
}

// Convolutions with standardized weights, as De et al. (2022) train them, and a layer normalization before the last layer.
func ExampleStandardConv() {
	g := gorgonia.NewGraph()
	x := gorgonia.NewTensor(g, tensor.Float32, 4, gorgonia.WithShape(1, 3, 16, 16), gorgonia.WithName("x"))
	init := nn.He(1)
	logits, err := nn.Apply(x,
		nn.StandardConv("c1", 16, 3, 2, 1, init), nn.GroupNorm("n1", 1), nn.GELU,
		nn.StandardConv("c2", 32, 3, 2, 1, init), nn.GroupNorm("n2", 2), nn.GELU,
		nn.GlobalAvgPool, nn.Flatten, nn.LayerNorm("n3"), nn.Dense("logits", 10, init))
	if err != nil {
		log.Fatal(err)
	}
	network, err := nn.Lower(logits)
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range network.Program.Params[:5] {
		fmt.Println(q.Name, q.Node, q.Shape)
	}
	// Output:
	// conv1.weight c1.weight [16 3 3 3]
	// conv1.bias c1.bias [16]
	// conv1.gain c1.gain [16]
	// groupnorm1.weight n1.weight [16]
	// groupnorm1.bias n1.bias [16]
}

// Batch normalization mixes the examples of a batch. No gradient then belongs to one example, and none can be clipped.
func ExampleLower_batchNorm() {
	g := gorgonia.NewGraph()
	x := gorgonia.NewTensor(g, tensor.Float32, 4, gorgonia.WithShape(2, 3, 8, 8), gorgonia.WithName("x"))
	h, err := nn.Conv("conv1", 8, 3, 1, 1, nn.He(1))(x)
	if err != nil {
		log.Fatal(err)
	}
	normalized, _, _, _, err := gorgonia.BatchNorm(h, nil, nil, 0.9, 1e-5)
	if err != nil {
		log.Fatal(err)
	}
	if _, err = nn.Lower(normalized); err != nil {
		fmt.Println("refused:", err)
	}

	if h, err = nn.Apply(h, nn.GroupNorm("norm1", 2), nn.ReLU, nn.Flatten, nn.Dense("fc1", 10, nn.He(1))); err != nil {
		log.Fatal(err)
	}
	network, err := nn.Lower(h)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("lowered:", network.Program.Ops[1].Name)
	// Output:
	// refused: lowering graph: node "batchnorm-0.9-0.0(%10)": batch normalization mixes the examples of a batch, so that no gradient belongs to one example; use nn.GroupNorm in its place, which normalizes each example by itself
	// lowered: groupnorm1
}
