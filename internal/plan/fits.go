package plan

import (
	"slices"
	"strings"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
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

// checkUsers refuses methods that do more with records than to sum the gradients of batches: what one user can do to the rest
// nobody has bounded.
func (p *Plan) checkUsers() error {
	d := p.Declaration
	sums := len(d.Asks) == 1 && d.Asks[0].Question == dpoptim.Gradients && d.Budget == dpoptim.Committed && !p.Traits.Once
	if !p.Config.ByUser() || !p.Traits.Private || sums && (p.Kind == batches.Poisson || p.Kind == batches.Full) {
		return nil
	}
	return usage.Errorf("optimizer %s: users as the unit are for sums of gradients alone, with noise that is fixed beforehand; use dp-sgd, dp-adam or dp-adamw, or leave out --unit and --users", p.Config.Optimizer)
}

// summable are the questions whose answers several processes find together.
var summable = []dpoptim.Question{dpoptim.Gradients, dpoptim.Norms, dpoptim.Searches, dpoptim.Curves, dpoptim.Minima, dpoptim.Losses}

// Together says why several processes cannot make the run together; nil where they can.
func (p *Plan) Together() error {
	c := &p.Config
	for _, a := range p.Declaration.Asks {
		if !slices.Contains(summable, a.Question) {
			return usage.Errorf("optimizer %s asks for a %s, which one process works out from all records: start it without mpirun", c.Optimizer, a.Question)
		}
	}
	switch {
	case p.Traits.Once:
		return usage.Errorf("optimizer %s works out its model in one process, from all records: start it without mpirun", c.Optimizer)
	case c.DataIsPublic || c.PrivateDiagnostics:
		return usage.Errorf("data-is-public and private-diagnostics score all training records in one process: leave them out, or start without mpirun")
	}
	return nil
}
