package devicetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// updateClaims hold every rule to its scalar definition.
var updateClaims = claims[site]{
	{"rules", testRules},
	{"wrong states", testWrongStates},
	{"copy", testCopy},
	{"unknown rule", func(t *testing.T, s site) {
		x := s.open(t)
		x.refuses(t, recordings{"its update": func(q device.Queue) { q.Update(device.Rule(len(device.Rules())), x.Net.Params(), x.Out) }})
	}},
}

// eachRule tests every rule.
func eachRule(t *testing.T, test func(*testing.T, device.Rule)) {
	for _, rule := range device.Rules() {
		t.Run(rule.String(), func(t *testing.T) { test(t, rule) })
	}
}

// updateScalars are those of step k of a run.
func updateScalars(k int) *device.Inputs {
	in := &device.Inputs{Scalars: [device.Slots]float32{
		device.Scale: 1.0 / 300, device.Rate: 0.1 / float32(k+1), device.L2: 0.01, device.Momentum: 0.9,
		device.Beta1: 0.9, device.Beta2: 0.999, device.Epsilon: 1e-6,
		device.Bias1: float32(1 - math.Pow(0.9, float64(k+1))), device.Bias2: float32(1 - math.Pow(0.999, float64(k+1))),
		device.Blend: 1 / float32(k+1),
	}}
	if k > 1 { // subtracts from squares that are larger and smaller
		in.Scalars[device.Variance], in.Scalars[device.Floor] = 0.5, 0.05
	}
	return in
}

func testRules(t *testing.T, s site) {
	eachRule(t, func(t *testing.T, rule device.Rule) {
		x := s.open(t)
		rnd := rand.New(rand.NewPCG(uint64(rule), 2))
		state := make([]device.Vector, rule.States())
		for i := range state {
			state[i] = x.vector(t, 1)
		}
		step := x.record(t, func(q device.Queue) { q.Update(rule, x.Net.Params(), x.Out, state...) })
		p, memory := widen(s.Params), make([][]float64, x.size)
		for i := range memory {
			memory[i] = make([]float64, rule.States())
		}
		scale := 300.
		if rule == device.Average {
			scale = 1
		}
		for k := range 5 {
			in, g := updateScalars(k), normals(rnd, x.size, scale)
			must(t, x.Net.Write(x.Out, g))
			must(t, step.Run(in))
			for i := range p {
				p[i] = rule.Apply(&in.Scalars, p[i], float64(g[i]), memory[i])
			}
			close := func(what string, got []float32, want func(i int) float64) {
				for i, v := range got {
					// Rounding beside terms that may cancel: of order 1 in p, of g·Scale + L2·p in the state.
					if w := want(i); !(math.Abs(float64(v)-w) <= 2e-6*(1+math.Abs(w))) {
						t.Fatalf("update %d: %s %d is %v, want %v", k, what, i, v, w)
					}
				}
			}
			close("parameter", x.read(t, x.Net.Params()), func(i int) float64 { return p[i] })
			for j, v := range state {
				close("state", x.read(t, v), func(i int) float64 { return memory[i][j] })
			}
			Same(t, x.read(t, x.Out), g)
		}
	})
}

func testWrongStates(t *testing.T, s site) {
	eachRule(t, func(t *testing.T, rule device.Rule) {
		x := s.open(t)
		v := x.vector(t, 1)
		for n := range 4 {
			if n == rule.States() {
				continue
			}
			if _, err := x.Net.Record(func(q device.Queue) { q.Update(rule, x.Net.Params(), x.Out, slices.Repeat([]device.Vector{v}, n)...) }); err == nil {
				t.Errorf("%d states are accepted", n)
			}
		}
	})
}

func testCopy(t *testing.T, s site) {
	x := s.open(t)
	from, to := make([]float32, x.size), make([]float32, x.size)
	for i := range from {
		from[i], to[i] = float32(i)/3, [...]float32{float32(math.NaN()), float32(math.Inf(1)), 1e30}[i%3]
	}
	must(t, x.Net.Write(x.Out, from))
	x.params(t, to)
	in := &device.Inputs{Scalars: [device.Slots]float32{device.Blend: 1}}
	must(t, x.record(t, func(q device.Queue) { q.Update(device.Average, x.Net.Params(), x.Out) }).Run(in))
	Same(t, x.read(t, x.Net.Params()), from)
}
