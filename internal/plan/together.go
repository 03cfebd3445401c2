package plan

import (
	"slices"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/usage"
)

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
