// Package fits refuses settings that do not fit the method, the network or the data of a run: views of records, users as the unit,
// canaries, and several processes.
package fits

import (
	"cmp"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/canary"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

// A Run is what decides.
type Run struct {
	Config      *config.Config
	Traits      dpoptim.Traits
	Declaration dpoptim.Declaration
	Batches     *batches.Kind
	Data        *datasets.Set
	Network     *ir.Program
	Imported    bool // from a file
}

// Check refuses what does not go together.
func (r *Run) Check() error { return cmp.Or(r.views(), r.users(), r.canaries()) }

// views of records are refused that a network or a method cannot take.
func (r *Run) views() error {
	c := r.Config
	maps, list := ir.Augment(c.Augment), strings.Join(c.Augment, ",")
	if len(maps) == 0 {
		return nil
	}
	sums := slices.ContainsFunc(r.Declaration.Asks, func(a dpoptim.Ask) bool { return a.Question == dpoptim.Gradients })
	if !sums || r.Traits.Once {
		return usage.Errorf("augment %s: optimizer %s takes no sums of the gradients of batches, whose records have views; leave it out, or use --optimizer dp-sgd", list, c.Optimizer)
	}
	if c.FeatureNorm != nil {
		return usage.Errorf("augment %s: feature-norm %v bounds records as they are, and no views of them; leave --augment out, or use a method without that bound, such as dp-sgd without --feature-norm", list, *c.FeatureNorm)
	}
	if r.Data.Train.Unit { // though its rows have a shape as images have
		return usage.Errorf("augment %s: the records of data %s are no images, and views are of images; leave --augment out", list, c.Data)
	}
	if err := maps.Validate(r.Network.Shape); err != nil {
		return usage.Errorf("augment %s: network %s: %w; leave it out, or use a network that reads images", list, c.Model, err)
	}
	return nil
}

// sums says whether a run does nothing with records but to sum the gradients of batches, with noise that is fixed beforehand.
func (r *Run) sums() bool {
	d := r.Declaration
	return len(d.Asks) == 1 && d.Asks[0].Question == dpoptim.Gradients && d.Budget == dpoptim.Committed && !r.Traits.Once &&
		(r.Batches == batches.Poisson || r.Batches == batches.Full)
}

// users refuses them with methods that do more with records: what one user can do to the rest nobody has bounded.
func (r *Run) users() error {
	if !r.Config.ByUser() || !r.Traits.Private || r.sums() {
		return nil
	}
	return usage.Errorf("optimizer %s: users as the unit are for sums of gradients alone, with noise that is fixed beforehand; use dp-sgd, dp-adam or dp-adamw, or leave out --unit and --users", r.Config.Optimizer)
}

// canaries are refused in runs of which they say nothing.
func (r *Run) canaries() error {
	c := r.Config
	if c.Canaries == 0 {
		return nil
	}
	refuse := func(setting, instead string) error {
		return usage.Errorf("canaries %d: %s leaves nothing to be heard of them; %s, or leave out --canaries", c.Canaries, setting, instead)
	}
	switch {
	case !r.Traits.Private || !r.sums():
		return refuse("optimizer "+c.Optimizer, "use dp-sgd, dp-adam or dp-adamw")
	case c.Neighbouring != string(accountant.AddRemove):
		return refuse("neighbouring "+c.Neighbouring, "use --neighbouring add-remove")
	case c.Clipping != string(perexample.Flat):
		return refuse("clipping "+c.Clipping, "use --clipping flat")
	case c.ByUser():
		return refuse("a unit of one user", "leave out --unit and --users")
	case len(c.Augment) > 0:
		return refuse("augment "+strings.Join(c.Augment, ","), "leave out --augment")
	case c.DataIsPublic || c.PrivateDiagnostics || c.TrainLossNoise != nil:
		return usage.Errorf("canaries %d: figures on training records would count them; leave out --data-is-public, --private-diagnostics and --train-loss-noise, or --canaries", c.Canaries)
	case r.Imported:
		return refuse("a network from a file", "use a model of privgrad")
	case !canary.Audible(r.Network.Loss):
		return refuse("loss "+r.Network.Loss.String(), "use a model with another one")
	}
	return nil
}

// summable are the questions whose answers several processes find together.
var summable = []dpoptim.Question{dpoptim.Gradients, dpoptim.Norms, dpoptim.Searches, dpoptim.Curves, dpoptim.Minima, dpoptim.Losses}

// Together says why several processes cannot make the run together; nil where they can.
func (r *Run) Together() error {
	c := r.Config
	for _, a := range r.Declaration.Asks {
		if !slices.Contains(summable, a.Question) {
			return usage.Errorf("optimizer %s asks for a %s, which one process works out from all records: start it without mpirun", c.Optimizer, a.Question)
		}
	}
	switch {
	case r.Traits.Once:
		return usage.Errorf("optimizer %s works out its model in one process, from all records: start it without mpirun", c.Optimizer)
	case c.Canaries > 0:
		return usage.Errorf("canaries %d: one process has to hear them; leave out --canaries, or start without mpirun", c.Canaries)
	case c.DataIsPublic || c.PrivateDiagnostics:
		return usage.Errorf("data-is-public and private-diagnostics score all training records in one process: leave them out, or start without mpirun")
	}
	return nil
}
