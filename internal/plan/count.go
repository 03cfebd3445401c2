package plan

import (
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/source"
)

// A run on files of a user's own begins with a noisy count of its usable records, so that a
// mistyped class, or labels that are none, end it before the budget is spent. Which files hold
// which records is private, so nothing else may end it.
const (
	leastCounted = 500 // public records; of fewer a count would cost more than it is worth
	countShare   = 20  // the noise's deviation is the public number over this
	fewShare     = 4   // and too few are less than the public number over this
)

// CountDoubt is twice the deviation of the count's noise: so far it is off in one run of twenty.
func CountDoubt(publicN int) int { return 2 * publicN / countShare }

// decideCount has files of a user's own counted where nobody said otherwise.
func (p *Plan) decideCount() {
	if c := &p.Config; c.CountRecords == nil && !p.PublicRecords() {
		c.CountRecords = new(true)
	}
}

// resolveCount settles whether the run counts, and the noise of the count. One record that is added,
// removed or replaced moves it by one at most.
func (p *Plan) resolveCount() {
	c := &p.Config
	if c.CountRecords == nil || !*c.CountRecords {
		return
	}
	if !p.countable() {
		if c.CountRecords = nil; c.Given["count_records"] {
			p.Warnings = append(p.Warnings, fmt.Sprintf("count-records true: no count is made; it is for sums of gradients with noise, of files of your own, from %d public records on", leastCounted))
		}
		return
	}
	p.Count = &accountant.Gaussian{NoiseMultiplier: float64(p.PublicN) / countShare}
}

// countable reports whether a count can be a part of what the run is charged for: of one that asks for
// sums of gradients with noise that is not fixed by its method, by an accountant that takes a release of all records.
func (p *Plan) countable() bool {
	c, t, d := &p.Config, p.Method.Traits(), p.Declaration
	noisy := c.Private() && (c.Epsilon != nil || c.NoiseMultiplier != nil && *c.NoiseMultiplier > 0)
	byBatch := c.Accountant == accountant.CTCDP || c.Accountant == accountant.Paper
	return noisy && !p.PublicRecords() && !t.Pure && !t.Once && !byBatch &&
		d.Budget != dpoptim.Planned && d.Asks[0].Question == dpoptim.Gradients && p.PublicN >= leastCounted
}

// countEvent is that of the count; nil where there is none.
func (p *Plan) countEvent() []accountant.Event {
	if p.Count == nil {
		return nil
	}
	return []accountant.Event{{Mechanisms: []accountant.Mechanism{*p.Count}, Count: 1}}
}

// Few is the error of a run whose count says that its files hold other records than was declared; nil where
// they may. Nothing else was released then, whatever the ledger has charged, and nothing will be.
func (p *Plan) Few(counted float64) error {
	if counted >= float64(p.PublicN)/fewShare {
		return nil
	}
	return p.contradicted(counted, "most are missing, or have labels that are no class, or --public-n is far too large")
}

// contradicted is the error of a run whose count is not as the public number.
func (p *Plan) contradicted(counted float64, why string) error {
	c := &p.Config
	number, check := fmt.Sprintf("its public number is %d", p.PublicN), "check the files" // of a program's own source
	if c.PublicN != nil {
		if number = fmt.Sprintf("--public-n is %d", *c.PublicN); *c.PublicN != p.PublicN {
			number += fmt.Sprintf(" (%d of them to train on)", p.PublicN)
		}
	}
	if command := source.CheckCommand(c); command != "" {
		check += " by `" + command + "`"
	}
	cost, err := accountant.Account(p.countEvent(), accountant.Options{Accountant: c.Accountant, Neighbouring: accountant.Neighbouring(c.Neighbouring), Delta: *c.Delta})
	if err != nil {
		return err
	}
	return fmt.Errorf("data set %s: a noisy count of its usable records gave %.0f, and %s: %s; so training has stopped for good; %s, then begin anew with another --out (the count is all that was released, and costs ε = %.2g)",
		c.Data, max(counted, 0), number, why, check, cost.Epsilon)
}

// manyDeviations of the noise above the public number say that it is too small; of one that is right, the count says so with a
// probability of 3e-5.
const manyDeviations = 4

// Many is Few for a count of more records than was declared.
func (p *Plan) Many(counted float64) error {
	if counted <= float64(p.PublicN)+manyDeviations*p.Count.NoiseMultiplier {
		return nil
	}
	return p.contradicted(counted, "the guarantee is for at most that many, so --public-n must be larger")
}
