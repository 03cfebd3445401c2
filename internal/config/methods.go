package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/dpoptim/outpert"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
)

// families make the methods, with the settings that these have.
func (c *Config) families() []dpoptim.Family {
	all := slices.Clone(plain)
	for _, v := range reflect.ValueOf(c).Elem().Fields() {
		if f, ok := v.Interface().(dpoptim.Family); ok {
			all = append(all, f)
		}
	}
	return all
}

// keep puts the settings of a family into their field.
func (c *Config) keep(f dpoptim.Family) {
	for _, v := range reflect.ValueOf(c).Elem().Fields() {
		if v.Type() == reflect.TypeOf(f) {
			v.Set(reflect.ValueOf(f))
		}
	}
}

// family is the one that makes the configured optimizer, and what is known of that; nil for an unknown name.
func (c *Config) family() (dpoptim.Family, dpoptim.Kind) {
	for _, f := range c.families() {
		for _, k := range f.Kinds() {
			if k.Name == c.Optimizer {
				return f, k
			}
		}
	}
	return nil, dpoptim.Kind{}
}

// Kinds are the optimizers that a configuration may name.
func Kinds() (all []dpoptim.Kind) {
	for _, f := range new(Config).families() {
		all = append(all, f.Kinds()...)
	}
	slices.SortFunc(all, func(a, b dpoptim.Kind) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Kind is what is known of the configured optimizer before it is made; nothing of an unknown one.
func (c *Config) Kind() dpoptim.Kind {
	_, k := c.family()
	return k
}

// Optimizers lists the names that a configuration may give.
func Optimizers() []string { return names(Kinds()) }

func names(kinds []dpoptim.Kind) (all []string) {
	for _, k := range kinds {
		all = append(all, k.Name)
	}
	return all
}

// CheckOptimizer refuses what is no optimizer's name.
func CheckOptimizer(name string) error { return setting.OneOf(Optimizers()...)("optimizer", name) }

// Method is the configured one, nil for an unknown name.
func (c *Config) Method() dpoptim.Method {
	if c.OwnMethod != nil {
		return c.OwnMethod
	}
	if f, k := c.family(); f != nil {
		return f.New(k.Name, c.Settings)
	}
	return nil
}

// Traits are those of the configured method.
func (c *Config) Traits() dpoptim.Traits {
	if m := c.Method(); m != nil {
		return m.Traits()
	}
	return dpoptim.Traits{Name: c.Optimizer}
}

// Complete has the method settle what was left open, for a network.
func (c *Config) Complete(m dpoptim.Method, n dpoptim.Network) (notes dpoptim.Notes, err error) {
	c.Settings, notes, err = m.Complete(c.Settings, n)
	if s, ok := m.(dpoptim.Settler); ok && c.OwnMethod == nil {
		c.keep(s.Settled())
	}
	return notes, err
}

// Relate chooses the relation, also for a method that is made for another; the method's own where it is empty.
func (c *Config) Relate(n accountant.Neighbouring) {
	if n == "" {
		c.Incline()
		return
	}
	c.Neighbouring = string(n)
	c.give("neighbouring")
}

// Incline takes the relation, the accountant and the clip norm that the method is made for, where the user chose none.
func (c *Config) Incline() {
	t, initial := c.Traits(), Default()
	if k := batches.Named(c.Sampling); k != nil && k.Relation != "" && t.CanDraw(k) {
		t.Relation = k.Relation
	}
	if t.Relation != "" && c.Open("neighbouring", &initial) {
		c.Neighbouring = string(t.Relation)
	}
	if t.Accountant != "" && c.Open("accountant", &initial) {
		c.Accountant = t.Accountant
	}
	if t.Clip != 0 && c.Open("clip", &initial) {
		c.Clip = t.Clip
	}
}

// Drawn is how batches are drawn: as the accountant or the method needs them, or by choice.
func (c *Config) Drawn() *batches.Kind {
	t := c.Traits()
	for _, k := range []*batches.Kind{batches.PricedBy(c.Accountant), batches.Named(c.Sampling)} {
		if k != nil && t.CanDraw(k) {
			return k
		}
	}
	if k := t.Draws(); k != batches.Full || t.Private {
		return k
	}
	return batches.Poisson // at rate 1, as runs without privacy have always called it
}

// Batching draws from a public number of units, at a rate or as near to it as can be.
func (c *Config) Batching(n int, rate float64) (batches.Batching, error) {
	b, err := c.Drawn().Of(n, rate)
	if c.ByUser() {
		b.Unit = batches.User
	}
	return b, err
}

// FullBatch reports whether every step is of all records.
func (c *Config) FullBatch() bool {
	t := c.Traits()
	return t.Draws() == batches.Full && !t.Once
}

// drawers name the optimizers that draw such batches where that is chosen.
func drawers(k *batches.Kind) string {
	var all []string
	for _, of := range Kinds() {
		c := Config{Optimizer: of.Name}
		if t := c.Traits(); t.CanDraw(k) && t.Draws() != k {
			all = append(all, of.Name)
		}
	}
	return strings.Join(all, " or ")
}

// checkDrawing refuses ways to draw batches that the method or the accountant does not have.
func (c *Config) checkDrawing() error {
	t, by := c.Traits(), batches.PricedBy(c.Accountant)
	switch {
	case by == nil:
	case t.Private && !t.CanDraw(by):
		return usage.Errorf("accountant %s covers %s, which only optimizer %s draws; use --accountant %s or %s", c.Accountant, by.Called, drawers(by), accountant.PLD, accountant.RDP)
	case t.Draws() == by:
		return usage.Errorf("accountant %s is for the schedules of other optimizers than %s; use --accountant %s or %s", c.Accountant, c.Optimizer, accountant.PLD, accountant.RDP)
	}
	chosen, drawn := batches.Named(c.Sampling), c.Drawn()
	switch {
	case chosen == nil:
	case chosen != batches.Poisson && !t.CanDraw(chosen):
		return usage.Errorf("sampling %s: optimizer %s draws no %s; leave it out, or use --optimizer %s", c.Sampling, c.Optimizer, chosen.Called, drawers(chosen))
	case chosen.Relation != "" && by != chosen && c.Neighbouring != string(chosen.Relation):
		return usage.Errorf("neighbouring %s: %s are priced under %s only, as %s; use --neighbouring %[3]s", c.Neighbouring, chosen.Called, chosen.Relation, chosen.Why)
	case chosen == drawn || !drawn.Offered: // where there is nothing to choose, poisson has always been allowed
	case drawn == by:
		return usage.Errorf("sampling %s: optimizer %s with accountant %s draws %s; leave it out", c.Sampling, c.Optimizer, c.Accountant, drawn.Called)
	default:
		return usage.Errorf("sampling %s: optimizer %s draws %s alone; leave it out", c.Sampling, c.Optimizer, drawn.Called)
	}
	return nil
}

// checkUnread refuses settings that the method does not read.
func (c *Config) checkUnread() error {
	for _, f := range c.families() {
		for _, r := range f.Rows() {
			named := func(k dpoptim.Kind) bool { return slices.Contains(k.Reads, r.Key) }
			anyNames := slices.ContainsFunc(f.Kinds(), named)
			if err := c.unread(r, slices.DeleteFunc(f.Kinds(), func(k dpoptim.Kind) bool { return anyNames && !named(k) })); err != nil {
				return err
			}
		}
	}
	for _, r := range ofRuns {
		if !r.Named {
			continue
		}
		if err := c.unread(r, slices.DeleteFunc(Kinds(), func(k dpoptim.Kind) bool { return !slices.Contains(k.Reads, r.Key) })); err != nil {
			return err
		}
	}
	if d := c.Delta; d != nil && *d == 0 && c.Private() && !c.Traits().Pure {
		return usage.Errorf("delta 0: the noise of optimizer %s keeps no ε without δ; give --delta above 0, or use --optimizer %s", c.Optimizer, outpert.GD)
	}
	return c.checkDrawing()
}

// unread refuses a setting that has a value, unless the method is one of those that read it.
func (c *Config) unread(r setting.Row, readers []dpoptim.Kind) error {
	v, given := r.Given(c)
	if !given || c.OwnMethod == nil && slices.Contains(names(readers), c.Optimizer) {
		return nil
	}
	return usage.Errorf("%s %v: optimizer %s does not read it; leave it out, or use --optimizer %s", r.Flag(), v, c.Optimizer, strings.Join(names(readers), ", "))
}

// checkMethod has the method look at its settings.
func (c *Config) checkMethod() error {
	if err := c.checkUnread(); err != nil {
		return err
	}
	if c.FullBatch() {
		if c.Batch != nil || c.SamplingRate != nil && *c.SamplingRate != 1 || c.Epochs != nil {
			return usage.Errorf("optimizer %s takes all records in every step: leave out --batch, --sampling-rate and --epochs; --steps sets the number of steps", c.Optimizer)
		}
		c.SamplingRate = new(1.0)
	}
	t := c.Traits()
	if (t.Flat || (t.Once || t.Local) && t.Private) && c.Init != "" {
		return usage.Errorf("init %s: optimizer %s begins at zero; leave out --init", c.Init, c.Optimizer)
	}
	if t.Once && t.Private && c.PrivateDiagnostics {
		return usage.Errorf("private-diagnostics: optimizer %s has no course to watch, but a single release; leave it out", c.Optimizer)
	}
	checked, err := c.Method().Check(c.Settings)
	c.Settings = checked
	return err
}
