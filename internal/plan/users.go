package plan

import (
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/usage"
)

// checkUsers refuses methods that do more with records than to sum the gradients of batches that are drawn: what one user can do
// to the rest nobody has bounded.
func (p *Plan) checkUsers() error {
	c, d := &p.Config, p.Declaration
	sums := len(d.Asks) == 1 && d.Asks[0].Question == dpoptim.Gradients && d.Budget == dpoptim.Committed && !p.Traits.Once
	if !c.ByUser() || !p.Traits.Private || sums && (p.Kind == batches.Poisson || p.Kind == batches.Full) {
		return nil
	}
	return usage.Errorf("optimizer %s: users as the unit are for sums of gradients alone, with noise that is fixed beforehand; use dp-sgd, dp-adam or dp-adamw, or leave out --unit and --users", c.Optimizer)
}
