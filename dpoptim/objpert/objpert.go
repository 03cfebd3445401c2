// Package objpert is objective perturbation: the minimum of all records' losses, a regularizer
// Λ/2·‖w‖² and a random linear term, released once (Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta
// 2012, algorithm 1). A solver comes within a public distance of the minimum, for which the release
// has noise of its own (Iyengar et al. 2019). docs/proofs/objective-perturbation.md proves what it costs.
package objpert

import (
	"cmp"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
)

const Name = "objpert"

// Tight and Paper are the forms: noise by this project's bound, and noise and regularizer of Kifer, Smith and Thakurta.
const (
	Tight = "tight"
	Paper = "paper"
)

// Forms are the values of Settings.Form.
func Forms() []string { return []string{Tight, Paper} }

// Settings are the method's own.
type Settings struct {
	Form string `yaml:"objpert_form,omitempty"` // empty: Tight
}

func (Settings) Kinds() []dpoptim.Kind {
	return []dpoptim.Kind{{Name: Name, About: "the minimum of a linear model's losses and a random linear term", Topic: setting.Convex.Topic}}
}

func (Settings) Rows() []setting.Row {
	return []setting.Row{{Key: "objpert_form", InFile: true, Group: setting.Convex, Limit: setting.UnlessEmpty(setting.OneOf(Forms()...)),
		Help: "objpert: tight, or noise and regularizer as published (paper) (default tight)"}}
}

func (s Settings) New(string, dpoptim.Settings) dpoptim.Method { return New(s) }

// usualDelta is the run's δ where none was given.
const usualDelta = 1e-5

// Method makes one release of a minimum.
type Method struct {
	own     Settings
	problem problem
}

// New makes the method.
func New(own Settings) *Method { return &Method{own: own} }

// Traits has the relation of the form: Kifer, Smith and Thakurta add or remove a record.
func (m *Method) Traits() dpoptim.Traits {
	t := dpoptim.Traits{Name: Name, Private: true, Once: true, Relation: accountant.ReplaceOne, Accountant: accountant.GDP}
	if m.own.Form == Paper {
		t.Relation = accountant.AddRemove
	}
	return t
}

// Check refuses settings that have no meaning here.
func (m *Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) {
	if err := cmp.Or(c.CheckOnce(Name), c.CheckFit(Name, m.own.Form == Paper)); err != nil {
		return c, err
	}
	switch {
	case c.Steps != nil && *c.Steps != 1:
		return c, usage.Errorf("steps %d: optimizer %s makes a single release, and the steps to the minimum follow from public figures; leave out --steps", *c.Steps, Name)
	case m.own.Form == Paper && c.Neighbouring != string(accountant.AddRemove):
		return c, usage.Errorf("neighbouring relation %s: the noise of objpert_form %s is for records that are added or removed; leave out --neighbouring", c.Neighbouring, Paper)
	}
	c.SamplingRate, c.Steps, c.FeatureNorm = new(1.0), new(1), c.NormOr1()
	return c, nil
}

// Complete refuses networks that are no linear model of one output.
func (m *Method) Complete(c dpoptim.Settings, n dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	if err := n.NeedLinear(Name); err != nil {
		return c, dpoptim.Notes{}, err
	}
	if n.Linear.Outputs > 1 {
		return c, dpoptim.Notes{}, usage.Errorf("optimizer %s is for models of one output: a record of %d classes changes the curvature in %d directions, and the bound is for one; use --classes A,B or --positive CLASS, or --optimizer noisy-gd", Name, n.Linear.Outputs, n.Linear.Outputs-1)
	}
	if m.own.Form == Paper {
		return c, dpoptim.Notes{NoGuarantee: c.FitDoubts(), Warnings: []string{
			"objpert_form paper has the noise and the regularizer that are published for the ε asked for; what they cost by our proof, with the solver's distance from the minimum, is shown as ε",
		}}, nil
	}
	return c, dpoptim.Notes{DefaultsFrom: dpoptim.FromBounds, NoGuarantee: c.FitDoubts()}, nil
}

// Declare is the one release.
func (m *Method) Declare(c dpoptim.Settings, f dpoptim.Facts) (dpoptim.Declaration, error) {
	m.problem = describe(c, f)
	ask := dpoptim.Ask{Question: dpoptim.Fits}
	if m.own.Form == Paper {
		multiplier := m.problem.published()
		ask.Alike, ask.At = true, func(int) (dpoptim.Release, error) { return m.problem.release(multiplier), nil }
		return dpoptim.Declaration{Budget: dpoptim.Planned, Asks: []dpoptim.Ask{ask}}, nil
	}
	if err := m.problem.regularize(c); err != nil {
		return dpoptim.Declaration{}, err
	}
	ask.Release = func(multiplier float64) (dpoptim.Release, error) { return m.problem.release(multiplier), nil }
	return dpoptim.Declaration{Asks: []dpoptim.Ask{ask}}, nil
}

// Iterations are the steps to the minimum.
func (m *Method) Iterations(f dpoptim.Facts) int { return m.problem.minimum(f.Planned).Steps }

func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	if m.Iterations(e.Facts()) > convex.MostSteps {
		return nil, usage.Errorf("optimizer %s: with so little regularization beside the smoothness the minimum is out of reach; raise --l2, or lower --feature-norm", Name)
	}
	return steps{e, m.problem}, nil
}

type steps struct {
	engine  dpoptim.Engine
	problem problem
}

// State is none: what was stopped begins again.
func (steps) State() []dpoptim.State { return nil }

func (s steps) Step() (int, error) {
	return 1, s.engine.Fit(s.problem.minimum(s.engine.Facts().Planned))
}
