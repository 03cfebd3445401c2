package device

import (
	"fmt"
	"math"
	"slices"
)

// Rule is how an optimizer changes one parameter. Each rule is defined by the
// scalar function Apply in float64; devices compute the same in their own
// precision. The released gradient g enters as g·Scale + L2·p but for AdamW and Average.
type Rule uint8

const (
	// SGD: p −= Rate·g. State: none.
	SGD Rule = iota
	// HeavyBall: m = Momentum·m + g, p −= Rate·m, as PyTorch does. State: m.
	HeavyBall
	// Adam with bias correction (Kingma and Ba 2015, algorithm 1), the L2
	// term inside the gradient: p −= Rate·m̂/(√max(v̂ − Variance, Floor) + Epsilon).
	// A Variance above 0 is that of the noise in g·Scale, whose square v̂
	// would else mostly be (Tang, Shpilevskiy and Lécuyer 2024, algorithm 1).
	// State: first and second moment.
	Adam
	// AdamW is Adam whose decay is outside the moments (Loshchilov and Hutter 2019, times the rate): without an L2 term in the gradient, and
	// p −= Rate·L2·p before the step. State: as Adam's.
	AdamW
	// Average: p = (1 − Blend)·p + Blend·g, of any two vectors and without
	// Scale and L2. A Blend of 1 copies g, whatever p holds. State: none.
	Average
)

// rules has a row for each, in their order: its name, and how many vectors of state it keeps.
var rules = [...]struct {
	name   string
	states int
}{{"sgd", 0}, {"heavy-ball", 1}, {"adam", 2}, {"adamw", 2}, {"average", 0}}

// Rules lists them.
func Rules() (all []Rule) {
	for r := range rules {
		all = append(all, Rule(r))
	}
	return all
}

func (r Rule) String() string { return rules[r].name }

// States is the number of state vectors of width 1 that a rule keeps.
func (r Rule) States() int { return rules[r].states }

// Apply gives the new parameter and updates state.
func (r Rule) Apply(s *[Slots]float32, p, g float64, state []float64) float64 {
	at := func(k Slot) float64 { return float64(s[k]) }
	if r == Average {
		if at(Blend) == 1 {
			return g
		}
		return p + at(Blend)*(g-p)
	}
	decay := at(L2) * p
	if g *= at(Scale); r != AdamW {
		g += decay
	}
	switch r {
	case HeavyBall:
		state[0] = at(Momentum)*state[0] + g
		return p - at(Rate)*state[0]
	case Adam, AdamW:
		if r == AdamW {
			p -= at(Rate) * decay
		}
		state[0] = at(Beta1)*state[0] + (1-at(Beta1))*g
		state[1] = at(Beta2)*state[1] + (1-at(Beta2))*g*g
		signal := math.Max(state[1]/at(Bias2)-at(Variance), at(Floor))
		return p - at(Rate)*(state[0]/at(Bias1))/(math.Sqrt(signal)+at(Epsilon))
	default:
		return p - at(Rate)*g
	}
}

// Check validates an Update's state vectors for a rule.
func (r Rule) Check(states int) error {
	if !slices.Contains(Rules(), r) {
		return fmt.Errorf("unknown update rule %d", r)
	}
	if states != r.States() {
		return fmt.Errorf("rule %s keeps %d state vectors, was given %d", r, r.States(), states)
	}
	return nil
}
