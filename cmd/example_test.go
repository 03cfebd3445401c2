package cmd_test

import (
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/cmd"
	"github.com/privgrad/privgrad/nn"
)

// A program of one's own has every command of privgrad, and --model small beside the named
// models: small train --model small --epsilon 3, small eval RUN, small export RUN.
func ExampleMain() {
	small := func(o nn.Options) (*nn.Model, error) {
		g := gorgonia.NewGraph()
		x := gorgonia.NewTensor(g, tensor.Float32, 4, gorgonia.WithShape(max(o.Batch, 1), o.Input[0], o.Input[1], o.Input[2]), gorgonia.WithName("x"))
		he := nn.He(o.Seed)
		logits, err := nn.Apply(x, nn.Conv("conv1", 8, 5, 1, 0, he), nn.ReLU, nn.MaxPool(2, 2), nn.Flatten, nn.Dense("fc1", o.Classes, he))
		if err != nil {
			return nil, err
		}
		return &nn.Model{Name: "small", Graph: g, Input: x, Logits: logits, Loss: nn.SoftmaxCrossEntropy}, nil
	}
	cmd.Main(cmd.Options{Networks: map[string]nn.Builder{"small": small}})
}
