package plan

import (
	"strings"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/mnist"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// Reprice plans steps, noise and releases of a run anew, from the configuration that the run
// stored and the number of its records: what an auditor can do who has no data. The plan has
// no network and no device.
func Reprice(c Config, records int) (*Plan, error) {
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
	if err := p.complete(1); err != nil {
		return nil, err
	}
	if err := p.resolveSampling(); err != nil {
		return nil, err
	}
	p.Config.PublicN = declared
	return p, p.resolvePrivacy()
}

// StatedN is the number of training records that the configuration stands for: the declared
// one, or that of a published image set, of the classes that are kept. It is 0 where a
// table's schema says more of it.
func (c Config) StatedN() (int, error) {
	if strings.HasPrefix(c.Data, TablePrefix) {
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
