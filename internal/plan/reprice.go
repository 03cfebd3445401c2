package plan

import (
	"slices"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// Reprice plans steps, noise and releases of a run anew, from the configuration that the run
// stored and the numbers of its records, parameters and classes: what an auditor can do who has no
// data. The plan has no device, and no network but a linear model.
func Reprice(c config.Config, records, params, classes int) (*Plan, error) {
	_, err := Model(c.Model)
	ownNetwork := c.Network == "" && (err != nil || nn.Registered(c.Model))
	c.OwnNetwork = ownNetwork
	if err := c.Check(); err != nil {
		return nil, err
	}
	if records < 1 {
		return nil, usage.Errorf("%d public records: there is one at least", records)
	}
	declared := c.PublicN
	c.PublicN = nil // records has it, without those that are held out
	p := &Plan{Config: c, Set: &datasets.Set{Name: c.Data, PublicN: records}, declared: source.Declares(c), ownNetwork: ownNetwork}
	if p.precision, err = device.ParsePrecision(c.Precision); err != nil {
		return nil, usage.Wrap(err)
	}
	p.Method, p.Traits = p.Config.Method(), p.Config.Traits()
	for _, step := range []func() error{p.resolveRecords, func() error { return p.relinear(params, classes) }, p.complete, p.resolveSampling} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	p.Config.PublicN = declared
	return p, p.resolvePrivacy()
}

// relinear builds the linear model of so many parameters, if the run's is one.
func (p *Plan) relinear(params, classes int) (err error) {
	const most = 1 << 27 // of a file that may say anything
	if p.Config.Network != "" || nn.Registered(p.Config.Model) || !slices.ContainsFunc(nn.Names(), func(m nn.Info) bool { return m.Name == p.Config.Model && m.Linear }) {
		return nil
	}
	outputs := 1
	if classes > 2 {
		outputs = classes
	}
	inputs := params/outputs - 1
	if params > most || inputs < 1 || outputs*(inputs+1) != params {
		return usage.Errorf("%d parameters are none of model %s", params, p.Config.Model)
	}
	p.Network, err = BuildNetwork(p.Config.Model, nn.Options{Input: [3]int{1, 1, inputs}, Classes: max(classes, 2), Activation: p.Config.Activation, Seed: p.Config.Seed})
	return err
}
