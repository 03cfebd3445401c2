package audit

import (
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/dpoptim/majority"
	"github.com/privgrad/privgrad/internal/plan"
)

// A stage is what a method is audited on: settings under which its questions say as much as their
// bounds allow, and two data sets that are as small.
type stage struct {
	epsilon, delta float64
	with           func(*plan.Config)
	scene          func(neighbouring string) *scene
}

// alone is a record that is there or not, or one of two that are opposites.
func alone(neighbouring string) *scene {
	return (&scene{features: []float64{1, 1}, targets: []float64{-1, 1}, params: []float32{0, 0}}).neighbours(neighbouring)
}

// neighbours makes of the last two records the canaries.
func (s *scene) neighbours(neighbouring string) *scene {
	s.beside = len(s.features) - 2
	s.canary = [2]int32{-1, int32(s.beside) + 1}
	if neighbouring == string(accountant.ReplaceOne) {
		s.canary[0] = int32(s.beside)
	}
	return s
}

// besides is the same beside a record of the first class.
func besides(neighbouring string) *scene {
	return (&scene{features: []float64{1, 1, 1}, targets: []float64{-1, -1, 1}, params: []float32{0, 0}}).neighbours(neighbouring)
}

// downhill has records beside the canary whose gradients give the direction, and whose losses are
// above the bound before and behind a step of searchMove. It takes the canary's loss from the
// bound to 0, or that of its opposite from 0 to the bound.
func downhill(neighbouring string) *scene {
	const many = 30
	return (&scene{
		features: append(slices.Repeat([]float64{1}, many), 0, 0), targets: append(slices.Repeat([]float64{1}, many), -1, 1),
		params: []float32{-60, -searchClip},
	}).neighbours(neighbouring)
}

// searchClip is the bound on losses, and smallClip one that all gradients reach.
const searchClip, smallClip, searchMove = 3, 0.01, 10

// apart is how many times a record's share replacing it moves a sum.
func apart(c *plan.Config) float64 {
	if c.Neighbouring == string(accountant.ReplaceOne) {
		return 2
	}
	return 1
}

// stages are those of the methods that ask for more than sums of gradients.
var stages = map[string]stage{
	blsgd.BLSGD: {4, 1e-5, func(c *plan.Config) {
		search(c)
		c.Steps, c.SamplingRate = new(1), new(1.0)
		s := c.Search
		s.Form, s.Budget, s.Every, s.Share = blsgd.FormLosses, blsgd.BudgetFixed, new(1), new(0.8)
		s.Trials, s.Alpha, s.Margin = new(1), new(1e-9), new(0.5)
	}, downhill},
	blsgd.BLSGDAC: {2, 0.05, func(c *plan.Config) {
		adaptive(c)
		c.SamplingRate, c.Steps = new(1.0), new(20)
	}, downhill},
	blsgd.BLGD: {2, 0.05, adaptive, downhill},
	blsgd.AGD: {2, 0.05, func(c *plan.Config) {
		adaptive(c)
		c.Search.Alpha, c.Search.Trials, c.Search.Margin, c.Search.Noise = nil, new(2), nil, ""
	}, downhill},
	majority.Name: {2, 1e-5, func(*plan.Config) {}, besides},
	l2p.Name: {2, 0.05, func(c *plan.Config) {
		c.Protector, c.NormNoise = "quadratic", new(1.3*apart(c))
		c.SamplingRate, c.Steps = new(1.0), new(1)
	}, alone},
}

// search moves the bias by about searchMove, along the sum of the gradients of downhill's records.
func search(c *plan.Config) {
	c.Clip, c.LR = smallClip, new(searchMove/(30*smallClip/1.41))
	c.Search = &plan.Search{Clip: new(float64(searchClip))}
}

func adaptive(c *plan.Config) {
	search(c)
	c.Search.Noise = string(accountant.BTLSGaussian)
	c.Search.Iterations, c.Search.Alpha, c.Search.Trials, c.Search.Margin = new(2*int(apart(c))), new(1e-9), new(1), new(0.2)
}
