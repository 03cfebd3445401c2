package privgrad_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/mnist/fashion"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/train"
)

// A network of one's own is an ordinary Gorgonia graph with the batch as axis
// 0. It is lowered once and trained under a privacy budget; its nodes then hold
// the trained parameters.
func Example() {
	g := gorgonia.NewGraph()
	x := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(1, 784), gorgonia.WithName("x"))
	w1 := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(784, 32), gorgonia.WithName("w1"), gorgonia.WithInit(gorgonia.GlorotU(1)))
	w2 := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(32, 10), gorgonia.WithName("w2"), gorgonia.WithInit(gorgonia.GlorotU(1)))
	hidden := gorgonia.Must(gorgonia.Tanh(gorgonia.Must(gorgonia.Mul(x, w1))))
	logits := gorgonia.Must(gorgonia.Mul(hidden, w2))

	network, err := nn.Lower(logits, nn.WithName("mine"))
	if err != nil {
		log.Fatal(err)
	}

	dir, err := os.MkdirTemp("", "privgrad-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	epsilon, delta, batch, steps := 3.0, 1e-5, 600.0, 100
	c := train.Default() // DP-SGD on fmnist, add-remove neighbors, secure noise
	c.Epsilon, c.Delta, c.Batch, c.Steps = &epsilon, &delta, &batch, &steps

	result, err := train.Run(context.Background(), c, train.Options{
		Network: network,
		Out:     filepath.Join(dir, "run"),
		Sources: map[string]train.Source{"fmnist": {
			BuiltIn: true,
			Open:    func(string) (*datasets.Set, error) { return fashion.Open() },
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: ε = %.2f at δ = %g, guarantee %v\n", result.Model, *result.Epsilon, *result.Delta, result.Guarantee)
	fmt.Println("more than half of the test images right:", *result.TestAccuracy > 0.5)
	// Output:
	// mine: ε = 3.00 at δ = 1e-05, guarantee true
	// more than half of the test images right: true
}
