// Package dpoptim says what a training method is and what it gets: see Method and
// Engine. Every method is a folder below. A method learns from released values alone: a
// gradient that no mechanism released does not type-check.
package dpoptim

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/device"
)

// Optimizer turns released sums of gradients into updates of the parameters. What it
// learns from is already public, so nothing it does costs privacy.
type Optimizer interface {
	// Record adds the update of the parameters by g to a step.
	Record(q Queue, params Vector, g Noisy) error
	// Set fills in what update number t (from 1) reads, behind what the mechanism has set.
	Set(s *Scalars, t int)
	// State is what a checkpoint must hold beside the parameters.
	State() []State
}

// State is a vector that an optimizer keeps, of so many values per parameter.
type State struct {
	Vector Vector
	Width  int
}

// Plain are vectors of one value per parameter as states.
func Plain(vectors []Vector) []State {
	var all []State
	for _, v := range vectors {
		all = append(all, State{v, 1})
	}
	return all
}

// Vectors makes vectors, as every engine does.
type Vectors interface {
	NewVector(width int) (Vector, error)
}

// NewStates makes the zero state vectors of a rule.
func NewStates(n Vectors, r Rule) ([]Vector, error) {
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

// RecordRule adds the update of the parameters by a rule to a step.
func RecordRule(q Queue, r Rule, params Vector, g Noisy, state []Vector) error {
	v, err := g.Vector()
	if err != nil {
		return err
	}
	q.Update(r, params, v, state...)
	return nil
}
