package train

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
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
