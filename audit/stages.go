package audit

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/internal/plan"
)

// A stage is what a method is audited on: settings under which its questions say as much as their
// bounds allow, and two data sets that are as small.
type stage struct {
	with  func(*plan.Config)
	scene func(neighbouring string) *scene
}

// alone is a record that is there or not, or one of two that are opposites.
func alone(neighbouring string) *scene {
	s := &scene{features: []float64{1, 1}, targets: []float64{-1, 1}, canary: [2]int32{-1, 1}}
	if neighbouring == string(accountant.ReplaceOne) {
		s.canary[0] = 0
	}
	return s
}

// besides is the same beside a record of the first class.
func besides(neighbouring string) *scene {
	s := &scene{features: []float64{1, 1, 1}, targets: []float64{-1, -1, 1}, beside: 1, canary: [2]int32{-1, 2}}
	if neighbouring == string(accountant.ReplaceOne) {
		s.canary[0] = 1
	}
	return s
}

// stages are those of the methods that ask for more than sums of gradients.
var stages = map[string]stage{
	blsgd.BLSGD: {func(c *plan.Config) {
		fixedSearch(c, blsgd.FormLosses)
		c.Search.Trials, c.Search.Alpha = new(2), new(1e-6)
	}, alone},
	blsgd.BLSGDAC: {adaptiveSearch, alone},
	blsgd.BLGD:    {adaptiveSearch, alone},
	blsgd.AGD: {func(c *plan.Config) {
		adaptiveSearch(c)
		c.Search.Alpha = nil
	}, alone},
	"majority": {func(*plan.Config) {}, besides},
	"l2p": {func(c *plan.Config) {
		c.Protector, c.NormNoise = "quadratic", new(2.0)
		c.SamplingRate, c.Steps = new(0.25), new(20)
	}, alone},
}

// fixedSearch spends nearly all on searches, of which a single step along the noise of the
// gradient decides as much as the bound allows.
func fixedSearch(c *plan.Config, form string) {
	c.LR, c.Steps, c.SamplingRate = new(1000.0), new(10), new(1.0)
	c.Search = &plan.Search{Form: form, Budget: blsgd.BudgetFixed, Clip: new(0.3), Every: new(1), Share: new(0.9)}
}

func adaptiveSearch(c *plan.Config) {
	c.LR, c.SamplingRate = new(1000.0), new(1.0)
	c.Search = &plan.Search{Clip: new(0.3), Trials: new(2), Alpha: new(1e-6), Iterations: new(5)}
}
