package linesearch

import (
	"fmt"
	"math"
	"slices"
)

// Budgets set the noise of the releases to come.
type Budgets struct {
	Gradient float64 `json:"gradient"` // ρ_grad: the release of a gradient is ρ-zCDP on its batch
	Search   float64 `json:"search"`   // ε_BT of a search with Laplace noise, ρ_BT with Gaussian
	Clip     float64 `json:"clip"`     // what C_grad and C_obj are multiplied by, 1 at first
}

// Oracle answers what a Rule asks of the private data. It charges every release before
// it draws noise; accountant.ErrBudget says that nothing was released.
type Oracle interface {
	// Gradient releases the direction to search along.
	Gradient(b Budgets) (Direction, error)
	// Again releases another gradient at the same parameters, at ρ of its own, and
	// mixes it into the direction: (1−weight)·old + weight·new. The angle is that
	// between old and new.
	Again(rho, weight float64, b Budgets) (d Direction, angle float64, err error)
	// Search looks for a step size along the direction, from start down; 0 where
	// none was found.
	Search(b Budgets, start float64, d Direction) (eta float64, err error)
	// Move takes the step. It releases nothing.
	Move(eta float64) error
	// Turned is the angle between the direction of this move and of the one before,
	// in radians; NaN where there was none.
	Turned() float64
}

// Policy says what a search that found nothing leads to.
type Policy string

const (
	// ByAngle asks for a second gradient, and decides by the angle between both
	// whether gradients or searches get more budget (algorithm 3, CHEB).
	ByAngle Policy = "adaptive"
	// Always asks for a second gradient and gives gradients more budget.
	Always Policy = "always"
	// Never leaves the budgets alone: a second gradient and another search at the
	// same ones.
	Never Policy = "never"
	// Refine gives gradients more budget and spends the difference on a second
	// gradient, both weighted by their budgets (Lee and Kifer 2018, algorithm 3,
	// GRADAVG); Chen and Lee's full-batch form, DP-BLGD.
	Refine Policy = "refine"
)

// Policies are all of them.
func Policies() []Policy { return []Policy{ByAngle, Always, Never, Refine} }

// Rule is DP-BLSGD (Chen and Lee 2020, algorithms 2 and 3). With Shrink above
// 0 it is DP-BLSGD-AC (section 4.4).
type Rule struct {
	Start  StartRule
	Policy Policy
	Growth float64 // ξ, above 0
	Shrink float64 // ζ in [0, 1): how much C_grad and C_obj shrink where gradients get more budget
	// A second gradient whose angle to the first is above Wide times the moving
	// average says that gradients are too noisy, below Narrow times it that
	// searches are. Decay is the average's ψ.
	Wide, Narrow, Decay float64
}

func (r Rule) Validate() error {
	switch {
	case !slices.Contains(Policies(), r.Policy):
		return fmt.Errorf("budget policy %q: choose one of %v", r.Policy, Policies())
	case !(r.Growth > 0 && r.Growth <= mostGrowth):
		return fmt.Errorf("budgets grow by %v: must be above 0 and at most %d", r.Growth, mostGrowth)
	case !(r.Shrink >= 0 && r.Shrink < 1):
		return fmt.Errorf("clip bounds shrink by %v: must be in [0, 1)", r.Shrink)
	case !(r.Wide > 1), !(r.Narrow > 0 && r.Narrow < 1), !(r.Decay > 0 && r.Decay < 1):
		return fmt.Errorf("angles: wide %v must be above 1, narrow %v and decay %v in (0, 1)", r.Wide, r.Narrow, r.Decay)
	}
	return r.Start.Validate()
}

// mostGrowth keeps a budget that was admitted, grown once, a number. leastClip is
// where clip bounds stop shrinking, lest single precision takes them for 0.
const mostGrowth, leastClip = 100, 1e-3

// State is where a Rule stands: released values only, which a checkpoint holds.
type State struct {
	Budgets Budgets `json:"budgets"`
	Start   Start   `json:"start"`
	Angle   float64 `json:"angle"` // θ, the moving average, in radians
}

func (s State) Validate() error {
	if b := s.Budgets; !positive(b.Gradient) || !positive(b.Search) || !(b.Clip > 0 && b.Clip <= 1) || !(s.Angle >= 0 && s.Angle <= math.Pi) {
		return fmt.Errorf("budgets %+v, angle %v: not what a line search leaves", b, s.Angle)
	}
	return s.Start.Validate()
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

// NewState begins at the budgets, searching from eta.
func NewState(gradient, search, eta float64) State {
	return State{Budgets: Budgets{Gradient: gradient, Search: search, Clip: 1}, Start: Start{Eta: eta}, Angle: math.Pi / 2}
}

// Iterate makes one move, however many searches that takes, and gives its step
// size. An error ends the run; one that is accountant.ErrBudget properly.
//
// A Rule changes the state only after a release that was allowed, so that what
// follows from it can be charged first.
func (r Rule) Iterate(s *State, o Oracle) (eta float64, err error) {
	d, err := o.Gradient(s.Budgets)
	if err != nil {
		return 0, err
	}
	shrunk := false
	for {
		if eta, err = o.Search(s.Budgets, s.Start.Eta, d); err != nil {
			return 0, err
		}
		if eta > 0 {
			break
		}
		if d, err = r.fail(s, o, &shrunk); err != nil {
			return 0, err
		}
	}
	if err := o.Move(eta); err != nil {
		return 0, err
	}
	r.Start.Chose(&s.Start, eta)
	if turned := o.Turned(); !math.IsNaN(turned) {
		s.Angle = r.Decay*s.Angle + (1-r.Decay)*turned
	}
	return eta, nil
}

// fail follows a search that found nothing: a second gradient, and larger
// budgets (algorithm 3).
func (r Rule) fail(s *State, o Oracle, shrunk *bool) (Direction, error) {
	rho, weight := s.Budgets.Gradient, 0.5
	if r.Policy == Refine {
		rho, weight = r.Growth*s.Budgets.Gradient, r.Growth/(1+r.Growth)
	}
	d, angle, err := o.Again(rho, weight, s.Budgets)
	if err != nil {
		return d, err
	}
	grow := r.Policy == Always || r.Policy == Refine
	if r.Policy == ByAngle {
		switch {
		case angle > math.Pi/2 || angle > r.Wide*s.Angle:
			grow = true
		case angle < r.Narrow*s.Angle:
			s.Budgets.Search *= 1 + r.Growth
		}
	}
	if grow {
		s.Budgets.Gradient *= 1 + r.Growth
		if !*shrunk {
			s.Budgets.Clip = math.Max(s.Budgets.Clip*(1-r.Shrink), leastClip)
			*shrunk = true
		}
	}
	return d, nil
}
