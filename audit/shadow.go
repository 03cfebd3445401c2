package audit

import (
	"github.com/privgrad/privgrad/internal/engine"
)

// A shadow follows a run without its noise, and so knows every sum that the run may
// have, to the last digit: what an adversary who knows the program, the parameters
// and all records works out at home.
type shadow struct {
	*trainer
	game   *game
	params []float32
	both   [2][]float32
	rows   []int32
}

func (g *game) newShadow() (*shadow, error) {
	keys, err := newKeys(0)
	if err != nil {
		return nil, err
	}
	p := *g.plan
	p.Sigma = 0 // no noise
	t, err := g.newTrainer(&p, keys)
	if err != nil {
		return nil, err
	}
	n := len(g.params)
	return &shadow{trainer: t, game: g, params: make([]float32, n), both: [2][]float32{make([]float32, n), make([]float32, n)}}, nil
}

// sums are those of a batch at a run's parameters, without the canary and with it.
func (s *shadow) sums(run *engine.Engine, beside []int32) ([2][]float32, error) {
	if err := run.ReadParams(s.params); err != nil {
		return s.both, err
	}
	s.rows = append(s.rows[:0], beside...)
	for w := range s.both {
		if w == 1 {
			s.rows = append(s.rows, s.game.records.canary[1])
		}
		if err := s.engine.SetParams(s.params); err != nil {
			return s.both, err
		}
		if err := s.supply.Step(s.engine, s.rows); err != nil {
			return s.both, err
		}
		if err := s.engine.Released(s.both[w]); err != nil {
			return s.both, err
		}
	}
	return s.both, nil
}
