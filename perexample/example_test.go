package perexample_test

import (
	"fmt"
	"log"

	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// A schedule chooses for each layer how the norm of every record's gradient is found.
func ExampleExplain() {
	m, err := nn.Build("cnn-mnist", nn.Options{Activation: "tanh", Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	network, err := m.Lower()
	if err != nil {
		log.Fatal(err)
	}
	flat, err := perexample.Flat.Rule()
	if err != nil {
		log.Fatal(err)
	}
	s, err := perexample.Private(network.Program, perexample.Options{Strategy: "bookkeeping", Clipping: flat, Batch: 256})
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range perexample.Explain(s, ir.Costs{}) {
		fmt.Println(l.Name, l.Choice)
	}
	// Output:
	// conv1 store
	// conv2 store
	// fc1 ghost
	// fc2 ghost
	// fc3 ghost
}
