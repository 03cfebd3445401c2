package plan

import (
	"fmt"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
)

// resolvePrivacy prices what the method declares, and says what that promises.
func (p *Plan) resolvePrivacy() (err error) {
	c := &p.Config
	if p.Declaration, err = p.Method.Declare(c.Settings, p.Facts); err != nil {
		return err
	}
	p.Settings, p.NormNoise = c.Settings, c.L2P.NormNoise
	p.Counts = c.CountRecords != nil && *c.CountRecords && !p.PublicRecords()
	if p.Traits.Local && p.Set.Moves && c.Neighbouring == string(accountant.ReplaceOne) {
		return usage.Errorf("optimizer %s has records report at their places, and what a record of data set %s holds decides at which places others stand; %s", c.Optimizer, c.Data, p.keepPlaces())
	}
	priced, err := price.Of(p.Run)
	if err != nil {
		return err
	}
	p.Price = *priced
	p.settleCount()
	if c.Private() && c.Adapts() && !p.Traits.Pure {
		a := c.Adaptive()
		c.ClipFloor, c.ClipCeiling, c.ClipQuantile = &a.Floor, &a.Ceiling, &a.Quantile
	}
	p.Facts.Planned, p.Facts.Least = p.Sigma, p.Least
	p.DefaultsFrom = p.defaultsFrom()
	if s, ok := p.Method.(dpoptim.Solving); ok {
		p.Iterations = new(s.Iterations(p.Facts))
	}
	p.Warnings = append(append(p.Warnings, p.Price.Warnings...), p.doubts()...)
	p.Guarantee, err = p.guarantee()
	return err
}

// keepPlaces says how records stand at places that no other record decides.
func (p *Plan) keepPlaces() string {
	c := &p.Config
	switch {
	case len(c.Classes) > 0:
		return "leave out --classes (--positive keeps all records)"
	case c.Folds > 0:
		return "leave out --folds"
	case strings.HasPrefix(c.Data, "dir:"):
		return "give the images as npz:PATH instead of dir:PATH"
	case p.Set.Share > 0 && p.Set.Share < 1:
		return "the schema's test_share holds out records by what they hold: remove it, and name a file of test records under test"
	}
	return "give a table without empty lines, and with a schema in which no column has `only`"
}

// A run on files of a user's own begins with a noisy count of its usable records, so that a
// mistyped class, or labels that are none, end it before the budget is spent. Which files hold
// which records is private, so nothing else may end it.

// fewShare: too few are less than the public number over this.
const fewShare = 4

// decideCount has files of a user's own counted where nobody said otherwise.
func (p *Plan) decideCount() {
	if c := &p.Config; c.CountRecords == nil && !p.PublicRecords() {
		c.CountRecords = new(true)
	}
}

// settleCount keeps what was decided where the run counts, and warns where it was told to and cannot.
func (p *Plan) settleCount() {
	c := &p.Config
	if p.Count != nil || c.CountRecords == nil || !*c.CountRecords {
		return
	}
	if c.CountRecords = nil; c.Given["count_records"] {
		p.Warnings = append(p.Warnings, fmt.Sprintf("count-records true: no count is made; it is for sums of gradients with noise, of files of your own, from %d public records on", price.LeastCounted))
	}
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
	cost, err := p.CountCost()
	if err != nil {
		return err
	}
	return fmt.Errorf("data set %s: a noisy count of its usable %ss gave %.0f, and %s: %s; so training has stopped for good; %s, then begin anew with another --out (the count is all that was released, and costs ε = %.2g)",
		c.Data, p.Guarantee.Noun(), max(counted, 0), number, why, check, cost)
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
