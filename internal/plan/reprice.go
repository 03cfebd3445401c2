package plan

import (
	"slices"
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/mnist"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// Reprice plans steps, noise and releases of a run anew, from the configuration that the run
// stored and the numbers of its records, parameters and classes: what an auditor can do who has no
// data. The plan has no device, and no network but a linear model.
func Reprice(c Config, records, params, classes int) (*Plan, error) {
	_, err := Model(c.Model)
	ownNetwork := err != nil || nn.Registered(c.Model)
	if err := c.check(ownNetwork); err != nil {
		return nil, err
	}
	if records < 1 {
		return nil, usage.Errorf("%d public records: there is one at least", records)
	}
	declared := c.PublicN
	c.PublicN = nil // records has it, without those that are held out
	p := &Plan{Config: c, Set: &datasets.Set{Name: c.Data, PublicN: records}, declared: c.declares(), ownNetwork: ownNetwork}
	if p.precision, err = device.ParsePrecision(c.Precision); err != nil {
		return nil, usage.Wrap(err)
	}
	p.Method = p.Config.method() // which completes p.Config
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
	if nn.Registered(p.Config.Model) || !slices.ContainsFunc(nn.Names(), func(m nn.Info) bool { return m.Name == p.Config.Model && m.Input == [3]int{} }) {
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
	p.Network, err = BuildNetwork(p.Config.Model, [3]int{1, 1, inputs}, max(classes, 2), p.Config.Activation, p.Config.Seed)
	return err
}

// StatedN is the number of training records that the configuration stands for: the declared
// one, or that of a published image set, of the classes that are kept. It is 0 where a
// table's schema says more of it, or the index of shards.
func (c Config) StatedN() (int, error) {
	if strings.HasPrefix(c.Data, TablePrefix) || strings.HasPrefix(c.Data, shards.Form.Prefix) {
		return 0, nil
	}
	if c.PublicN != nil {
		return *c.PublicN, nil
	}
	for _, l := range append(Layouts(), &mnist.Fashion) {
		if l.Name == c.Data {
			set, err := c.choose(l.Facts())
			if err != nil {
				return 0, err
			}
			return set.PublicN, nil
		}
	}
	return 0, nil
}

// declares is what declare assumes of files, whatever is in them.
func (c Config) declares() (assumed []string) {
	files := FormOf(c.Data) != nil || strings.HasPrefix(c.Data, TablePrefix)
	for _, l := range Layouts() {
		files = files || l.Name == c.Data
	}
	if files && c.PublishedSet {
		assumed = append(assumed, publishedFiles)
	}
	if files && c.TestIsPublic && !c.DataIsPublic {
		assumed = append(assumed, publicTest)
	}
	return assumed
}
