package nn_test

import (
	"fmt"
	"log"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/nn"
)

// Layers make the nodes of a graph, with names and initial weights.
func ExampleApply() {
	g := gorgonia.NewGraph()
	x := gorgonia.NewTensor(g, tensor.Float32, 4, gorgonia.WithShape(1, 1, 28, 28), gorgonia.WithName("x"))
	he := nn.He(1)
	logits, err := nn.Apply(x,
		nn.Conv("conv1", 8, 5, 1, 0, he), nn.ReLU, nn.MaxPool(2, 2),
		nn.Flatten, nn.Dense("fc1", 10, he))
	if err != nil {
		log.Fatal(err)
	}
	network, err := nn.Lower(logits, nn.WithName("small"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(network.Params()), "parameters")
	// Output:
	// 11738 parameters
}
