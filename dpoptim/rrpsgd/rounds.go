package rrpsgd

import (
	crand "crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/papers"
)

// most is the step of theorem 5, from public figures: no step is larger.
func (m *Method) most(f dpoptim.Facts) float64 {
	r := m.bounds
	r.Steps = f.Steps
	noise := f.Planned * m.clip / f.ExpectedBatch
	r.Variance = 4*m.clip*m.clip/f.ExpectedBatch + float64(f.Params)*noise*noise
	return math.Min(f.Rate.Peak, r.Rate())
}

// Open records the updates, and draws R. A run that is resumed has the one that it began with.
func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	f := e.Facts()
	most := m.most(f)
	rate := func(step int) float64 { return math.Min(most, f.Rate.At(step)) }
	plain, err := dpoptim.Projected{Rate: rate}.Open(e)
	if err != nil {
		return nil, err
	}
	uniform := func() float64 {
		var b [8]byte
		_, _ = crand.Read(b[:]) // it ends the program rather than fail
		return float64(binary.LittleEndian.Uint64(b[:])>>11) * 0x1p-53
	}
	if m.seeded {
		uniform = rand.New(rand.NewPCG(m.seed, uint64(f.Steps))).Float64
	}
	s := &steps{Steps: plain, engine: e, rate: rate}
	s.state.Rounds, err = papers.DrawRounds(f.Steps, func(k int) float64 { return rate(k + 1) }, m.bounds.Smoothness, most, uniform)
	return s, err
}

// state is R, which is public.
type state struct {
	Rounds int `json:"rounds"`
}

type steps struct {
	dpoptim.Steps
	engine dpoptim.Engine
	rate   func(step int) float64
	state  state
}

var (
	_ dpoptim.Keeper   = (*steps)(nil)
	_ dpoptim.Finisher = (*steps)(nil)
	_ dpoptim.Reporter = (*steps)(nil)
)

// Finished is of updates: slots that a crash has lost are no rounds.
func (s *steps) Finished() bool { return s.engine.Update() > s.state.Rounds }

func (s *steps) Figures() dpoptim.Figures {
	at := max(s.engine.Slot(), 1)
	rounds := s.state.Rounds
	return dpoptim.Figures{Rounds: &rounds, Rate: s.rate(at) / s.engine.Facts().Rate.At(at)}
}

func (s *steps) Save(dpoptim.Spent) ([]byte, error) { return json.Marshal(&s.state) }

func (s *steps) Restore(text []byte) (dpoptim.Spent, error) {
	var read state
	err := dpoptim.DecodeState(text, &read)
	if err == nil && (read.Rounds < 1 || read.Rounds > s.engine.Facts().Steps) {
		err = errors.New("not what a schedule of this length leaves")
	}
	if err != nil {
		return dpoptim.Spent{}, fmt.Errorf("number of rounds cannot be read: %w", err)
	}
	s.state = read
	return dpoptim.Spent{}, nil
}
