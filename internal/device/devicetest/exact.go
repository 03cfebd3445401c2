package devicetest

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
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
	return made(stream.New(stream.ChaCha20, stream.KeyFromSeed(1, "devicetest")))(t)
}

func openExact(t testing.TB, d device.Device, s *ir.Schedule, c *Case, capacity int) *Fixture {
	return open(t, d, s, c, device.Options{Capacity: capacity, Exact: true}, device.NewExactNoise(chacha(t), 7))
}

// whole lists the schedules that exact nets run.
func whole(t testing.TB, p *ir.Program) []named {
	var list []named
	for _, strategy := range []perexample.Strategy{perexample.Materialise, perexample.Microbatch} {
		list = append(list, named{string(strategy), schedule(t, p, strategy, ir.Flat)})
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
	in := s.next()
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
	rnd := rand.New(rand.NewPCG(41, 1))
	c := &Case{Program: p, Params: make([]float32, p.NumParams())}
	for i := range c.Params {
		c.Params[i] = float32(rnd.IntN(3) - 1)
	}
	c.Rows = device.Rows{Width: ir.Size(p.Shape), Gather: scaledBy(1, -2)}
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
	deep := NewBuilder("exact-deep", ir.Huber, 2, 6, 6)
	x := deep.Act(ir.ReLU, deep.Conv(ir.Input, 5, ir.Square(3, 1, 1), true))
	x = deep.Act(ir.ReLU, deep.Conv(deep.Pool(ir.MaxPool, x, pool2(2)), 4, pool2(1), false))
	deep.Dense(deep.Act(ir.ReLU, deep.Dense(x, 60, true)), 1, true)
	return []*ir.Program{linear("exact-linear", ir.Huber, 6, 1, true), deep.Program()}
}

// truncated is what rows add: each its gradient, scaled to the norm
// C·(1-2⁻²⁰) if it is longer, over γ, without the fraction. ambiguous says
// which coordinates lie so close to a whole number that float64 may see another.
func truncated(grads [][]float32, clip float32) (sum []int64, ambiguous []bool) {
	const prec = 200
	sum, ambiguous = make([]int64, len(grads[0])), make([]bool, len(grads[0]))
	for _, g := range grads {
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
		for i, x := range g {
			v := new(big.Float).SetPrec(prec).SetFloat64(float64(x))
			v.Mul(v, factor)
			n, _ := v.Int(nil)
			sum[i] += n.Int64()
			near, _ := new(big.Float).Sub(v, new(big.Float).SetInt(n)).Float64()
			near = math.Abs(near)
			ambiguous[i] = ambiguous[i] || factor.Cmp(big.NewFloat(1/gridStep(clip))) != 0 && x != 0 && min(near, 1-near) < 1e-6
		}
	}
	return sum, ambiguous
}

// exactClaims are about sums of whole numbers of grid steps.
var exactClaims = claims[device.Device]{
	{"integers", testIntegers},
	// Devices agree bit by bit where gradients do, at any capacity.
	{"the reference's bits", func(t *testing.T, d device.Device) {
		eachWhole(t, d, func(t *testing.T, s named, c wholeGradients) {
			clip := float32(c.longest / 2)
			x, y := openExact(t, d, s.Schedule, c.Case, 3), openExact(t, reference.Open(), whole(t, c.Program)[0].Schedule, c.Case, 8)
			for _, std := range []float32{0, 0.7 * clip, 1000 * clip} {
				x.Add(t, c.All()[:7], float64(clip))
				y.Add(t, c.All()[:7], float64(clip))
				Same(t, x.free(t, clip, std), y.free(t, clip, std))
			}
		})
	}},
	{"sensitivity", testExactSensitivity},
	{"bound", testExactBound},
	{"rows that are not finite", testExactNotFinite},
	{"rows that do not count", testUncountedRows},
	{"noise is the stream's", testExactNoise},
}

func testExact(t *testing.T, d device.Device) {
	exactClaims.run(t, d)
	c := wide(t)
	exactRefusals.run(t, site{c, d, whole(t, c.Program)[0].Schedule, 4})
}

// wholeGradients is a case of whole numbers with the gradient of each row.
type wholeGradients struct {
	*Case
	grads   [][]float32
	longest float64
}

// eachWhole tests them under some of the schedules of exact nets.
func eachWhole(t *testing.T, d device.Device, test func(*testing.T, named, wholeGradients)) {
	for _, p := range some(d, wholePrograms()) {
		c := wholeGradients{Case: wholeCase(t, p, 4)}
		c.grads = gradients(t, c.Case)
		for _, g := range c.grads {
			c.longest = max(c.longest, Norm(g))
		}
		t.Run(p.Name, func(t *testing.T) {
			each(t, d, whole(t, p), func(t *testing.T, s named) { test(t, s, c) })
		})
	}
}

func testIntegers(t *testing.T, d device.Device) {
	eachWhole(t, d, func(t *testing.T, s named, c wholeGradients) {
		for _, clip := range []float32{float32(c.longest / 3), 1, 1.1, float32(c.longest * 0.8), float32(2 * c.longest)} {
			g := c.grads // with 5 and 7 the sum would be zero
			want, unsure := truncated([][]float32{g[0], g[1], g[2], g[3], g[4], g[6]}, clip)
			x := openExact(t, d, s.Schedule, c.Case, 5)
			sure := 0
			for i, got := range x.integers(t, []int32{0, 1, 2, 3, 4, 6}, clip) {
				if unsure[i] {
					continue
				}
				sure++
				if got != want[i] {
					t.Fatalf("clip norm %v: coordinate %d is %d steps, want %d", clip, i, got, want[i])
				}
			}
			if sure < x.size*9/10 {
				t.Errorf("clip norm %v: only %d of %d coordinates could be told", clip, sure, x.size)
			}
		}
	})
}

// testExactSensitivity has neighbouring batches, one of 1,024 rows: they differ by one row's integers, whose norm
// is at most C/γ. All rows but one are taken away again by their mirror
// images, so that the difference can be read whatever the sum was.
func testExactSensitivity(t *testing.T, d device.Device) {
	for _, p := range some(d, wholePrograms()) {
		c := wholeCase(t, p, fewer(d, map[string]int{"exact-linear": 512, "exact-deep": 24}[p.Name], 24))
		mirrored := c.All()
		for i := range mirrored {
			mirrored[i] ^= 1
		}
		for _, s := range some(d, whole(t, p)[:2]) {
			x := openExact(t, d, s.Schedule, c, 300)
			for _, clip := range some(d, []float32{0.01, 1, math.Nextafter32(2, 1), 3, 1e9}) {
				for _, extra := range some(d, []int32{0, 7, 45}) {
					x.Add(t, append(c.All(), extra), float64(clip))
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
}

// testExactBound has gradients with rounding, enormous ones and tiny ones.
func testExactBound(t *testing.T, d device.Device) {
	eachCase(t, d, few(), 4, 42, func(t *testing.T, usual *Case) {
		scaled := *usual
		for _, factor := range []float32{1, 1e-6, 1e15} {
			scaled.scaleBy(usual.Rows.Gather[0].Scale*factor, usual.Rows.Gather[0].Offset)
			for _, s := range some(d, whole(t, usual.Program)[:2]) {
				x := openExact(t, d, s.Schedule, &scaled, 1)
				for _, clip := range some(d, []float32{1e-9, 0.1, math.Nextafter32(1, 0), 1e9}) {
					for _, row := range scaled.All() {
						checkBound(t, x.integers(t, []int32{row}, clip), clip)
					}
				}
			}
		}
	})
}

// testExactNotFinite has gradients of very different sizes and such as are not finite: the bound
// holds for them too, and others are not moved.
func testExactNotFinite(t *testing.T, d device.Device) {
	eachProgram(t, d, few(), func(t *testing.T, p *ir.Program) {
		good := overflowing(t, d, p)
		loud := good.with(255, 1, 1).with(2, 1).with(200, 1)
		for _, s := range some(d, whole(t, p)[:2]) {
			x := openExact(t, d, s.Schedule, loud, 7)
			want := x.integers(t, good.All(), 1)
			for _, row := range loud.All()[3:] {
				checkBound(t, x.integers(t, []int32{row}, 1), 1)
			}
			if got := openExact(t, d, s.Schedule, good, 7).integers(t, good.All(), 1); !slices.Equal(got, want) {
				t.Errorf("%s %s: rows that are not finite moved others", p.Name, s.name)
			}
		}
	})
}

func testUncountedRows(t *testing.T, d device.Device) {
	p, nan := program("cnn-mnist"), float32(math.NaN())
	good := newCase(t, d, p, 4, 43)
	c := good.with(77, nan, -1, float32(p.Outputs()), 0.5)
	x := openExact(t, d, whole(t, p)[0].Schedule, c, 8)
	want := x.integers(t, good.All(), 1)
	if got := x.integers(t, []int32{4, 0, 5, 1, 6, 2, 7, 3}, 1); !slices.Equal(got, want) {
		t.Error("rows with targets that the loss does not accept moved the sum")
	}
	x.params(t, constant(x.size, nan))
	if got := x.integers(t, c.All(), 1); slices.ContainsFunc(got, func(k int64) bool { return k != 0 }) {
		t.Error("gradients that are no numbers were summed")
	}
}

func testExactNoise(t *testing.T, d device.Device) {
	c := wide(t)
	x := openExact(t, d, whole(t, c.Program)[0].Schedule, c, 5)
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
}

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
