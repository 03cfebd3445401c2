package engine

import (
	"fmt"
	"math/bits"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
)

// largestGroup is the most candidates that a search evaluates together.
const largestGroup = 16

// losses sums the losses of a batch at some candidates, in as many runs as it takes, and then
// asks for what may leave.
type losses struct{ sum, ask device.Step }

func (e *Engine) losses(query device.LossQuery, ask func(device.Queue, device.Sum)) (l losses, err error) {
	private, err := e.net.NewScalarSum(query.K)
	if err != nil {
		return l, err
	}
	if l.sum, err = e.net.Record(func(q device.Queue) { q.Losses(private, e.c.Data, query) }); err != nil {
		return l, err
	}
	l.ask, err = e.net.Record(func(q device.Queue) { ask(q, private) })
	return l, err
}

// batch has a question about losses paid for, and gives the rows that it is asked of.
func (e *Engine) batch(q dpoptim.Question, price accountant.Mechanism) (rows []int32, draw uint64, err error) {
	if err := e.admit(q, price); err != nil {
		return nil, 0, err
	}
	own := e.declared[q].ask.Batch == dpoptim.Own
	if e.own, draw = e.c.Supply.Batch(q, !own, e.own[:0]); own {
		return e.own, draw, nil
	}
	return e.rows, draw, nil
}

// candidates fills in step sizes, of directions in units of the sum.
func (e *Engine) candidates(etas []float64) []float32 {
	all := make([]float32, len(etas))
	for i, c := range etas {
		all[i] = float32(c / e.c.Facts.ExpectedBatch)
	}
	return all
}

type search struct {
	engine *Engine
	groups map[int]losses // by candidates that are evaluated together
	tried  int
}

func (e *Engine) Search(along device.Vector) (dpoptim.Search, error) {
	m, err := e.searchMechanism(nil)
	if err != nil {
		return nil, err
	}
	s := &search{engine: e, groups: map[int]losses{}}
	for k := 1; k <= largestGroup; k *= 2 {
		if s.groups[k], err = e.losses(m.Query(e.net.Params(), along, k), m.Test); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *search) Deviation(asked *dpoptim.Release) float64 {
	m, err := s.engine.searchMechanism(asked)
	if err != nil {
		return 0 // and Ask refuses it
	}
	return m.Deviation()
}

func (s *search) Tried() int { return s.tried }

// Ask gives the first of the candidates whose decrease over the batch reaches its bias, or −1.
// Candidates are evaluated in groups, which does not change the answer.
func (s *search) Ask(asked *dpoptim.Release, c dpoptim.Candidates) (int, error) {
	e := s.engine
	m, err := e.searchMechanism(asked)
	if err != nil {
		return 0, err
	}
	rows, draw, err := e.batch(dpoptim.Searches, m.Event())
	if err != nil {
		return 0, err
	}
	m.Set(&e.inputs)
	s.tried = 0
	etas := e.candidates(c.Etas)
	for first := 0; first < len(etas); {
		most := 1 << bits.Len(uint(len(etas)-first-1)) // the power of two that covers the rest
		size := c.Group.Size(min(most, largestGroup))
		group, end := s.groups[size], min(first+size, len(etas))
		m.Ask(&e.inputs, first, etas[first:end], c.Biases[first:end])
		if err := e.run(group.sum, group.ask, rows, draw); err != nil {
			return 0, err
		}
		out, err := group.ask.Wait()
		if err != nil {
			return 0, err
		}
		s.tried += size
		if i := out.Found[0]; i >= 0 {
			c.Group.Needed(first + i + 1)
			return first + i, nil
		}
		first += size
	}
	c.Group.Needed(len(etas))
	return -1, nil
}

type minimum struct {
	engine *Engine
	losses losses
	size   int
}

func (e *Engine) Minimum(along device.Vector) (dpoptim.Search, error) {
	m, err := e.minimumMechanism(nil)
	if err != nil {
		return nil, err
	}
	s := &minimum{engine: e, size: e.declared[dpoptim.Minima].ask.Size}
	s.losses, err = e.losses(device.LossQuery{At: e.net.Params(), Dir: along, K: s.size, Form: device.LossSum}, m.Test)
	return s, err
}

func (s *minimum) Deviation(*dpoptim.Release) float64 { return 0 } // no threshold has noise
func (s *minimum) Tried() int                         { return s.size }

// Ask gives the candidate at which the batch's loss and the candidate's bias are least.
func (s *minimum) Ask(asked *dpoptim.Release, c dpoptim.Candidates) (int, error) {
	e := s.engine
	m, err := e.minimumMechanism(asked)
	if err != nil {
		return 0, err
	}
	rows, draw, err := e.batch(dpoptim.Minima, m.Event())
	if err != nil {
		return 0, err
	}
	m.Set(&e.inputs)
	copy(e.inputs.Biases[:], c.Biases)
	clear(e.inputs.Candidates[copy(e.inputs.Candidates[:], e.candidates(c.Etas)):])
	if err := e.run(s.losses.sum, s.losses.ask, rows, draw); err != nil {
		return 0, err
	}
	out, err := s.losses.ask.Wait()
	if err != nil {
		return 0, err
	}
	return out.Found[0], nil
}

// sums releases sums of losses, or of their decreases along a direction.
type sums struct {
	engine    *Engine
	mechanism mechanism.Mechanism
	losses    losses
	released  device.Vector
	values    []float32
}

func (e *Engine) sums(query device.LossQuery, m mechanism.Mechanism) (*sums, error) {
	s := &sums{engine: e, mechanism: m, values: make([]float32, query.K)}
	var err error
	if s.released, err = e.net.NewScalars(query.K); err != nil {
		return nil, err
	}
	s.losses, err = e.losses(query, func(q device.Queue, private device.Sum) { m.Release(q, s.released, private) })
	return s, err
}

func (s *sums) at(rows []int32, draw uint64, etas []float32) ([]float64, error) {
	e := s.engine
	s.mechanism.Set(&e.inputs)
	clear(e.inputs.Candidates[copy(e.inputs.Candidates[:], etas):])
	if err := e.run(s.losses.sum, s.losses.ask, rows, draw); err != nil {
		return nil, err
	}
	if err := e.net.Read(s.released, s.values); err != nil {
		return nil, err
	}
	all := make([]float64, len(s.values))
	for i, v := range s.values {
		all[i] = float64(v)
	}
	return all, nil
}

func (e *Engine) Curve(along device.Vector) (func([]float64) ([]float64, error), error) {
	r, err := e.release(dpoptim.Curves, nil)
	if err != nil {
		return nil, err
	}
	points := e.declared[dpoptim.Curves].ask.Size
	m, err := e.sumMechanism(dpoptim.Curves, r, points, searchNoise)
	if err != nil {
		return nil, err
	}
	s, err := e.sums(device.LossQuery{At: e.net.Params(), Dir: along, K: points, Form: device.LossCurve}, m)
	return func(etas []float64) ([]float64, error) {
		rows, draw, err := e.batch(dpoptim.Curves, m.Event())
		if err != nil {
			return nil, err
		}
		return s.at(rows, draw, e.candidates(etas))
	}, err
}

// Loss refuses private methods.
func (e *Engine) Loss() (func() (float64, error), error) {
	if e.c.Method.Traits().Private {
		return nil, fmt.Errorf("optimizer %s is private, and asks for an un-noised loss", e.c.Method.Traits().Name)
	}
	ask, err := e.LossQuery(dpoptim.Release{Bound: dpoptim.MostScale})
	return func() (float64, error) {
		_, draw := e.c.Supply.Batch(dpoptim.Losses, true, nil)
		return ask(e.rows, draw)
	}, err
}

// LossQuery records the release of the sum of a batch's losses at the parameters, each
// clipped to the bound. Who calls it has paid.
func (e *Engine) LossQuery(r dpoptim.Release) (func(rows []int32, draw uint64) (float64, error), error) {
	m, err := e.sumMechanism(dpoptim.Losses, r, 1, lossNoise)
	if err != nil {
		return nil, err
	}
	s, err := e.sums(device.LossQuery{At: e.net.Params(), Dir: e.gradient, K: 1}, m)
	return func(rows []int32, draw uint64) (float64, error) {
		loss, err := s.at(rows, draw, nil)
		if err != nil {
			return 0, err
		}
		return loss[0], nil
	}, err
}
