package price

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
)

// A run on files of a user's own begins with a noisy count of its usable records.
const (
	LeastCounted = 500 // public records; of fewer a count would cost more than it is worth
	countShare   = 20  // the noise's deviation is the public number over this
)

// CountDoubt is twice the deviation of the count's noise: so far it is off in one run of twenty.
func CountDoubt(publicN int) int { return 2 * publicN / countShare }

// count settles the noise of a count that was asked for, where it can be a part of what the run is charged for: of one
// that asks for sums of gradients with noise that is not fixed by its method, by an accountant that takes a release of
// all records. One record that is added, removed or replaced moves it by one at most.
func (p *Price) count() {
	c, t, d := &p.Settings, p.Traits, p.Declaration
	noisy := c.Epsilon != nil || c.NoiseMultiplier != nil && *c.NoiseMultiplier > 0
	byBatch := c.Accountant == accountant.CTCDP || c.Accountant == accountant.Paper
	if p.Counts && noisy && !t.Pure && !t.Once && !byBatch &&
		d.Budget != dpoptim.Planned && d.Asks[0].Question == dpoptim.Gradients && p.Units >= LeastCounted {
		p.Count = &accountant.Gaussian{NoiseMultiplier: float64(p.Units) / countShare}
	}
}

// countEvent is that of the count; nil where there is none.
func (p *Price) countEvent() []accountant.Event {
	if p.Count == nil {
		return nil
	}
	return []accountant.Event{{Mechanisms: []accountant.Mechanism{*p.Count}, Count: 1}}
}

// CountCost is the ε of the count alone.
func (p *Price) CountCost() (float64, error) {
	r, err := accountant.Account(p.countEvent(), p.options(p.Settings.Accountant))
	return r.Epsilon, err
}
