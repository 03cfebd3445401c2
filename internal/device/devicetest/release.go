package devicetest

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// wide is a case with enough parameters to be cut into blocks.
func wide(t testing.TB) *Case {
	t.Helper()
	return NewCase(t, program("dense-wide"), 5, 14)
}

func testRelease(t *testing.T, d device.Device) {
	c := wide(t)
	schedule := strategies(t, c.Program)[0].Schedule
	with := func(t *testing.T, noise device.Noise) *Fixture {
		return open(t, d, schedule, c, device.Options{Capacity: 5}, noise)
	}
	open := func(t *testing.T) *Fixture { return Open(t, d, schedule, c, 5) }
	run := func(s device.Step, draw uint64, std float32) error {
		in := &device.Inputs{Draw: draw}
		SetNoise(in, device.NewNoise(nil, 0), float64(std))
		return s.Run(in)
	}

	t.Run("noise is the stream's", func(t *testing.T) {
		src := open(t).Of(t, c.All(), 1)
		for _, test := range []struct {
			draw   uint64
			tensor uint32
			std    float32
		}{{1, 0, 1}, {2, 1, 0.125}, {1 << 40, 9, 1e4}, {math.MaxUint64, math.MaxInt32, 1e-3}} {
			x := open(t)
			x.Add(t, c.All(), 1)
			noise := device.NewNoise(Stream(t, d), test.tensor)
			free := x.record(t, func(q device.Queue) { q.Release(x.Out, x.Sum, noise) })
			must(t, run(free, test.draw, test.std))
			step := float64(powerOfTwo(test.std * 0x1p-26))
			z := Drawn(t, noise, test.draw, float64(test.std), x.size)
			for i, got := range x.read(t, x.Out) {
				// Roundings of the sum to the grid and of src to float32, and one of the result.
				if bound := step/2 + 0x1p-24*(math.Abs(float64(src[i]))+math.Abs(float64(got))); math.Abs(float64(got)-float64(src[i])-z[i]) > bound {
					t.Fatalf("draw %d, tensor %d, std %v: value %d is %v, want %v + %v", test.draw, test.tensor, test.std, i, got, src[i], z[i])
				}
			}
		}
	})
	t.Run("the sum is zero afterwards", func(t *testing.T) {
		x := open(t)
		x.Add(t, c.All(), 1)
		if Norm(x.Release(t, 2)) == 0 {
			t.Error("nothing was released")
		}
		Same(t, x.Release(t, 0), make([]float32, x.size))
	})
	t.Run("a used draw is refused for good", func(t *testing.T) {
		for _, draws := range [][]uint64{{1, 1}, {5, 4}, {5, 5}, {math.MaxUint64, 1}, {0}} {
			x := open(t)
			other := x.record(t, func(q device.Queue) { q.Release(x.Out, x.Sum, device.NewNoise(Stream(t, d), 8)) })
			last := len(draws) - 1
			for _, draw := range draws[:last] {
				must(t, run(x.Free, draw, 1))
			}
			if err := run(other, draws[last], 1); !errors.Is(err, device.ErrDrawUsed) {
				t.Fatalf("draws %v give %v, want %v", draws, err, device.ErrDrawUsed)
			}
			for what, err := range map[string]error{
				"a release at a new position": run(x.Free, math.MaxUint64, 1),
				"another step":                x.Clipped.Run(&device.Inputs{}),
				"a read":                      x.Net.Read(x.Out, make([]float32, x.size)),
				"a write":                     x.Net.Write(x.Out, make([]float32, x.size)),
			} {
				if !errors.Is(err, device.ErrDrawUsed) {
					t.Errorf("%s after the refusal gives %v", what, err)
				}
			}
			if _, err := other.Wait(); !errors.Is(err, device.ErrDrawUsed) {
				t.Errorf("waiting after the refusal gives %v", err)
			}
		}
	})
	t.Run("a draw of another net of the stream is refused", func(t *testing.T) {
		noise := device.NewNoise(Stream(t, d), 7)
		must(t, run(with(t, noise).Free, 5, 1))
		for _, test := range []struct {
			draw  uint64
			noise device.Noise
			used  bool
		}{
			{5, noise, true}, {4, noise, true}, {1, device.NewNoise(noise.Stream(), 8), true}, // also of another tensor
			{5, device.NewNoise(Stream(t, d), 7), false}, {6, noise, false}, {6, noise, true}, {9, device.NewNoise(noise.Stream(), 8), false},
		} {
			x := with(t, test.noise)
			if err := run(x.Free, test.draw, 1); errors.Is(err, device.ErrDrawUsed) != test.used || err != nil != test.used {
				t.Errorf("draw %d: %v", test.draw, err)
			}
			if err := x.Net.Read(x.Out, make([]float32, x.size)); err != nil != test.used {
				t.Errorf("draw %d: a read after it gives %v", test.draw, err)
			}
		}
	})
	t.Run("steps without a release need no draw", func(t *testing.T) {
		x := open(t)
		must(t, run(x.Free, 3, 0))
		x.Add(t, c.All(), 1)
		x.Add(t, c.All(), 1)
	})
	t.Run("no noise without a mechanism", func(t *testing.T) {
		x := open(t)
		for _, noise := range []device.Noise{{}, device.NewNoise(nil, 3)} {
			if _, err := x.Net.Record(func(q device.Queue) { q.Release(x.Out, x.Sum, noise) }); !errors.Is(err, device.ErrNoNoise) {
				t.Errorf("recording gives %v, want %v", err, device.ErrNoNoise)
			}
		}
	})
	t.Run("two releases of a step", func(t *testing.T) {
		x := open(t)
		more, err := x.Net.NewSum()
		must(t, err)
		out, err := x.Net.NewVector(1)
		must(t, err)
		two := func(first, second device.Noise) (device.Step, error) {
			return x.Net.Record(func(q device.Queue) {
				q.Release(x.Out, x.Sum, first)
				q.Release(out, more, second)
			})
		}
		if _, err := two(x.Noise, x.Noise); !errors.Is(err, device.ErrDrawUsed) {
			t.Errorf("one tensor for two releases gives %v, want %v", err, device.ErrDrawUsed)
		}
		step, err := two(x.Noise, device.NewNoise(x.Noise.Stream(), x.Noise.Tensor()+1))
		must(t, err)
		must(t, run(step, 1, 1))
		a, b := x.read(t, x.Out), x.read(t, out)
		want := make([]float32, x.size)
		addNoise(t, want, x.Noise, 1, 1)
		Near(t, a, want, 1e-6)
		if n := Norm(minus(a, b)); n < Norm(a)/2 {
			t.Errorf("two tensors draw noise that differs by %v only", n)
		}
	})
	t.Run("impossible standard deviations", func(t *testing.T) {
		for _, std := range []float32{-1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			x := open(t)
			if err := run(x.Free, 1, std); err == nil {
				t.Errorf("noise of standard deviation %v was released", std)
			}
		}
	})
}

// testUpdate compares every rule with its scalar definition.
func testUpdate(t *testing.T, d device.Device) {
	c := wide(t)
	for rule := device.SGD; rule <= device.Average; rule++ {
		t.Run(rule.String(), func(t *testing.T) {
			x := Open(t, d, strategies(t, c.Program)[0].Schedule, c, 1)
			rnd := rand.New(rand.NewPCG(uint64(rule), 2))
			var state []device.Vector
			for range rule.States() {
				v, err := x.Net.NewVector(1)
				must(t, err)
				state = append(state, v)
			}
			step := x.record(t, func(q device.Queue) { q.Update(rule, x.Net.Params(), x.Out, state...) })

			p, memory := widen(c.Params), make([][]float64, x.size)
			for i := range memory {
				memory[i] = make([]float64, rule.States())
			}
			for k := range 5 {
				in := &device.Inputs{}
				in.Scalars = [device.Slots]float32{
					device.Scale: 1.0 / 300, device.Rate: 0.1 / float32(k+1), device.L2: 0.01, device.Momentum: 0.9,
					device.Beta1: 0.9, device.Beta2: 0.999, device.Epsilon: 1e-6,
					device.Bias1: float32(1 - math.Pow(0.9, float64(k+1))), device.Bias2: float32(1 - math.Pow(0.999, float64(k+1))),
				}
				if k > 1 { // subtracts from squares that are larger and smaller
					in.Scalars[device.Variance], in.Scalars[device.Floor] = 0.5, 0.05
				}
				in.Scalars[device.Blend] = 1 / float32(k+1)
				g, scale := make([]float32, x.size), 300.
				if rule == device.Average {
					scale = 1
				}
				for i := range g {
					g[i] = float32(scale * rnd.NormFloat64())
				}
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
		t.Run("wrong states "+rule.String(), func(t *testing.T) {
			x := Open(t, d, strategies(t, c.Program)[0].Schedule, c, 1)
			v, err := x.Net.NewVector(1)
			must(t, err)
			for n := range 4 {
				if n == rule.States() {
					continue
				}
				state := make([]device.Vector, n)
				for i := range state {
					state[i] = v
				}
				if _, err := x.Net.Record(func(q device.Queue) { q.Update(rule, x.Net.Params(), x.Out, state...) }); err == nil {
					t.Errorf("%d states are accepted", n)
				}
			}
		})
	}
	t.Run("copy", func(t *testing.T) {
		x := Open(t, d, strategies(t, c.Program)[0].Schedule, c, 1)
		from, to := make([]float32, x.size), make([]float32, x.size)
		for i := range from {
			from[i], to[i] = float32(i)/3, [...]float32{float32(math.NaN()), float32(math.Inf(1)), 1e30}[i%3]
		}
		must(t, x.Net.Write(x.Out, from))
		must(t, x.Net.Write(x.Net.Params(), to))
		in := &device.Inputs{}
		in.Scalars[device.Blend] = 1
		must(t, x.record(t, func(q device.Queue) { q.Update(device.Average, x.Net.Params(), x.Out) }).Run(in))
		Same(t, x.read(t, x.Net.Params()), from)
	})
	t.Run("unknown rule", func(t *testing.T) {
		x := Open(t, d, strategies(t, c.Program)[0].Schedule, c, 1)
		if _, err := x.Net.Record(func(q device.Queue) { q.Update(device.Average+1, x.Net.Params(), x.Out) }); err == nil {
			t.Error("an unknown rule is accepted")
		}
	})
}
