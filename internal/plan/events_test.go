package plan

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/internal/config"
)

// What a result says was released costs what the result says: the composition of a plan's events is its ε,
// for every way to price a committed schedule. They survive being written as JSON and read.
func TestEventsComposeToEpsilon(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"sums":        func(*config.Config) {},
		"replace-one": func(c *config.Config) { c.Neighbouring = "replace-one" },
		"adaptive":    func(c *config.Config) { c.Clipping = "adaptive" },
		"noisy loss":  func(c *config.Config) { c.TrainLossNoise = ptr(3.0) },
		"both":        func(c *config.Config) { c.Clipping, c.TrainLossNoise = "adaptive", ptr(3.0) },
		"rdp":         func(c *config.Config) { c.Accountant = "rdp" },
		"calibrated":  func(c *config.Config) { c.NoiseMultiplier, c.Epsilon = nil, ptr(2.0) },
		"searches": func(c *config.Config) {
			c.Optimizer = "dp-blsgd"
			c.NoiseMultiplier, c.Epsilon = nil, ptr(2.0)
			c.Search = blsgd.Settings{Budget: "fixed"}
		},
		"shared batch": func(c *config.Config) {
			c.Optimizer = "dp-blsgd"
			c.NoiseMultiplier, c.Epsilon = nil, ptr(2.0)
			c.Search = blsgd.Settings{Budget: "fixed", Batches: "shared"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := small()
			change(&c)
			p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
			check(t, err)
			events, err := p.Events()
			check(t, err)
			r, err := accountant.Account(events, accountant.Options{Accountant: c.Accountant, Neighbouring: accountant.Neighbouring(c.Neighbouring), Delta: *p.Config.Delta})
			check(t, err)
			if math.Abs(r.Epsilon-*p.Epsilon) > 1e-9**p.Epsilon {
				t.Errorf("the events cost ε = %v, the plan says %v", r.Epsilon, *p.Epsilon)
			}
			b, err := json.Marshal(events)
			check(t, err)
			var back []accountant.Event
			check(t, json.Unmarshal(b, &back))
			if !reflect.DeepEqual(events, back) {
				t.Errorf("%s\nis read back as\n%v", b, back)
			}
		})
	}
}

// Where no list of events has the run's ε, none is given.
func TestNoEvents(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"no noise": func(c *config.Config) { c.NoiseMultiplier = ptr(0.0) },
		"sgd":      func(c *config.Config) { c.Optimizer, c.NoiseMultiplier = "sgd", nil },
		"adapts":   func(c *config.Config) { c.Optimizer = "dp-blsgd-ac"; c.NoiseMultiplier, c.Epsilon = nil, ptr(2.0) },
	} {
		t.Run(name, func(t *testing.T) {
			c := small()
			change(&c)
			p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
			check(t, err)
			if events, err := p.Events(); err != nil || events != nil {
				t.Errorf("events %v, %v", events, err)
			}
		})
	}
}
