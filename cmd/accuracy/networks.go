package main

import (
	"context"
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/nn"
)

// A candidate is a network of one hidden layer, from which the models of tables were chosen. The last layer begins at zero.
type candidate struct {
	name       string
	units      int
	activation nn.Layer
	init       func(seed uint64) nn.Init
}

var candidates = []candidate{
	{"64 gelu", 64, nn.GELU, nn.He},
	{"64 tanh", 64, nn.Tanh, nn.Glorot},
	{"32 gelu", 32, nn.GELU, nn.He},
	{"64 relu", 64, nn.ReLU, nn.He},
}

const linear = "linear"

func (c candidate) build(o nn.Options) (*nn.Model, error) {
	loss, outputs := nn.Logistic, 1
	switch {
	case o.Classes == 0:
		loss = nn.Huber
	case o.Classes > 2:
		loss, outputs = nn.SoftmaxCrossEntropy, o.Classes
	}
	x := G.NewTensor(G.NewGraph(), tensor.Float32, 4, G.WithShape(o.Batch, o.Input[0], o.Input[1], o.Input[2]), G.WithName("input"))
	logits, err := nn.Apply(x, nn.Flatten, nn.Dense("fc1", c.units, c.init(o.Seed)), c.activation, nn.Dense("fc2", outputs, nn.Zeros))
	if err != nil {
		return nil, err
	}
	return &nn.Model{Graph: x.Graph(), Input: x, Logits: logits, Loss: loss}, nil
}

// networkTrials are the linear model by its rule, the network by its own, this one with its reach or its clip norm times
// a factor, the other candidates by the network's rule, and the plain defaults of a model with several rates.
func networkTrials(m sample) (all []tableTrial) {
	for _, epsilon := range []float64{0.5, 1, 3} {
		all = append(all, tableTrial{recipes.ForTable(m.public(), epsilon).Settings, linear, epsilon})
		r := recipes.NetworkForTable(m.public(), epsilon).Settings
		for i, c := range candidates {
			by := []struct{ reach, clip float64 }{{1, 1}, {0.5, 1}, {2, 1}, {1, 0.5}, {1, 2}}
			switch i {
			case 0:
			case 1:
				by = by[:2]
			default:
				by = by[:1]
			}
			for _, by := range by {
				s, note := r, c.name
				if by.reach != 1 || by.clip != 1 {
					note += fmt.Sprintf(", reach × %g, clip × %g", by.reach, by.clip)
				}
				s.Model, s.Clip, s.LR = c.name, r.Clip*by.clip, r.LR*by.reach/by.clip
				all = append(all, tableTrial{s, note, epsilon})
			}
		}
		rates := []float64{0.5, 1, 2}
		if m.Classes == 0 {
			rates = []float64{0.1, 0.2, 0.5}
		}
		for _, rate := range rates {
			s := withoutRule(m.public(), candidates[0].name)
			s.LR = rate
			all = append(all, tableTrial{s, fmt.Sprintf("%s, plain, rate %g", candidates[0].name, rate), epsilon})
		}
	}
	return all
}

// networks makes the trials that are not yet in the file, and then says what they tell.
func networks(ctx context.Context, o options) error {
	for _, c := range candidates {
		if err := nn.Register(c.name, c.build); err != nil {
			return err
		}
	}
	var of []table
	for _, t := range allTables {
		switch t.name {
		case "adult", "credit-card", "wine", "wine-sugar", "credit-limit":
			of = append(of, t)
		}
	}
	done, err := o.makeTrials(ctx, networksFile, of, networkTrials)
	if err == nil {
		fmt.Print(compared(done, candidates[0].name, linear))
	}
	return err
}
