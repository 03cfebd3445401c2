package sgd

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// line is the network z = w·x + b over three features.
func line() *ir.Program {
	return &ir.Program{
		Name: "line", Shape: []int{3}, Loss: ir.Logistic,
		Ops: []ir.Op{{Kind: ir.Dense, Name: "fc1", In: []ir.Value{ir.Input}, Shape: []int{3}, Out: []int{1}, Weight: 0, Bias: 1}},
		Params: []ir.Param{
			{Name: "fc1.weight", Shape: []int{1, 3}},
			{Name: "fc1.bias", Shape: []int{1}, Offset: 3},
		},
	}
}

func TestConfigIsChecked(t *testing.T) {
	n, err := reference.Open().Compile(must(perexample.Plain(line())), device.Options{Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	good := Config{Rate: 1, Normaliser: 1}
	for want, change := range map[string]func(*Config){
		"learning rate 0":    func(c *Config) { c.Rate = 0 },
		"learning rate NaN":  func(c *Config) { c.Rate = math.NaN() },
		"learning rate +Inf": func(c *Config) { c.Rate = math.Inf(1) },
		"normaliser 0":       func(c *Config) { c.Normaliser = 0 },
		"l2 -1":              func(c *Config) { c.L2 = -1 },
		"momentum 1":         func(c *Config) { c.Momentum = 1 },
		"momentum -0.1":      func(c *Config) { c.Momentum = -0.1 },
	} {
		c := good
		change(&c)
		if _, err := NewSGD(n, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	c := good
	c.Momentum = 0.5
	if _, err := newAdam(n, c); err == nil || !strings.Contains(err.Error(), "own moments") {
		t.Errorf("Adam with momentum: %v", err)
	}
	for want, m := range map[string]Moments{
		"beta1 1":        {1, 0.9, 1, false},
		"beta2 NaN":      {0.9, math.NaN(), 1, false},
		"adam_epsilon 0": {0.9, 0.9, 0, false},
	} {
		c := good
		c.Moments = m
		if _, err := newAdam(n, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func must(s *ir.Schedule, err error) *ir.Schedule {
	if err != nil {
		panic(err)
	}
	return s
}

// An optimizer refuses a gradient that no mechanism released.
func TestOnlyReleasedGradients(t *testing.T) {
	n, err := reference.Open().Compile(must(perexample.Plain(line())), device.Options{Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c := Config{Rate: 1, Normaliser: 1, Moments: DefaultMoments()}
	sgd, e1 := NewSGD(n, c)
	adam, e2 := newAdam(n, c)
	if err := errors.Join(e1, e2); err != nil {
		t.Fatal(err)
	}
	for _, o := range []dpoptim.Optimizer{sgd, adam} {
		_, err = n.Record(func(q device.Queue) {
			if err := o.Record(q, n.Params(), mechanism.Noisy{}); err == nil {
				t.Errorf("%T accepts an unreleased gradient", o)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What is subtracted is the variance of the noise that this run adds, in a
// coordinate of the mean gradient.
func TestSubtractedVariance(t *testing.T) {
	n, err := reference.Open().Compile(must(perexample.Plain(line())), device.Options{Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c := Config{Rate: 1, Normaliser: 40, Moments: DefaultMoments()}
	for _, subtract := range []bool{true, false} {
		c.Moments.SubtractNoise = subtract
		o, err := newAdam(n, c)
		if err != nil {
			t.Fatal(err)
		}
		var in device.Inputs
		in.Scalars[device.NoiseStd], in.Scalars[device.Variance] = 6, 7
		o.Set(&in.Scalars, 1)
		variance, floor := float32(0), float32(0)
		if subtract {
			variance, floor = 0.0225, 0.00225
		}
		if in.Scalars[device.Variance] != variance || in.Scalars[device.Floor] != floor {
			t.Errorf("subtraction %v: variance %v, floor %v", subtract, in.Scalars[device.Variance], in.Scalars[device.Floor])
		}
	}
}
