// Package dpoptim is the interface for training methods. To add one, implement Method; package
// sgd below is the shortest complete example. An Engine gives a method the noisy answers that it
// learns from. A method learns from released values alone: a gradient that no mechanism released
// does not type-check.
package dpoptim

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
