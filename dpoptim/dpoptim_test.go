package dpoptim

import (
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// line is the network z = w·x + b over three features.
func line() *plan.Program {
	return &plan.Program{
		Name: "line", Shape: []int{3}, Loss: plan.Logistic,
		Ops: []plan.Op{{Kind: plan.Dense, Name: "fc1", In: []plan.Value{plan.Input}, Shape: []int{3}, Out: []int{1}, Weight: 0, Bias: 1}},
		Params: []plan.Param{
			{Name: "fc1.weight", Shape: []int{1, 3}},
			{Name: "fc1.bias", Shape: []int{1}, Offset: 3},
		},
	}
}

// fixture trains the line without noise on a few rows.
type fixture struct {
	net         device.Net
	sum, update device.Step
	mechanism   *mechanism.Unprotected
	optimizer   Optimizer
}

func open(t *testing.T, d device.Device, make func(device.Net) (Optimizer, error)) *fixture {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	schedule, err := perexample.Private(line(), perexample.Options{Strategy: perexample.Auto, Clipping: plan.Flat})
	check(err)
	net, err := d.Compile(schedule, device.Options{Capacity: 4})
	check(err)
	t.Cleanup(func() { net.Close() })
	data, err := d.Load(device.Rows{Count: 2, Width: 3, Scale: 1. / 64, Offset: -1, Targets: []float32{1, -1}}, []uint8{9, 80, 200, 17, 33, 128})
	check(err)
	key := stream.KeyFromSeed(1, "test")
	noise, err := stream.New(stream.ChaCha20, key)
	check(err)
	s := &fixture{net: net, mechanism: mechanism.NewUnprotected(0.7, noise)}
	s.optimizer, err = make(net)
	check(err)
	sum, err := net.NewSum()
	check(err)
	g, err := net.NewVector(1)
	check(err)
	s.sum, err = net.Record(func(q device.Queue) { q.ClippedSum(sum, data) })
	check(err)
	s.update, err = net.Record(func(q device.Queue) {
		check(s.optimizer.Record(q, net.Params(), s.mechanism.Release(q, g, sum)))
	})
	check(err)
	return s
}

func (s *fixture) step(t *testing.T, n int) []float32 {
	t.Helper()
	in := &device.Inputs{Rows: []int32{0, 1}, Draw: uint64(n)}
	s.mechanism.Set(in)
	s.optimizer.Set(in, n)
	if err := s.sum.Run(in); err != nil {
		t.Fatal(err)
	}
	if err := s.update.Run(in); err != nil {
		t.Fatal(err)
	}
	p := make([]float32, 4)
	if err := s.net.Read(s.net.Params(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// gradient is the clipped sum at w by its formula, over the normaliser, plus
// the penalty's gradient.
func gradient(w []float64, c Config) []float64 {
	g := make([]float64, 4)
	for i, x := range [][]float64{{9./64 - 1, 80./64 - 1, 200./64 - 1, 1}, {17./64 - 1, 33./64 - 1, 128./64 - 1, 1}} {
		y := []float64{1, -1}[i]
		m := 0.0
		for j := range x {
			m += w[j] * x[j]
		}
		d := -y / (1 + math.Exp(y*m))
		norm := 0.0
		for _, v := range x {
			norm += d * d * v * v
		}
		factor := math.Min(1, 0.7/math.Sqrt(norm))
		for j, v := range x {
			g[j] += factor * d * v
		}
	}
	for j := range g {
		g[j] = g[j]/c.Normaliser + c.L2*w[j]
	}
	return g
}

// Every optimizer follows its published recursion, step by step, on every
// device: the sum is divided by the public normaliser, and weight decay lies
// outside the clipping.
func TestUpdates(t *testing.T) {
	c, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	plain := Config{Rate: 0.3, Normaliser: 2.5, L2: 0.01}
	heavy := plain
	heavy.Momentum = 0.9
	for name, test := range map[string]struct {
		config Config
		make   func(device.Net, Config) (Optimizer, error)
		next   func(w, g, m, v []float64, t float64)
	}{
		"sgd": {plain, func(n device.Net, c Config) (Optimizer, error) { return NewSGD(n, c) },
			func(w, g, _, _ []float64, _ float64) {
				for i := range w {
					w[i] -= 0.3 * g[i]
				}
			}},
		"momentum": {heavy, func(n device.Net, c Config) (Optimizer, error) { return NewSGD(n, c) },
			func(w, g, m, _ []float64, _ float64) {
				for i := range w {
					m[i] = 0.9*m[i] + g[i]
					w[i] -= 0.3 * m[i]
				}
			}},
		"adam": {plain, func(n device.Net, c Config) (Optimizer, error) { return NewAdam(n, c) },
			func(w, g, m, v []float64, t float64) {
				for i := range w {
					m[i] = 0.9*m[i] + 0.1*g[i]
					v[i] = 0.999*v[i] + 0.001*g[i]*g[i]
					w[i] -= 0.3 * m[i] / (1 - math.Pow(0.9, t)) / (math.Sqrt(v[i]/(1-math.Pow(0.999, t))) + 1e-8)
				}
			}},
	} {
		for _, d := range []device.Device{reference.Open(), c} {
			t.Run(name+"/"+d.Info().Name, func(t *testing.T) {
				s := open(t, d, func(n device.Net) (Optimizer, error) { return test.make(n, test.config) })
				w, m, v := make([]float64, 4), make([]float64, 4), make([]float64, 4)
				for n := 1; n <= 12; n++ {
					test.next(w, gradient(w, test.config), m, v, float64(n))
					for i, got := range s.step(t, n) {
						if math.Abs(float64(got)-w[i]) > 2e-5 {
							t.Fatalf("update %d: parameter %d is %v, want %v", n, i, got, w[i])
						}
					}
				}
			})
		}
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
	if _, err := NewAdam(n, c); err == nil || !strings.Contains(err.Error(), "own moments") {
		t.Errorf("Adam with momentum: %v", err)
	}
}

func must(s *plan.Schedule, err error) *plan.Schedule {
	if err != nil {
		panic(err)
	}
	return s
}

// An optimizer refuses a gradient that no mechanism released.
func TestOnlyReleasedGradients(t *testing.T) {
	s := open(t, reference.Open(), func(n device.Net) (Optimizer, error) { return NewSGD(n, Config{Rate: 1, Normaliser: 1}) })
	_, err := s.net.Record(func(q device.Queue) {
		if err := s.optimizer.Record(q, s.net.Params(), mechanism.Noisy{}); err == nil {
			t.Error("an unreleased gradient was accepted")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
