package plan

import (
	"slices"
	"strings"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
)

// checkViews refuses views of records that a network or a method cannot take.
func (p *Plan) checkViews() error {
	c := &p.Config
	maps, list := ir.Augment(c.Augment), strings.Join(c.Augment, ",")
	if len(maps) == 0 {
		return nil
	}
	sums := slices.ContainsFunc(p.Declaration.Asks, func(a dpoptim.Ask) bool { return a.Question == dpoptim.Gradients })
	if !sums || p.Traits.Once {
		return usage.Errorf("augment %s: optimizer %s takes no sums of the gradients of batches, whose records have views; leave it out, or use --optimizer dp-sgd", list, c.Optimizer)
	}
	if c.FeatureNorm != nil {
		return usage.Errorf("augment %s: feature-norm %v bounds records as they are, and no views of them; leave --augment out, or use a method without that bound, such as dp-sgd without --feature-norm", list, *c.FeatureNorm)
	}
	if p.Set.Train.Unit { // though its rows have a shape as images have
		return usage.Errorf("augment %s: the records of data %s are no images, and views are of images; leave --augment out", list, c.Data)
	}
	if err := maps.Validate(p.Network.Program.Shape); err != nil {
		return usage.Errorf("augment %s: network %s: %w; leave it out, or use a network that reads images", list, c.Model, err)
	}
	return nil
}
