// Package dpoptim holds the optimizers. Each takes gradients as
// mechanism.Noisy alone, so a gradient that no mechanism released does not
// type-check; each is one file. LBFGS, a baseline without privacy, is none of them.
package dpoptim

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
)

// Optimizer turns released gradient sums into parameter updates. What it
// learns from is already public, so nothing it does costs privacy.
type Optimizer interface {
	// Record adds the update of the parameters by g to a step.
	Record(q device.Queue, params device.Vector, g mechanism.Noisy) error
	// Set fills in what update number t (from 1) reads from a run's inputs, in
	// which the mechanism has set its own.
	Set(in *device.Inputs, t int)
	// State is what a checkpoint must hold beside the parameters.
	State() []State
}

// State is a vector that an optimizer keeps, of so many values per parameter.
type State struct {
	Vector device.Vector
	Width  int
}

// plain are vectors of one value per parameter as states.
func plain(vectors []device.Vector) []State {
	var all []State
	for _, v := range vectors {
		all = append(all, State{v, 1})
	}
	return all
}

// Config is what all optimizers share.
type Config struct {
	Rate       float64 // step size, above 0
	Normaliser float64 // what a sum is divided by: the public expected batch q·N, never the realised one
	L2         float64 // λ of the penalty λ/2·‖w‖², added outside the clipping
	Momentum   float64 // SGD only, in [0, 1)
	Moments    Moments // Adam only
}

func (c Config) validate() error {
	switch {
	case !(c.Rate > 0) || math.IsInf(c.Rate, 0):
		return fmt.Errorf("learning rate %v: must be a finite number above 0", c.Rate)
	case !(c.Normaliser > 0) || math.IsInf(c.Normaliser, 0):
		return fmt.Errorf("normaliser %v: the expected batch must be a finite number above 0", c.Normaliser)
	case !(c.L2 >= 0) || math.IsInf(c.L2, 0):
		return fmt.Errorf("l2 %v: must be a finite number, 0 or more", c.L2)
	case !(c.Momentum >= 0) || c.Momentum >= 1:
		return fmt.Errorf("momentum %v: must be in [0, 1)", c.Momentum)
	}
	return nil
}

func (c Config) set(in *device.Inputs) {
	in.Scalars[device.Rate] = float32(c.Rate)
	in.Scalars[device.Scale] = float32(1 / c.Normaliser)
	in.Scalars[device.L2] = float32(c.L2)
}

// newStates makes the zero state vectors of a rule.
func newStates(n device.Net, r device.Rule) ([]device.Vector, error) {
	var states []device.Vector
	for range r.States() {
		v, err := n.NewVector(1)
		if err != nil {
			return nil, fmt.Errorf("optimizer state: %w", err)
		}
		states = append(states, v)
	}
	return states, nil
}

func record(q device.Queue, r device.Rule, params device.Vector, g mechanism.Noisy, state []device.Vector) error {
	v, err := g.Vector()
	if err != nil {
		return err
	}
	q.Update(r, params, v, state...)
	return nil
}
