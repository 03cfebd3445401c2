package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// learner is a linear model of so many parameters.
func learner(t testing.TB, params int) *Case {
	t.Helper()
	return NewCase(t, linear("learner", ir.Huber, params-1, 1, true), 1, 61)
}

// projected is a net whose parameters an LSTM moves, with its definition beside it.
type projected struct {
	*Fixture
	lstm           device.LSTM
	weights, state device.Vector
	w              []float32
	step           device.Step
	rnd            *rand.Rand
}

func openProjected(t testing.TB, d device.Device, l device.LSTM, params int) *projected {
	t.Helper()
	x := &projected{Fixture: learner(t, params).on(t, d, 1).open(t), lstm: l, rnd: rand.New(rand.NewPCG(62, uint64(l.Weights())))}
	x.weights, x.state = x.scalars(t, l.Weights()), x.vector(t, l.States())
	x.step = x.record(t, func(q device.Queue) { q.Project(l, x.Net.Params(), x.Out, x.weights, x.state) })
	x.newWeights(t)
	return x
}

// newWeights draws others: sums over a layer's inputs are of order 1, whatever their number.
func (x *projected) newWeights(t testing.TB) {
	x.w = x.normals(x.lstm.Weights(), 1.5/math.Sqrt(float64(x.lstm.Inputs(0)+x.lstm.Hidden)))
	must(t, x.Net.Write(x.weights, x.w))
}

func (x *projected) normals(n int, std float64) []float32 {
	return normals(x.rnd, n, std)
}

func (x *projected) stateOf(t testing.TB) []float32 {
	t.Helper()
	return x.values(t, x.state, x.size*x.lstm.States())
}

// run makes one step with gradient g and compares it with what the definition makes of the parameters and
// the state that stood before it. So no difference is carried from step to step, and what was there before must
// have been what Read gives.
//
// What a device in float32 may be off: a gate adds up to Inputs+Hidden+1 terms, whose partial sums here
// stay below 4, each rounded by at most 2⁻²⁴ of that; σ and tanh pass on at most ¼ and all of it, with
// a few roundings of their own, and the layer above sums up errors of both signs with weights whose
// squares add up to about 2. Twice as much for each layer is generous, and still a hundredth of what
// factors rounded to 11 digits would do. A gradient whose two terms cancel is off by their roundings, and what the LSTM reads by what
// that makes of it; no weight is above 4 here.
func (x *projected) run(t testing.TB, scalars [device.Slots]float32, g []float32) {
	t.Helper()
	l, n, states := x.lstm, x.size, x.lstm.States()
	p, state := x.read(t, x.Net.Params()), x.stateOf(t)
	must(t, x.Net.Write(x.Out, g))
	ran(t, x.step, &device.Inputs{Scalars: scalars})
	gotP, gotState := x.read(t, x.Net.Params()), x.stateOf(t)
	Same(t, x.read(t, x.Out), g)
	Same(t, x.values(t, x.weights, len(x.w)), x.w)
	w, was := widen(x.w), make([]float64, states)
	rounding := 8 * 0x1p-24 * float64(l.Hidden+l.Inputs(0)+8) * float64(l.Layers)
	for i := range n {
		for k := range was {
			was[k] = float64(state[k*n+i])
		}
		want := l.Apply(&scalars, w, float64(p[i]), float64(g[i]), was)
		most := rounding + x.cancellation(&scalars, float64(p[i]), float64(g[i]))
		if bound := 0x1p-23*math.Abs(want) + float64(scalars[device.Rate])*4*most; !(math.Abs(float64(gotP[i])-want) <= bound) {
			t.Fatalf("parameter %d is %v, want %v within %.3g; gradient %v", i, gotP[i], want, bound, g[i])
		}
		for k, v := range was {
			if got := float64(gotState[k*n+i]); !(math.Abs(got-v) <= most*(1+math.Abs(v))) {
				t.Fatalf("value %d of the state of parameter %d is %v, want %v within %.3g; gradient %v", k, i, got, v, most, g[i])
			}
		}
	}
}

// cancellation is how far gates may be off because the gradient is rounded in float32.
func (x *projected) cancellation(s *[device.Slots]float32, p, g float64) float64 {
	a, b := g*float64(s[device.Scale]), float64(s[device.L2])*p
	gain := float64(s[device.Gain])
	off := 0x1p-22 * (math.Abs(a) + math.Abs(b)) * gain
	if off > 1 { // the gates have closed or opened long since
		return 0
	}
	var low, high [2]float64
	most := 0.0
	for i := range x.lstm.Features(low[:], (a+b)*gain-off) {
		x.lstm.Features(high[:], (a+b)*gain+off)
		most += 4 * math.Abs(high[i]-low[i])
	}
	return most
}

// scalars are those of step t of a run.
func projectScalars(t int) (s [device.Slots]float32) {
	s[device.Scale], s[device.L2], s[device.Gain], s[device.Rate] = 1.0/300, 0.02, 1.7, 0.3/float32(t+1)
	for k := range device.Contexts {
		s[device.Context+device.Slot(k)] = [...]float32{0.1, -0.7, 0.45, 1}[k] * float32(t+1) / 2
	}
	return s
}

// projectClaims compare an LSTM's steps with their scalar definition.
var projectClaims = claims[device.Device]{
	{"sizes of LSTMs", testLSTMs},
	{"blocks", func(t *testing.T, d device.Device) {
		for _, n := range some(d, []int{2, 3, 31, 64, 129, 4095, 4096, 4097, 9001}) {
			n = fewer(d, n, 263)
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				x := openProjected(t, d, smallLSTM, n)
				for k := range 2 {
					x.run(t, projectScalars(k), x.normals(x.size, 300))
				}
			})
		}
	}},
	{"place", testProjectPlace},
	{"extremes", func(t *testing.T, d device.Device) { testProjectExtremes(t, d, false) }},
	{"extremes, logarithm and sign", func(t *testing.T, d device.Device) { testProjectExtremes(t, d, true) }},
	{"vectors that are refused", testProjectVectors},
	{"LSTMs that are refused", testImpossibleLSTMs},
}

// smallLSTM is one that most of the claims are tested on.
var smallLSTM = device.LSTM{Layers: 2, Hidden: 5, Context: 1}

// projectSize is how many parameters there are where any number would do.
func projectSize(d device.Device) int { return fewer(d, 1003, 77) }

func testLSTMs(t *testing.T, d device.Device) {
	for _, l := range some(d, []device.LSTM{
		{Layers: 2, Hidden: 20, Context: 3}, {Layers: 1, Hidden: 1}, {Layers: 2, Hidden: 1, Context: 4, LogSign: true}, {Layers: 1, Hidden: 3, Context: 1, LogSign: true},
		{Layers: 2, Hidden: 3, Context: 2}, {Layers: 2, Hidden: 20, Context: 3, LogSign: true}, {Layers: 3, Hidden: 20, Context: 2}, {Layers: 1, Hidden: 32, LogSign: true},
		{Layers: 3, Hidden: 32, Context: 4}, {Layers: device.MostLayers, Hidden: device.MostHidden, Context: device.Contexts, LogSign: true},
	}) {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			size := projectSize(d)
			x := openProjected(t, d, l, fewer(d, max(size*20/l.Hidden, 97), size)&^1+1)
			for k := range fewer(d, 4, 2) {
				switch k {
				case 2:
					x.newWeights(t)
				case 3:
					must(t, x.Net.Write(x.state, x.normals(x.size*l.States(), 0.7)))
				}
				x.run(t, projectScalars(k), x.normals(x.size, 300))
			}
		})
	}
}

// testProjectPlace checks that what a parameter gets follows from its own values, not from where it stands.
func testProjectPlace(t *testing.T, d device.Device) {
	x := openProjected(t, d, smallLSTM, projectSize(d))
	x.params(t, constant(x.size, 0.3))
	for k := range 2 {
		x.run(t, projectScalars(k), constant(x.size, 123))
	}
	p, state := x.read(t, x.Net.Params()), x.stateOf(t)
	Same(t, p, constant(x.size, p[0]))
	for k := range smallLSTM.States() {
		Same(t, state[k*x.size:][:x.size], constant(x.size, state[k*x.size]))
	}
}

func testProjectExtremes(t *testing.T, d device.Device, logSign bool) {
	l := smallLSTM
	l.LogSign = logSign
	x := openProjected(t, d, l, 44)
	for i := range l.Inputs(0) { // two gates that do not read the gradient, however large
		x.w[i], x.w[3*l.Hidden*l.Inputs(0)+i] = 0, 0
	}
	must(t, x.Net.Write(x.weights, x.w))
	s := projectScalars(1)
	s[device.Scale], s[device.L2], s[device.Gain] = 1, 0, 1
	list := []float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-45, 1e-38, -3e-39, 1e-20, -1e-20, 4.54e-5, 4.53e-5, -4.54e-5, 1, -1, 100, -1e4, 1e10, -1e20, 1e38, -math.MaxFloat32, math.MaxFloat32}
	g := make([]float32, x.size)
	for i := range g {
		g[i] = list[i%len(list)]
	}
	state := x.normals(x.size*l.States(), 1)
	for i := range state {
		if k := i / x.size; k/l.Hidden%2 == 1 { // cells
			state[i] *= [...]float32{0, 1e-40, 1, 100, 1e30}[k%5]
		}
	}
	must(t, x.Net.Write(x.state, state))
	for range 3 {
		x.run(t, s, g)
	}
	// Beyond float32 only a direct gradient has its gates decided; its logarithm need not be right.
	s[device.Gain] = 1e8
	for i := range g {
		g[i] = [...]float32{0, 1e36, -1e36, math.MaxFloat32, -math.MaxFloat32, -1e-45}[i%6]
	}
	if !logSign {
		x.run(t, s, g)
		return
	}
	must(t, x.Net.Write(x.Out, g))
	must(t, x.step.Run(&device.Inputs{Scalars: s}))
	for _, v := range append(x.read(t, x.Net.Params()), x.stateOf(t)...) {
		if v-v != 0 {
			t.Fatalf("%v came out", v)
		}
	}
}

func testProjectVectors(t *testing.T, d device.Device) {
	l := smallLSTM
	x := openProjected(t, d, l, 30)
	p, list := x.Net.Params(), recordings{}
	for what, v := range map[string]struct{ p, g, weights, state device.Vector }{
		"one weight too few":       {p, x.Out, x.scalars(t, l.Weights()-1), x.state},
		"one weight too many":      {p, x.Out, x.scalars(t, l.Weights()+1), x.state},
		"a narrow state":           {p, x.Out, x.weights, x.vector(t, l.States()-1)},
		"a wide state":             {p, x.Out, x.weights, x.vector(t, l.States()+1)},
		"a gradient of width 2":    {p, x.vector(t, 2), x.weights, x.state},
		"parameters of width 2":    {x.vector(t, 2), x.Out, x.weights, x.state},
		"unknown parameters":       {99, x.Out, x.weights, x.state},
		"an unknown gradient":      {p, -1, x.weights, x.state},
		"unknown weights":          {p, x.Out, 99, x.state},
		"an unknown state":         {p, x.Out, x.weights, 99},
		"weights for a gradient":   {p, x.weights, x.weights, x.state},
		"the state of parameters":  {p, x.Out, x.weights, p},
		"weights of the last step": {p, x.Out, x.Out, x.state},
	} {
		list[what] = func(q device.Queue) { q.Project(l, v.p, v.g, v.weights, v.state) }
	}
	x.refuses(t, list)
	x.run(t, projectScalars(0), x.normals(x.size, 300)) // none of it stands in the way
}

func testImpossibleLSTMs(t *testing.T, d device.Device) {
	x := openProjected(t, d, smallLSTM, 30)
	list := recordings{}
	for _, l := range []device.LSTM{
		{}, {Layers: 1}, {Hidden: 1}, {Layers: device.MostLayers + 1, Hidden: 1}, {Layers: 1, Hidden: device.MostHidden + 1},
		{Layers: -1, Hidden: 1}, {Layers: 1, Hidden: -1}, {Layers: 1, Hidden: 1, Context: -1}, {Layers: 1, Hidden: 1, Context: device.Contexts + 1},
	} {
		list[fmt.Sprintf("%+v", l)] = func(q device.Queue) { q.Project(l, x.Net.Params(), x.Out, x.weights, x.state) }
	}
	x.refuses(t, list)
	x.run(t, projectScalars(0), x.normals(x.size, 300))
}
