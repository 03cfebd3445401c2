package engine

import (
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// supply gives the same rows again and again, and positions one after the other.
type supply struct {
	slot     int
	draw     uint64 // the last position given
	rows     []int32
	admitted [][]accountant.Mechanism
}

func (s *supply) Slot() int   { return s.slot }
func (s *supply) Update() int { return s.slot + 1 }
func (s *supply) Batch(dpoptim.Question, bool, []int32) ([]int32, uint64) {
	s.draw++
	return s.rows, s.draw
}
func (s *supply) Admit(asked ...accountant.Mechanism) error {
	s.admitted = append(s.admitted, asked)
	return nil
}
func (*supply) Left() float64  { return 1 }
func (*supply) Stopped() error { return nil }

// logistic is what an engine for a method on a small two-class table is made of. Noise
// multipliers are for a planned one, 0 for none.
func logistic(t *testing.T, m dpoptim.Method, planned float64) (Config, *nn.Network) {
	t.Helper()
	const rows, width = 60, 16
	model, err := nn.Build("logistic", nn.Options{Input: [3]int{1, 4, 4}, Classes: 2, Activation: "tanh", Seed: 1})
	check(t, err)
	network, err := model.Lower()
	check(t, err)
	d, err := cpu.Open(1)
	check(t, err)
	features, labels, targets := make(device.Bytes, rows*width), make([]uint8, rows), make([]float32, rows)
	for i := range features {
		features[i] = uint8(37 * i)
	}
	for i := range targets {
		labels[i] = uint8(i % 3 % 2)
		targets[i] = 2*float32(labels[i]) - 1
	}
	data, err := d.Load(device.Rows{Count: rows, Width: width, Gather: ir.Gather{ir.ScaledBy(1/127.5, -1)}, Targets: targets}, features)
	check(t, err)
	t.Cleanup(func() { data.Close() })
	noise, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, t.Name()))
	check(t, err)
	c := Config{
		Method: m, Device: d, Options: device.Options{Capacity: 20}, Data: data, Labels: labels, Classes: 2,
		Noise: noise, Rows: rows, Supply: &supply{},
		Facts: dpoptim.Facts{
			Params: network.Program.NumParams(), Outputs: 1, Steps: 10, SamplingRate: 0.5, ExpectedBatch: 30, Clip: 1,
			Rate: dpoptim.Rate{Peak: 0.1, Shape: dpoptim.Constant, Steps: 10}, Planned: planned, Least: planned,
		},
	}
	if m.Traits().Private {
		c.Schedule, err = perexample.Private(network.Program, perexample.Options{Strategy: perexample.Materialise, Clipping: ir.Flat})
	} else {
		c.Schedule, err = perexample.Plain(network.Program)
	}
	check(t, err)
	c.Declaration, err = m.Declare(dpoptim.Settings{Clip: 1}, c.Facts)
	check(t, err)
	return c, network
}

// open is the engine, closed with the test.
func open(t *testing.T, c Config) *Engine {
	t.Helper()
	e, err := Open(c)
	check(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}
