package blsgd_test

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/linesearch"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/tables"
)

// supply has everything admitted, of batches of all records.
type supply struct {
	rows []int32
	draw uint64
}

func (*supply) Slot() int   { return 0 }
func (*supply) Update() int { return 1 }
func (s *supply) Batch(dpoptim.Question, bool, []int32) ([]int32, uint64) {
	s.draw++
	return s.rows, s.draw
}
func (*supply) Admit(...accountant.Mechanism) error { return nil }
func (*supply) Left() float64                       { return 1 }
func (*supply) Stopped() error                      { return nil }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Of two gradients' average the noise is half of one's; the correction follows it.
func TestNoiseOfTheDirection(t *testing.T) {
	const rows, params = 40, 65
	set := &datasets.Set{Name: "made", Classes: 2, ClassNames: []string{"a", "b"}, PublicN: 200, TestIsPublic: true}
	set.Train.Shape, set.Test.Shape = [3]int{1, 8, 8}, [3]int{1, 8, 8}
	s := &supply{}
	for i := range rows {
		s.rows = append(s.rows, int32(i))
		set.Train.Labels = append(set.Train.Labels, uint8(i%2))
		for j := range params - 1 {
			set.Train.Features = append(set.Train.Features, uint8(37*i+11*j))
		}
	}
	iterations, epsilon, batch, steps := 8, 1.0, float64(rows), 24
	c := config.Default()
	c.Data, c.Model, c.Optimizer, c.Threads = "made", "logistic", blsgd.BLSGD, 1
	c.Epsilon, c.Batch, c.Steps = &epsilon, &batch, &steps
	c.Search = blsgd.Settings{Budget: "always", Noise: "gaussian", Form: "differences", Iterations: &iterations}
	d, err := cpu.Open(1)
	check(t, err)
	p, err := plan.Resolve(c, plan.Options{Device: d, Sources: map[string]source.Source{
		"made": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }},
	}})
	check(t, err)
	data, err := p.Reader().Load(d, p.Set.Train)
	check(t, err)
	defer data.Close()
	keys, err := p.Keys()
	check(t, err)
	noise, err := p.Stream(keys.Noise)
	check(t, err)
	e, err := p.Engine(d, tables.Records{Data: data}, noise, nil, s)
	check(t, err)
	defer e.Close()

	o := e.Steps.(linesearch.Oracle)
	first := epsilon / float64(2*iterations)
	b := linesearch.Budgets{Gradient: first * first / 2, Search: first * first / 2, Clip: 0.5}
	one := params * math.Pow(c.Clip*0.5/math.Sqrt(2*b.Gradient)/p.ExpectedBatch, 2)
	released, err := o.Gradient(b)
	check(t, err)
	mixed, _, err := o.Again(b.Gradient/4, 0.2, b)
	check(t, err)
	if math.Abs(released.Noise-one) > 1e-9*one || math.Abs(mixed.Noise-(0.64+0.04*4)*one) > 1e-9*one {
		t.Errorf("noise %v and %v, want %v and %v", released.Noise, mixed.Noise, one, 0.8*one)
	}
	// A direction of 65 noisy coordinates, mostly noise: within a factor of 3 of its energy, falsely
	// refused with a probability below 1e-9 (χ² of 65 degrees).
	if released.Norm2 < one/3 {
		t.Errorf("‖d‖² = %v below its noise's %v", released.Norm2, one)
	}
}
