package canary

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/nn"
)

func built(t *testing.T, model string, input [3]int, classes int) *nn.Network {
	t.Helper()
	m, err := nn.Build(model, nn.Options{Input: input, Classes: classes, Activation: "tanh", Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	n, err := m.Lower()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func doubles(x []float32) (all []float64) {
	for _, v := range x {
		all = append(all, float64(v))
	}
	return all
}

// A record's outputs are those of the network. A canary's have one of its own parameters more, for each output.
func TestProgram(t *testing.T) {
	const canaries = 5
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		model   string
		input   [3]int
		classes int
	}{{"logistic", [3]int{1, 3, 4}, 4}, {"logistic", [3]int{1, 3, 4}, 2}, {"cnn-mnist", [3]int{1, 28, 28}, 10}} {
		n := built(t, c.model, c.input, c.classes)
		p := Program(n.Program, canaries)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		before, outputs := n.Program.NumParams(), n.Program.Outputs()
		if p.NumParams() != before+canaries*outputs || len(n.Program.Params) != len(p.Params)-1 {
			t.Fatalf("%s: %d parameters, behind %d", c.model, p.NumParams(), before)
		}
		params := doubles(n.Params())
		for range canaries * outputs {
			params = append(params, random.NormFloat64())
		}
		size := ir.Size(n.Program.Shape)
		x := make([]float64, size+canaries)
		for i := range size {
			x[i] = random.Float64()
		}
		want := reference.Values(n.Program, params[:before], x[:size], device.Float32)[n.Program.Logits()]
		for canary := -1; canary < canaries; canary++ {
			if clear(x[size:]); canary >= 0 {
				x[size+canary] = 2
			}
			for o, v := range reference.Values(p, params, x, device.Float32)[p.Logits()] {
				own := 0.
				if canary >= 0 {
					own = 2 * params[before+o*canaries+canary]
				}
				if math.Abs(v-want[o]-own) > 1e-9 {
					t.Errorf("%s, canary %d: output %d is %v, want %v", c.model, canary, o, v, want[o]+own)
				}
			}
		}
	}
}

// The products are those of the released sum with the direction of a canary's gradient, which central differences of its loss give as
// well.
func TestHear(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, classes := range []int{2, 4} {
		n := built(t, "logistic", [3]int{1, 2, 3}, classes)
		c := New(n.Program, 1, classes, make([]bool, 6))
		p := Program(n.Program, len(c.Coins))
		params, released := make([]float32, p.NumParams()), make([]float32, p.NumParams())
		for i := range params {
			params[i], released[i] = .1*float32(random.NormFloat64()), float32(random.NormFloat64())
		}
		heard := Silence(len(c.Coins))
		c.Hear(heard, params, released)
		c.Hear(heard, params, released)
		before := n.Program.NumParams()
		at := doubles(params)
		for i, class := range c.Classes {
			x := make([]float64, ir.Size(p.Shape))
			for k, v := range c.Record {
				x[k] = float64(v)
			}
			x[ir.Size(n.Program.Shape)+i] = c.Value
			loss := func() float64 {
				z := reference.Values(p, at, x, device.Float32)[p.Logits()]
				if classes == 2 {
					return math.Log1p(math.Exp(-float64(2*class-1) * z[0]))
				}
				sum := 0.
				for _, v := range z {
					sum += math.Exp(v)
				}
				return math.Log(sum) - z[class]
			}
			product, length := 0., 0.
			for k := before; k < len(at); k++ {
				const h = 1e-5
				was := at[k]
				at[k] = was + h
				up := loss()
				at[k] = was - h
				g := (up - loss()) / (2 * h)
				at[k] = was
				product, length = product+g*float64(released[k]), length+g*g
			}
			if want := 2 * product / math.Sqrt(length); math.Abs(heard.Products[i]-want) > 1e-5*max(1, math.Abs(want)) {
				t.Errorf("%d classes, canary %d: %v, want %v", classes, i, heard.Products[i], want)
			}
		}
		if again := Read(heard.Bytes(), len(c.Coins)); again == nil || again.Products[3] != heard.Products[3] || again.Signal != heard.Signal || Read(heard.Bytes()[1:], len(c.Coins)) != nil {
			t.Error("products do not come back from their bytes")
		}
	}
}

// Chance is what many simulated canaries have, within five standard errors: a correct one is rejected once in 10⁶ times for each row.
func TestChance(t *testing.T) {
	const canaries = 200_000
	random := rand.New(rand.NewPCG(5, 6))
	for _, w := range []struct {
		rate   float64
		steps  int
		noise  float64
		length float64
	}{{.136, 147, 2.5, 1}, {.136, 147, 1.25, .6}, {1, 10, 5, 1}, {.01, 300, .8, 1}} {
		h, coins := Silence(canaries), make([]bool, canaries)
		for i := range coins {
			h.Products[i] = w.noise * math.Sqrt(float64(w.steps)) * random.NormFloat64()
			if coins[i] = random.IntN(2) == 1; coins[i] {
				for range w.steps {
					if random.Float64() < w.rate {
						h.Products[i] += w.length
					}
				}
			}
		}
		got, want := float64(h.Guess(Threshold(w.rate, 1, w.steps), coins))/canaries, Chance(w.rate, w.steps, w.noise, w.length)
		if !(math.Abs(got-want) <= 5*math.Sqrt(want*(1-want)/canaries)) {
			t.Errorf("%+v: %v of the guesses are right, want %v", w, got, want)
		}
	}
}

// Coins are fair, and the same for the same key. A fair one fails once in 10⁶ times.
func TestToss(t *testing.T) {
	const n = 100_003
	coins, err := Toss(stream.KeyFromSeed(1, "canaries"), n)
	if err != nil {
		t.Fatal(err)
	}
	heads, same := 0, 0
	again, _ := Toss(stream.KeyFromSeed(1, "canaries"), n)
	for i, c := range coins {
		if c {
			heads++
		}
		if c == again[i] {
			same++
		}
	}
	if math.Abs(float64(heads)-n/2.) > 4.9*math.Sqrt(n)/2 || same != n {
		t.Errorf("%d of %d are heads, and %d come again", heads, n, same)
	}
}
