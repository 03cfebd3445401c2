package config

import (
	"slices"
	"strings"

	"github.com/privgrad/privgrad/dpoptim/sgd"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
)

// classWeights is the limit on weights of classes.
var classWeights = setting.Must(func(list []float64) bool {
	return !slices.ContainsFunc(list, func(w float64) bool { return !(w >= 1/ir.MostClassWeight && w <= ir.MostClassWeight) })
}, "a list of numbers from %g to %g, one a class", 1/ir.MostClassWeight, ir.MostClassWeight)

// weighed are the methods that ask for nothing but sums of gradients. Others would bound or search a loss without weights.
var weighed = []string{sgd.DPSGD, sgd.DPAdam, sgd.DPAdamW, sgd.PlainSGD, sgd.PlainAdam}

// checkClassWeights finds a method that class weights do not go with.
func (c *Config) checkClassWeights() error {
	if len(c.ClassWeights) > 0 && (c.OwnMethod != nil || !slices.Contains(weighed, c.Optimizer)) {
		return usage.Errorf("class_weights: optimizer %s does not take them; use %s, or leave them out", c.Optimizer, strings.Join(weighed, ", "))
	}
	return nil
}
