package config

import (
	"math"
	"strings"
	"testing"
)

// Class weights go with methods that sum gradients alone.
func TestChecksOfClassWeights(t *testing.T) {
	for want, set := range map[string]func(*Config){
		"":                   func(c *Config) { c.ClassWeights = []float64{1, 3} },
		"none go with all":   func(c *Config) { c.Optimizer = "noisy-gd" },
		"also without noise": func(c *Config) { c.Optimizer, c.ClassWeights = "adam", []float64{0.5, 1, 2} },
		"class_weights: optimizer noisy-gd does not take them; use dp-sgd, dp-adam, dp-adamw, sgd, adam": func(c *Config) { c.Optimizer, c.ClassWeights = "noisy-gd", []float64{1, 3} },
		"class_weights [1 0]: must be a list of numbers from 1e-06 to 1e+06":                             func(c *Config) { c.ClassWeights = []float64{1, 0} },
		"class_weights [NaN 1]: must be": func(c *Config) { c.ClassWeights = []float64{math.NaN(), 1} },
	} {
		c := small()
		set(&c)
		err := c.Check()
		if fine := !strings.Contains(want, ":"); fine && err != nil && strings.Contains(err.Error(), "class_weights") || !fine && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
