package train

import (
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/linesearch"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
)

// largestGroup is the most candidates that a search evaluates together.
const largestGroup = 16

// descent is an engine's part for optimizers that choose their step size after
// they have seen the gradient: it is released as a direction, losses are asked for along it,
// and a step is taken last. Directions are kept in units of the sum, D = qN·d.
type descent struct {
	normaliser, l2 float64
	release, move  device.Step
	// Of optimizers that may ask for a second gradient.
	second, last device.Vector
	again, keep  device.Step

	searches map[int]*searchStep // by candidates
	curve    *searchStep
	least    *searchStep
	decrease device.Vector // the released curve
	group    linesearch.Group
	tried    int // candidates evaluated by the last search
}

// A searchStep sums the losses of a batch at some candidates, in as many runs as
// it takes, and then asks for what may leave.
type searchStep struct{ sum, ask device.Step }

// recordDescent records the release of a direction and the step along it.
func (e *Engine) recordDescent(sum device.Sum, optimizer func(device.Net) (dpoptim.Optimizer, error), normaliser, l2 float64, remembers bool) error {
	d := &descent{normaliser: normaliser, l2: l2, searches: map[int]*searchStep{}}
	e.descent = d
	var err, moveErr error
	if e.optimizer, err = optimizer(e.net); err != nil {
		return err
	}
	params, direction := e.net.Params(), e.gradient
	if remembers {
		for _, v := range []*device.Vector{&d.second, &d.last} {
			if *v, err = e.net.NewVector(1); err != nil {
				return err
			}
		}
	}
	var noisy mechanism.Noisy
	d.release, err = e.net.Record(func(q device.Queue) {
		noisy = e.mechanism.Release(q, direction, sum)
		d.penalise(q, direction, params)
		d.measure(q, direction, params)
	})
	if err != nil {
		return err
	}
	d.move, err = e.net.Record(func(q device.Queue) {
		if remembers {
			q.Dot(direction, d.last)
			q.Dot(direction, direction)
			q.Dot(d.last, d.last)
		}
		moveErr = e.optimizer.Record(q, params, noisy)
	})
	if err = errors.Join(err, moveErr); err != nil || !remembers {
		return err
	}
	d.keep, err = e.net.Record(func(q device.Queue) { q.Update(device.Average, d.last, direction) })
	if err != nil {
		return err
	}
	d.again, err = e.net.Record(func(q device.Queue) {
		e.mechanism.Release(q, d.second, sum)
		d.penalise(q, d.second, params)
		q.Dot(direction, d.second)
		q.Dot(direction, direction)
		q.Dot(d.second, d.second)
		q.Update(device.Average, direction, d.second)
		d.measure(q, direction, params)
	})
	return err
}

// penalise adds the penalty's gradient, where there is a penalty.
func (d *descent) penalise(q device.Queue, direction, params device.Vector) {
	if d.l2 != 0 {
		q.Axpy(direction, device.Along, params)
	}
}

// measure gives what a search has to know of a direction: D·D, and w·D where there is
// a penalty.
func (d *descent) measure(q device.Queue, direction, params device.Vector) {
	q.Dot(direction, direction)
	if d.l2 != 0 {
		q.Dot(params, direction)
	}
}

// RecordSearch records searches over losses of rows of a table, which the
// mechanism's index leaves alone.
func (e *Engine) RecordSearch(data device.Data, m *mechanism.NoisyBTLS) error {
	for k := 1; k <= largestGroup; k *= 2 {
		s, err := e.losses(data, m.Query(e.net.Params(), e.gradient, k), m.Test)
		if err != nil {
			return err
		}
		e.descent.searches[k] = s
	}
	return nil
}

// RecordLeast records the question which of so many candidates has the least loss.
func (e *Engine) RecordLeast(data device.Data, candidates int, m *mechanism.NoisyMin) (err error) {
	e.descent.least, err = e.losses(data, device.LossQuery{At: e.net.Params(), Dir: e.gradient, K: candidates, Form: device.LossSum}, m.Test)
	return err
}

// Least gives the index of the candidate at which the batch's loss and the
// candidate's bias are least, with the noise of m.
func (e *Engine) Least(rows []int32, draw uint64, m *mechanism.NoisyMin, candidates, biases []float64) (int, error) {
	d := e.descent
	m.Set(&e.inputs)
	copy(e.inputs.Biases[:], biases)
	clear(e.inputs.Candidates[:])
	for i, c := range candidates {
		e.inputs.Candidates[i] = float32(c / d.normaliser)
	}
	if err := e.run(d.least.sum, d.least.ask, rows, draw); err != nil {
		return 0, err
	}
	out, err := d.least.ask.Wait()
	if err != nil {
		return 0, err
	}
	d.tried = len(candidates)
	return out.Found[0], nil
}

// RecordCurve records the release of a curve of decreases.
func (e *Engine) RecordCurve(data device.Data, points int, m mechanism.Mechanism) error {
	var err error
	if e.descent.decrease, err = e.net.NewScalars(points); err != nil {
		return err
	}
	query := device.LossQuery{At: e.net.Params(), Dir: e.gradient, K: points, Form: device.LossCurve}
	e.descent.curve, err = e.losses(data, query, func(q device.Queue, private device.Sum) {
		m.Release(q, e.descent.decrease, private)
	})
	return err
}

func (e *Engine) losses(data device.Data, query device.LossQuery, ask func(device.Queue, device.Sum)) (*searchStep, error) {
	private, err := e.net.NewScalarSum(query.K)
	if err != nil {
		return nil, err
	}
	s := &searchStep{}
	if s.sum, err = e.net.Record(func(q device.Queue) { q.Losses(private, data, query) }); err != nil {
		return nil, err
	}
	s.ask, err = e.net.Record(func(q device.Queue) { ask(q, private) })
	return s, err
}

// Direction releases a batch's gradient as the direction to descend along.
func (e *Engine) Direction(rows []int32, draw uint64, m mechanism.Mechanism) (linesearch.Direction, error) {
	d := e.descent
	m.Set(&e.inputs)
	e.inputs.Scalars[device.Along] = float32(d.l2 * d.normaliser)
	if err := e.run(e.sum, d.release, rows, draw); err != nil {
		return linesearch.Direction{}, err
	}
	out, err := d.release.Wait()
	if err != nil {
		return linesearch.Direction{}, err
	}
	return d.direction(out.Dots), nil
}

// direction reads what was measured.
func (d *descent) direction(dots []float64) linesearch.Direction {
	r := linesearch.Direction{Norm2: dots[0] / d.normaliser / d.normaliser, L2: d.l2}
	if len(dots) > 1 {
		r.Along = dots[1] / d.normaliser
	}
	return r
}

// Again releases another gradient at the same parameters and mixes it into the
// direction. The angle between both is in radians.
func (e *Engine) Again(rows []int32, draw uint64, m mechanism.Mechanism, weight float64) (linesearch.Direction, float64, error) {
	d := e.descent
	m.Set(&e.inputs)
	e.inputs.Scalars[device.Along] = float32(d.l2 * d.normaliser)
	e.inputs.Scalars[device.Blend] = float32(weight)
	if err := e.run(e.sum, d.again, rows, draw); err != nil {
		return linesearch.Direction{}, 0, err
	}
	out, err := d.again.Wait()
	if err != nil {
		return linesearch.Direction{}, 0, err
	}
	return d.direction(out.Dots[3:]), angle(out.Dots[:3]), nil
}

// angle reads x·y, x·x and y·y; NaN where one of them is zero.
func angle(dots []float64) float64 {
	cos := dots[0] / math.Sqrt(dots[1]) / math.Sqrt(dots[2])
	return math.Acos(min(max(cos, -1), 1))
}

// Search asks for the first of the candidates whose decrease over the batch
// reaches its bias, with the noise of m: its index, or −1. The candidates are
// evaluated in groups, which does not change the answer.
func (e *Engine) Search(rows []int32, draw uint64, m *mechanism.NoisyBTLS, candidates, biases []float64) (int, error) {
	d := e.descent
	m.Set(&e.inputs)
	d.tried = 0
	etas := make([]float32, len(candidates)) // of directions in units of the sum
	for i, c := range candidates {
		etas[i] = float32(c / d.normaliser)
	}
	for first := 0; first < len(candidates); {
		most := 1
		for most < len(candidates)-first {
			most *= 2
		}
		size := d.group.Size(min(most, largestGroup))
		s, end := d.searches[size], min(first+size, len(candidates))
		m.Ask(&e.inputs, first, etas[first:end], biases[first:end])
		if err := e.run(s.sum, s.ask, rows, draw); err != nil {
			return 0, err
		}
		out, err := s.ask.Wait()
		if err != nil {
			return 0, err
		}
		d.tried += size
		if i := out.Found[0]; i >= 0 {
			d.group.Needed(first + i + 1)
			return first + i, nil
		}
		first += size
	}
	d.group.Needed(len(candidates))
	return -1, nil
}

// Tried is how many candidates the last search evaluated, the present parameters not
// counted. It follows from what was released.
func (e *Engine) Tried() int { return e.descent.tried }

// Decreases releases the sums of the batch's decreases at the candidates.
func (e *Engine) Decreases(rows []int32, draw uint64, m mechanism.Mechanism, candidates []float64) ([]float64, error) {
	d := e.descent
	m.Set(&e.inputs)
	clear(e.inputs.Candidates[:])
	for i, c := range candidates {
		e.inputs.Candidates[i] = float32(c / d.normaliser)
	}
	if err := e.run(d.curve.sum, d.curve.ask, rows, draw); err != nil {
		return nil, err
	}
	values := make([]float32, len(candidates))
	if err := e.net.Read(d.decrease, values); err != nil {
		return nil, err
	}
	d.tried = len(candidates)
	sums := make([]float64, len(values))
	for i, v := range values {
		sums[i] = float64(v)
	}
	return sums, nil
}

// Move takes a step along the direction, the update's number t from 1, and gives
// the angle between it and the one of the move before, NaN where there is none
// or none is remembered.
func (e *Engine) Move(eta float64, t int) (float64, error) {
	d, in := e.descent, &e.inputs
	e.optimizer.Set(in, t)
	in.Scalars[device.Rate] = float32(eta)
	in.Scalars[device.L2] = 0 // it is in the direction
	in.Rows, in.Draw = nil, 0
	if err := d.move.Run(in); err != nil {
		return 0, fmt.Errorf("step of size %v: %w", eta, err)
	}
	if d.keep == nil {
		return math.NaN(), nil
	}
	out, err := d.move.Wait()
	if err != nil {
		return 0, err
	}
	in.Scalars[device.Blend] = 1
	return angle(out.Dots), d.keep.Run(in)
}
