package blsgd

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/linesearch"
)

// state is where a method that searches stands: released values only, which the
// checkpoint holds as JSON.
type state struct {
	Eta      float64           `json:"eta"`                // of the last move
	Searched bool              `json:"searched,omitempty"` // under a fixed budget: Eta is no guess any more
	Start    linesearch.Start  `json:"start"`
	Group    linesearch.Group  `json:"group"`
	Adaptive *linesearch.State `json:"adaptive,omitempty"`
	dpoptim.Spent
	// Gradients, and losses at a point, that were asked of a batch: of the base and of one
	// candidate after the other; what a device evaluates beyond does not count.
	Gradients int `json:"gradients,omitempty"`
	Losses    int `json:"losses,omitempty"`
}

// asked counts the losses of a search that ended at candidate i of some, or at
// none (−1).
func (s *state) asked(i, trials int) {
	if i < 0 {
		i = trials - 1
	}
	s.Losses += i + 2
}

// follow moves the step size to what a search found; all the way by the first,
// as the start is a guess.
func (s *state) follow(found, weight float64) {
	if !s.Searched {
		weight = 1
	}
	s.Eta, s.Searched = min(max(linesearch.Smooth(s.Eta, found, weight), leastRate), mostRate), true
}

func (s *steps) Save(spent dpoptim.Spent) ([]byte, error) {
	s.state.Spent = spent
	return json.Marshal(&s.state)
}

func (s *steps) Restore(text []byte) (dpoptim.Spent, error) {
	var read state
	err := dpoptim.DecodeState(text, &read)
	if err == nil {
		err = read.validate(s.method.s.adapts())
	}
	if err != nil {
		return dpoptim.Spent{}, fmt.Errorf("line search cannot be read: %w", err)
	}
	s.state = read
	return read.Spent, nil
}

func (s *state) validate(adapts bool) error {
	if !(s.Eta > 0) || math.IsInf(s.Eta, 0) || (s.Adaptive != nil) != adapts {
		return fmt.Errorf("a step size of %v: not what a line search leaves", s.Eta)
	}
	if adapts {
		return s.Adaptive.Validate()
	}
	return s.Start.Validate()
}

func (s *steps) Figures() dpoptim.Figures {
	f := dpoptim.Figures{Gradients: &s.state.Gradients, Losses: &s.state.Losses, Rate: s.state.Eta / s.method.start}
	if a := s.state.Adaptive; a != nil && *s.method.s.Shrink > 0 {
		f.Clip = a.Budgets.Clip
	}
	return f
}
