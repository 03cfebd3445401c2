package train

import (
	"errors"
	"math"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// A query at several step sizes gives what queries at parameters moved by hand
// give, over batches beyond the capacity and with a mechanism of its own.
func TestLossQuery(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set, err := made(3, 200).Keep([]int{0, 1})
	check(err)
	network, err := BuildNetwork("logistic", set.Train.Shape, set.Classes, "tanh", 1)
	check(err)
	d, err := OpenDevice("cpu", 2)
	check(err)
	defer d.Close()
	data, err := Load(d, set.Train, network.Program.Loss, set.Classes)
	check(err)
	defer data.Close()
	schedule, err := perexample.Plain(network.Program)
	check(err)
	noise, err := stream.New(stream.AES256CTR, stream.KeyFromSeed(1, "test"))
	check(err)
	const batch, rate = 50.0, 0.1
	e, err := NewEngine(d, schedule, device.Options{Capacity: 20}, data, func(device.Net) (mechanism.Mechanism, error) { return mechanism.NewUnprotected(1, noise), nil }, nil, func(n device.Net) (dpoptim.Optimizer, error) {
		return dpoptim.NewSGD(n, dpoptim.Config{Rate: rate, Normaliser: batch})
	})
	check(err)
	defer e.Close()
	rows := make([]int32, int(batch))
	for i := range rows {
		rows[i] = int32(i)
	}
	before, after := make([]float32, len(network.Params())), make([]float32, len(network.Params()))
	check(e.SetParams(network.Params()))
	check(e.Params(before))
	check(e.Step(rows, 1, 1))
	check(e.Params(after))
	released := make([]float32, len(before))
	check(e.Released(released))
	for i, g := range released {
		if moved := float64(before[i] - after[i]); math.Abs(moved-rate/batch*float64(g)) > 1e-6 || g == 0 {
			t.Fatalf("parameter %d moved by %v after a released sum of %v", i, moved, g)
		}
	}

	losses := func(device.Net) (mechanism.Mechanism, error) { return mechanism.NewUnprotected(2.5, noise), nil }
	query, err := e.LossQuery(data, losses, 3)
	check(err)
	one, err := e.LossQuery(data, losses, 1)
	check(err)
	draw := uint64(1)
	ask := func(f func([]int32, uint64, ...float32) ([]float64, error), steps ...float32) []float64 {
		draw++
		v, err := f(rows, draw, steps...)
		check(err)
		return v
	}
	// The step that the update made leads from the old parameters to the new.
	check(e.SetParams(before))
	got := ask(query, rate/batch, 0)
	want := ask(one)[0] // where no step is left over
	check(e.SetParams(after))
	moved := ask(one)[0]
	if math.Abs(got[0]-moved) > 1e-4*moved || got[1] != want || got[2] != want || math.Abs(moved-want) < 0.1 {
		t.Errorf("losses after a step, at the parameters, and with no step given: %v, want %v, %v and %v", got, moved, want, want)
	}
}

// Whatever asks for noise at a position that was drawn is refused: a step that is run twice, a
// query at the step's position under the step's own tensor or another, a second network on
// the same stream, and a mechanism beside another under one tensor.
func TestNoisePositionsServeOnce(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set, err := made(3, 50).Keep([]int{0, 1})
	check(err)
	network, err := BuildNetwork("logistic", set.Train.Shape, set.Classes, "tanh", 1)
	check(err)
	d, err := OpenDevice("cpu", 1)
	check(err)
	defer d.Close()
	data, err := Load(d, set.Train, network.Program.Loss, set.Classes)
	check(err)
	defer data.Close()
	schedule, err := perexample.Private(network.Program, perexample.Options{Strategy: perexample.Materialise, Clipping: ir.Flat})
	check(err)
	key, err := stream.NewKey()
	check(err)
	noise, err := stream.New(stream.AES256CTR, key)
	check(err)
	gaussian := func(tensor uint32) func(device.Net) (mechanism.Mechanism, error) {
		return func(device.Net) (mechanism.Mechanism, error) { return mechanism.NewGaussian(1, 1, 0, 1, noise, tensor) }
	}
	sgd := func(n device.Net) (dpoptim.Optimizer, error) {
		return dpoptim.NewSGD(n, dpoptim.Config{Rate: 0.1, Normaliser: 10})
	}
	engine := func(a *Adaptation) (*Engine, error) {
		return NewEngine(d, schedule, device.Options{Capacity: 20}, data, gaussian(gradientNoise), a, sgd)
	}
	query := func(e *Engine, tensor uint32, draw uint64) error {
		f, err := e.LossQuery(data, gaussian(tensor), 1)
		check(err)
		_, err = f([]int32{1}, draw)
		return err
	}
	draw := uint64(0)
	for what, again := range map[string]func(*Engine) error{
		"a step again":               func(e *Engine) error { return e.Step(nil, draw, 2) },
		"an earlier step":            func(e *Engine) error { return e.Step(nil, draw-1, 2) },
		"a query of the same tensor": func(e *Engine) error { return query(e, gradientNoise, draw) },
		"a query of another tensor":  func(e *Engine) error { return query(e, lossNoise, draw) },
		"a step of another network":  func(*Engine) error { e, err := engine(nil); check(err); defer e.Close(); return e.Step(nil, draw, 1) },
		"a query of another network": func(*Engine) error {
			e, err := engine(nil)
			check(err)
			defer e.Close()
			return query(e, lossNoise, draw)
		},
		"two mechanisms of one step": func(*Engine) error {
			count, err := mechanism.NewCount(1, noise, gradientNoise)
			check(err)
			_, err = engine(&Adaptation{Count: count, ExpectedBatch: 10, Clip: 1})
			return err
		},
	} {
		e, err := engine(nil)
		check(err)
		draw += 2
		check(e.Step([]int32{0, 1}, draw, 1))
		if err := again(e); !errors.Is(err, device.ErrDrawUsed) {
			t.Errorf("%s: %v, want %v", what, err, device.ErrDrawUsed)
		}
		e.Close()
	}
	if _, err := stream.New(stream.AES256CTR, key); err == nil {
		t.Error("the key makes a second stream")
	}
}
