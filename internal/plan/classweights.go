package plan

import (
	"strings"

	"github.com/privgrad/privgrad/internal/usage"
)

// weigh gives the network the weights of the classes, where there are some. The network may be its owner's for other runs, too,
// and stays as it is.
func (p *Plan) weigh() error {
	list := p.Config.ClassWeights
	switch {
	case len(list) == 0:
		return nil
	case p.Set.Classes == 0:
		return usage.Errorf("class_weights: %s is a regression and has no classes; leave them out", p.Set.Name)
	case len(list) != p.Set.Classes:
		return usage.Errorf("class_weights has %d numbers, %s has %d classes: give one a class, in the order %s", len(list), p.Set.Name, p.Set.Classes, strings.Join(p.Set.Names(), ", "))
	}
	network, program := *p.Network, *p.Network.Program
	program.ClassWeights = make([]float32, len(list))
	for i, w := range list {
		program.ClassWeights[i] = float32(w)
	}
	network.Program, p.Network = &program, &network
	return nil
}
