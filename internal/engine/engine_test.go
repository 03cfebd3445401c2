package engine

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/dpoptim/sgd"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// A query at several step sizes gives what queries at parameters moved by hand
// give, over batches beyond the capacity and with a mechanism of its own.
func TestLossQuery(t *testing.T) {
	c, network := logistic(t, sgd.New(sgd.PlainSGD, sgd.Settings{}), 0)
	const batch, rate = 30.0, 0.1
	rows := make([]int32, 50)
	for i := range rows {
		rows[i] = int32(i)
	}
	c.Supply = &supply{rows: rows}
	e := open(t, c)
	before, after := make([]float32, len(network.Params())), make([]float32, len(network.Params()))
	check(t, e.SetParams(network.Params()))
	check(t, e.ReadParams(before))
	_, err := e.Steps.Step()
	check(t, err)
	check(t, e.ReadParams(after))
	released := make([]float32, len(before))
	check(t, e.Released(released))
	for i, g := range released {
		if moved := float64(before[i] - after[i]); math.Abs(moved-rate/batch*float64(g)) > 1e-6 || g == 0 {
			t.Fatalf("parameter %d moved by %v after a released sum of %v", i, moved, g)
		}
	}

	m, err := e.sumMechanism(dpoptim.Losses, dpoptim.Release{Bound: 2.5}, 3, lossNoise)
	check(t, err)
	query, err := e.sums(device.LossQuery{At: e.Params(), Dir: e.Gradient(), K: 3}, m)
	check(t, err)
	ask, err := e.LossQuery(dpoptim.Release{Bound: 2.5})
	check(t, err)
	// The step that the update made leads from the old parameters to the new.
	check(t, e.SetParams(before))
	got, err := query.at(rows, 2, []float32{rate / batch, 0})
	check(t, err)
	want, err := ask(rows, 3) // where no step is left over
	check(t, err)
	check(t, e.SetParams(after))
	moved, err := ask(rows, 4)
	check(t, err)
	if math.Abs(got[0]-moved) > 1e-4*moved || got[1] != want || got[2] != want || math.Abs(moved-want) < 0.1 {
		t.Errorf("losses after a step, at the parameters, and with no step given: %v, want %v, %v and %v", got, moved, want, want)
	}
}

// Whatever asks for noise at a position that was drawn is refused: a step that is run twice, a
// query at the step's position under the step's own tensor or another, a second network on
// the same stream, and a mechanism beside another under one tensor.
func TestNoisePositionsServeOnce(t *testing.T) {
	c, _ := logistic(t, sgd.New(sgd.DPSGD, sgd.Settings{}), 1)
	s := &supply{rows: []int32{0, 1}}
	c.Supply = s
	key, err := stream.NewKey()
	check(t, err)
	c.Noise, err = stream.New(stream.AES256CTR, key)
	check(t, err)
	draw := uint64(0)
	step := func(e *Engine, at uint64) error {
		s.draw = at - 1
		s.slot++
		_, err := e.Steps.Step()
		return err
	}
	query := func(e *Engine, tensor uint32, at uint64) error {
		m, err := e.sumMechanism(dpoptim.Losses, dpoptim.Release{Noise: accountant.Gaussian{NoiseMultiplier: 1}, Bound: 1}, 1, tensor)
		check(t, err)
		q, err := e.sums(device.LossQuery{At: e.Params(), Dir: e.Gradient(), K: 1}, m)
		check(t, err)
		_, err = q.at([]int32{1}, at, nil)
		return err
	}
	for what, again := range map[string]func(*Engine) error{
		"a step again":               func(e *Engine) error { return step(e, draw) },
		"an earlier step":            func(e *Engine) error { return step(e, draw-1) },
		"a query of the same tensor": func(e *Engine) error { return query(e, gradientNoise, draw) },
		"a query of another tensor":  func(e *Engine) error { return query(e, lossNoise, draw) },
		"a step of another network":  func(*Engine) error { return step(open(t, c), draw) },
		"a query of another network": func(*Engine) error { return query(open(t, c), lossNoise, draw) },
		"two mechanisms of one step": func(*Engine) error {
			c := c
			c.Adaptation, err = NewAdaptation(perexample.Adaptive{Quantile: 0.5, Floor: 0.1, Ceiling: 10}, 1, 30, c.Noise)
			check(t, err)
			c.Adaptation.count, err = mechanism.NewCount(1.5, c.Noise, gradientNoise)
			check(t, err)
			_, err := Open(c)
			return err
		},
	} {
		e := open(t, c)
		draw += 2
		check(t, step(e, draw))
		if err := again(e); !errors.Is(err, device.ErrDrawUsed) {
			t.Errorf("%s: %v, want %v", what, err, device.ErrDrawUsed)
		}
	}
	if _, err := stream.New(stream.AES256CTR, key); err == nil {
		t.Error("the key makes a second stream")
	}
}

// The gradients of an exact run are released by the mechanism whose deviation is
// rounded up without error. Losses are exact sums in every run.
func TestExactMechanism(t *testing.T) {
	c, _ := logistic(t, sgd.New(sgd.DPSGD, sgd.Settings{}), 1)
	c.Options.Exact = true
	m, err := open(t, c).gradientMechanism(nil)
	if _, ok := m.(*mechanism.Exact); !ok || err != nil {
		t.Errorf("exact noise is added by %T, %v", m, err)
	}
}

func TestDecayIsChecked(t *testing.T) {
	c, _ := logistic(t, sgd.New(sgd.PlainSGD, sgd.Settings{}), 0)
	e := open(t, c)
	for _, decay := range []float64{0, 1, -1, math.NaN()} {
		if _, err := newAverage(e.net, decay); err == nil || !strings.Contains(err.Error(), "decay") {
			t.Errorf("an average of decay %v: %v", decay, err)
		}
	}
}
