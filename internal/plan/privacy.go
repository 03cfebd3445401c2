package plan

import (
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/price"
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
