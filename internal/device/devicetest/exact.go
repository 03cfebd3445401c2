package devicetest

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/perexample"
)

// chacha gives noise that exact nets accept.
func chacha(t testing.TB) *stream.Stream {
	t.Helper()
	s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "devicetest"))
	must(t, err)
	return s
}

func openExact(t testing.TB, d device.Device, s *ir.Schedule, c *Case, capacity int) *Fixture {
	t.Helper()
	return open(t, d, s, c, device.Options{Capacity: capacity, Exact: true}, device.NewExactNoise(chacha(t), 7))
}

// whole lists the schedules that exact nets run.
func whole(t testing.TB, p *ir.Program) []named {
	t.Helper()
	var list []named
	for _, strategy := range []perexample.Strategy{perexample.Materialise, perexample.Microbatch} {
		s, err := perexample.Private(p, perexample.Options{Strategy: strategy, Clipping: ir.Flat})
		must(t, err)
		list = append(list, named{string(strategy), s})
	}
	chunked := *list[0].Schedule
	chunked.Chunk = 3
	return append(list, named{"materialise in chunks of 3", &chunked})
}

// gridStep is γ of a clip norm.
func gridStep(clip float32) float64 {
	step := 0x1p-200
	for step*0x1p20*2 <= float64(clip) {
		step *= 2
	}
	return step
}

// free releases an exact sum.
func (s *Fixture) free(t testing.TB, clip, std float32) []float32 {
	t.Helper()
	s.draw++
	in := &device.Inputs{Draw: s.draw}
	in.Scalars[device.Clip], in.Scalars[device.NoiseStd], in.Scalars[device.NoiseStep] = clip, std, float32(gridStep(clip))
	must(t, s.Free.Run(in))
	return s.read(t, s.Out)
}

// integers is the sum of a batch alone in grid steps, which a float32 holds if
// there are few rows.
func (s *Fixture) integers(t testing.TB, rows []int32, clip float32) []int64 {
	t.Helper()
	s.Add(t, rows, float64(clip))
	return steps(t, s.free(t, clip, 0), clip)
}

func steps(t testing.TB, x []float32, clip float32) []int64 {
	t.Helper()
	k := make([]int64, len(x))
	for i, v := range x {
		n := float64(v) / gridStep(clip)
		if n != math.Trunc(n) || math.Abs(n) > 1<<24 {
			t.Fatalf("value %d is %v grid steps, no whole number or beyond what a float32 holds", i, n)
		}
		k[i] = int64(n)
	}
	return k
}

// wholeCase is a case in which every number on the way is a small whole number,
// so that gradients have no rounding on any device. Rows 2i and 2i+1 have
// opposite gradients: far from its target the Huber loss has slope ±1.
func wholeCase(t testing.TB, p *ir.Program, pairs int) *Case {
	t.Helper()
	rnd := rand.New(rand.NewPCG(41, 1))
	c := &Case{Program: p, Params: make([]float32, p.NumParams())}
	for i := range c.Params {
		c.Params[i] = float32(rnd.IntN(3) - 1)
	}
	c.Rows = device.Rows{Width: ir.Size(p.Shape), Scale: 1, Offset: -2}
	for range pairs {
		features := make([]uint8, c.Rows.Width)
		for i := range features {
			features[i] = uint8(rnd.IntN(6))
		}
		c.add(features, 1<<20)
		c.add(features, -1<<20)
	}
	return c
}

func wholePrograms() []*ir.Program {
	linear := NewBuilder("exact-linear", ir.Huber, 6)
	linear.Dense(ir.Input, 1, true)
	deep := NewBuilder("exact-deep", ir.Huber, 2, 6, 6)
	x := deep.Act(ir.ReLU, deep.Conv(ir.Input, 5, ir.Square(3, 1, 1), true))
	x = deep.Act(ir.ReLU, deep.Conv(deep.Pool(ir.MaxPool, x, pool2(2)), 4, pool2(1), false))
	deep.Dense(deep.Act(ir.ReLU, deep.Dense(x, 60, true)), 1, true)
	return []*ir.Program{linear.Program(), deep.Program()}
}

// truncated is what a row adds: its gradient, scaled to the norm
// C·(1-2⁻²⁰) if it is longer, over γ, without the fraction. ambiguous says
// which coordinates lie so close to a whole number that float64 may see another.
func truncated(g []float32, clip float32) (k []int64, ambiguous []bool) {
	const prec = 200
	norm2 := new(big.Float).SetPrec(prec)
	for _, x := range g {
		f := new(big.Float).SetPrec(prec).SetFloat64(float64(x))
		norm2.Add(norm2, f.Mul(f, f))
	}
	aim := new(big.Float).SetPrec(prec).SetFloat64(float64(clip))
	aim.Mul(aim, big.NewFloat(1-0x1p-20))
	factor := big.NewFloat(1).SetPrec(prec)
	if norm := norm2.Sqrt(norm2); norm.Cmp(aim) > 0 {
		factor.Quo(aim, norm)
	}
	factor.Quo(factor, big.NewFloat(gridStep(clip)))
	k, ambiguous = make([]int64, len(g)), make([]bool, len(g))
	for i, x := range g {
		v := new(big.Float).SetPrec(prec).SetFloat64(float64(x))
		v.Mul(v, factor)
		n, _ := v.Int(nil)
		k[i] = n.Int64()
		near, _ := new(big.Float).Sub(v, new(big.Float).SetInt(n)).Float64()
		near = math.Abs(near)
		ambiguous[i] = factor.Cmp(big.NewFloat(1/gridStep(clip))) != 0 && x != 0 && min(near, 1-near) < 1e-6
	}
	return k, ambiguous
}

func testExact(t *testing.T, d device.Device) {
	for _, p := range some(d, wholePrograms()) {
		c := wholeCase(t, p, 4)
		grads := gradients(t, c)
		longest := 0.0
		for _, g := range grads {
			longest = max(longest, Norm(g))
		}
		for _, s := range some(d, whole(t, p)) {
			t.Run("integers/"+p.Name+" "+s.name, func(t *testing.T) {
				for _, clip := range []float32{float32(longest / 3), 1, 1.1, float32(longest * 0.8), float32(2 * longest)} {
					x := openExact(t, d, s.Schedule, c, 5)
					want := make([]int64, x.size)
					unsure := make([]bool, x.size)
					var rows []int32
					for row, g := range grads {
						if row%2 == 1 && row > 3 {
							continue // their sum would be zero
						}
						rows = append(rows, int32(row))
						k, ambiguous := truncated(g, clip)
						for i := range k {
							want[i] += k[i]
							unsure[i] = unsure[i] || ambiguous[i]
						}
					}
					sure := 0
					got := x.integers(t, rows, clip)
					for i := range got {
						if unsure[i] {
							continue
						}
						sure++
						if got[i] != want[i] {
							t.Fatalf("clip norm %v: coordinate %d is %d steps, want %d", clip, i, got[i], want[i])
						}
					}
					if sure < x.size*9/10 {
						t.Errorf("clip norm %v: only %d of %d coordinates could be told", clip, sure, x.size)
					}
				}
			})
			// Devices agree bit by bit where gradients do, at any capacity.
			t.Run("the reference's bits/"+p.Name+" "+s.name, func(t *testing.T) {
				clip := float32(longest / 2)
				x, y := openExact(t, d, s.Schedule, c, 3), openExact(t, reference.Open(), whole(t, p)[0].Schedule, c, 8)
				for _, std := range []float32{0, 0.7 * clip, 1000 * clip} {
					x.Add(t, c.All()[:7], float64(clip))
					y.Add(t, c.All()[:7], float64(clip))
					Same(t, x.free(t, clip, std), y.free(t, clip, std))
				}
			})
		}
	}

	// Neighbouring batches, one of 1,024 rows, differ by one row's integers, whose norm
	// is at most C/γ. All rows but one are taken away again by their mirror
	// images, so that the difference can be read whatever the sum was.
	t.Run("sensitivity", func(t *testing.T) {
		for _, p := range some(d, wholePrograms()) {
			c := wholeCase(t, p, fewer(d, map[string]int{"exact-linear": 512, "exact-deep": 24}[p.Name], 24))
			all := c.All()
			for _, s := range some(d, whole(t, p)[:2]) {
				x := openExact(t, d, s.Schedule, c, 300)
				for _, clip := range some(d, []float32{0.01, 1, math.Nextafter32(2, 1), 3, 1e9}) {
					for _, extra := range some(d, []int32{0, 7, 45}) {
						x.Add(t, append(slices.Clone(all), extra), float64(clip))
						mirrored := slices.Clone(all)
						for i := range mirrored {
							mirrored[i] ^= 1
						}
						difference := x.integers(t, mirrored, clip)
						share := checkBound(t, difference, clip)
						if want := x.integers(t, []int32{extra}, clip); !slices.Equal(difference, want) {
							t.Errorf("%s, clip norm %v: one more row moves the sum by other integers than its own", p.Name, clip)
						}
						// The aim is 2⁻²⁰ inside, and truncation takes less than a step a coordinate.
						if least := 1 - 0x1p-20*(2+math.Sqrt(float64(x.size))); clip <= 3 && share < least {
							t.Errorf("%s, clip norm %v: a clipped row has norm %v·C, want at least %v·C", p.Name, clip, share, least)
						}
					}
				}
			}
		}
	})

	// The bound holds for gradients of every kind: with rounding, enormous,
	// tiny, of very different sizes, not finite.
	t.Run("bound", func(t *testing.T) {
		for _, p := range some(d, few()) {
			usual, loud := newCase(t, d, p, 4, 42), overflowing(t, d, p).with(255, 1, 1).with(2, 1).with(200, 1)
			scaled := *usual
			for _, factor := range []float32{1, 1e-6, 1e15} {
				scaled.Rows.Scale = usual.Rows.Scale * factor
				for _, s := range some(d, whole(t, p)[:2]) {
					x := openExact(t, d, s.Schedule, &scaled, 1)
					for _, clip := range []float32{1e-9, 0.1, math.Nextafter32(1, 0), 1e9} {
						for _, row := range scaled.All() {
							checkBound(t, x.integers(t, []int32{row}, clip), clip)
						}
					}
				}
			}
			for _, s := range some(d, whole(t, p)[:2]) {
				x := openExact(t, d, s.Schedule, loud, 7)
				want := x.integers(t, []int32{0, 1, 2}, 1)
				for _, row := range loud.All()[3:] {
					checkBound(t, x.integers(t, []int32{row}, 1), 1)
				}
				good := openExact(t, d, s.Schedule, overflowing(t, d, p), 7)
				if got := good.integers(t, good3, 1); !slices.Equal(got, want) {
					t.Errorf("%s %s: rows that are not finite moved others", p.Name, s.name)
				}
			}
		}
	})
	t.Run("rows that do not count", func(t *testing.T) {
		p := program("cnn-mnist")
		good := newCase(t, d, p, 4, 43)
		nan := float32(math.NaN())
		c := good.with(77, nan, -1, float32(p.Outputs()), 0.5)
		x := openExact(t, d, whole(t, p)[0].Schedule, c, 8)
		want := x.integers(t, good.All(), 1)
		if got := x.integers(t, []int32{4, 0, 5, 1, 6, 2, 7, 3}, 1); !slices.Equal(got, want) {
			t.Error("rows with targets that the loss does not accept moved the sum")
		}
		must(t, x.Net.Write(x.Net.Params(), constant(x.size, nan)))
		if got := x.integers(t, c.All(), 1); slices.ContainsFunc(got, func(k int64) bool { return k != 0 }) {
			t.Error("gradients that are no numbers were summed")
		}
	})

	t.Run("noise is the stream's", func(t *testing.T) {
		c := wide(t)
		s := whole(t, c.Program)[0].Schedule
		x := openExact(t, d, s, c, 5)
		for _, test := range some(d, []struct{ clip, std float32 }{{1, 1}, {0.3, 2}, {3, 0x1p-20}, {7, 1e4}}) {
			k := x.integers(t, c.All(), test.clip)
			x.Add(t, c.All(), float64(test.clip))
			got := x.free(t, test.clip, test.std)
			g, err := exact.New(float64(test.std)/gridStep(test.clip), chacha(t), 7)
			must(t, err)
			g.Add(k, x.draw, 0)
			for i, v := range got {
				if want := float32(float64(k[i]) * gridStep(test.clip)); v != want {
					t.Fatalf("clip %v, std %v: value %d is %v, want %v", test.clip, test.std, i, v, want)
				}
			}
			if k := x.integers(t, nil, test.clip); slices.ContainsFunc(k, func(k int64) bool { return k != 0 }) {
				t.Error("the sum is not zero after its release")
			}
		}
	})

	t.Run("refusals", func(t *testing.T) { testExactRefusals(t, d) })
}

// good3 names the rows of an overflowing case.
var good3 = []int32{0, 1, 2}

// checkBound fails unless integers have a norm of at most C/γ, compared
// exactly; it gives their norm over C/γ.
func checkBound(t testing.TB, k []int64, clip float32) float64 {
	t.Helper()
	sum := new(big.Int)
	for _, x := range k {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(x), big.NewInt(x)))
	}
	ratio := new(big.Rat).Quo(new(big.Rat).SetFloat64(float64(clip)), new(big.Rat).SetFloat64(gridStep(clip)))
	most := ratio.Mul(ratio, ratio)
	if new(big.Rat).SetInt(sum).Cmp(most) > 0 {
		t.Errorf("clip norm %v: Σk² = %v is above (C/γ)² = %v", clip, sum, most.FloatString(3))
	}
	share, _ := new(big.Rat).Quo(new(big.Rat).SetInt(sum), most).Float64()
	return math.Sqrt(share)
}

func testExactRefusals(t *testing.T, d device.Device) {
	c := wide(t)
	p := c.Program
	said := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", what, err, want)
		}
	}
	exact := device.Options{Capacity: 4, Exact: true}
	for _, s := range some(d, private(t, p)) {
		if s.Stored() == p.NumParams() { // and combined, as dense ops are
			continue
		}
		_, err := d.Compile(s.Schedule, exact)
		said(s.name, err, "use strategy materialise or microbatch")
	}
	_, err := d.Compile(plain(t, p).Schedule, exact)
	said("a plain schedule", err, "need flat clipping, not unclipped")

	schedule := whole(t, p)[0].Schedule
	record := func(noise device.Noise) error {
		x := openExact(t, d, schedule, c, 4)
		_, err := x.Net.Record(func(q device.Queue) { q.Release(x.Out, x.Sum, noise) })
		return err
	}
	if err := record(device.Noise{}); !errors.Is(err, device.ErrNoNoise) {
		t.Errorf("no noise gives %v", err)
	}
	said("a tensor of further digits", record(device.NewNoise(chacha(t), 1<<31)), "must be below")
	x := Open(t, d, schedule, c, 4)
	_, err = x.Net.Record(func(q device.Queue) { q.Release(x.Out, x.Sum, device.NewExactNoise(chacha(t), 1)) })
	said("exact noise for a floating-point sum", err, "Options.Exact")

	run := func(change func(x *Fixture, in *device.Inputs)) error {
		x := openExact(t, d, schedule, c, 4)
		x.Add(t, []int32{0, 1}, 1)
		in := &device.Inputs{Draw: 1}
		in.Scalars[device.Clip], in.Scalars[device.NoiseStd], in.Scalars[device.NoiseStep] = 1, 1, float32(gridStep(1))
		step := x.Free
		change(x, in)
		if len(in.Rows) > 0 {
			step = x.Clipped
		}
		err := step.Run(in)
		if err != nil && step.Run(&device.Inputs{}) == nil {
			t.Error("a failure does not stick")
		}
		return err
	}
	must(t, run(func(*Fixture, *device.Inputs) {}))
	for _, std := range []float32{1e-14, 0x1.000002p20, -1, float32(math.NaN())} {
		said(fmt.Sprintf("a deviation of %v", std), run(func(_ *Fixture, in *device.Inputs) { in.Scalars[device.NoiseStd] = std }), "deviation")
	}
	for _, clip := range []float32{0, -1, float32(math.NaN()), float32(math.Inf(1))} {
		said("a release at an impossible clip norm", run(func(_ *Fixture, in *device.Inputs) { in.Scalars[device.Clip] = clip }), "must be a finite number above 0")
	}
	said("a release at another clip norm", run(func(_ *Fixture, in *device.Inputs) { in.Scalars[device.Clip] = 2 }), "begun at 1")
	said("more rows at another clip norm", run(func(_ *Fixture, in *device.Inputs) { in.Scalars[device.Clip], in.Rows = 2, []int32{1} }), "begun at 1")
	// After a release the clip norm is free.
	x = openExact(t, d, schedule, c, 4)
	x.integers(t, []int32{0, 1}, 1)
	x.integers(t, []int32{0, 1}, 2)
	for _, size := range []int{0, -1} {
		_, err := x.Net.NewScalarSum(size)
		said("a sum without values", err, "at least one scalar")
	}
	scalar, err := x.Net.NewScalarSum(1)
	must(t, err)
	for _, sum := range []device.Sum{scalar, -1, 99} {
		_, err = x.Net.Record(func(q device.Queue) { q.ClippedSum(sum, x.Data) })
		said("a gradient into no such sum", err, "sum")
		_, err = x.Net.Record(func(q device.Queue) { q.Release(x.Out, sum, x.Noise) })
		said("a release into a vector of another size", err, "")
	}
	_, err = x.Net.Record(func(q device.Queue) {
		q.Losses(x.Sum, x.Data, device.LossQuery{At: x.Net.Params(), Dir: x.Net.Params(), K: 1})
	})
	said("losses into a gradient's sum", err, "want 1")
	_, err = x.Net.Record(func(q device.Queue) { q.CountedSum(x.Sum, scalar, x.Data) })
	said("a count of norms", err, "not counted on exact nets")
}
