package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// testSums compares every program under every schedule with the reference, at
// clip norms that bind every example, about half of them, and none.
func testSums(t *testing.T, d device.Device) {
	programs := Programs() // of a sampled device too: each has something of its own
	if precision(d) != device.Float32 {
		programs = fewIn(d)
	}
	for _, p := range programs {
		t.Run(p.Name, func(t *testing.T) {
			c := newCase(t, d, p, 7, 1)
			rows := c.All()
			slices.Reverse(rows)
			clips := clipNorms(t, c)
			var want [][][]float32
			for _, clip := range clips {
				want = append(want, oracles(t, c, rows, clip.norm))
			}
			for _, s := range some(d, private(t, p)) {
				x := Open(t, d, s.Schedule, c, len(rows))
				for i, clip := range clips {
					t.Run(s.name+" "+clip.name, func(t *testing.T) { nearOne(t, x.Of(t, rows, clip.norm), want[i], tolerance(d)) })
				}
			}
			t.Run("plain", func(t *testing.T) {
				x := Open(t, d, plain(t, p).Schedule, c, len(rows))
				nearOne(t, x.Of(t, rows, 0), oracles(t, c, rows, 0), tolerance(d))
			})
		})
	}
}

// oracles are the sums that a device may come near to: in the precision that it was asked for, and in float32, as it may multiply in
// more digits.
func oracles(t testing.TB, c *Case, rows []int32, clip float64) [][]float32 {
	t.Helper()
	var list [][]float32
	for _, c := range c.precisions() {
		list = append(list, oracle(t, c, rows, clip))
	}
	return list
}

// precisions are the case in its precision, and in float32 where devices may choose op by op.
func (c *Case) precisions() []*Case {
	if c.precision == device.Float32 { // below which devices may leave ops to it
		return []*Case{c}
	}
	more := *c
	more.precision = device.Float32
	return []*Case{c, &more}
}

// gradientsIn are each row's own gradient, in each of them.
func gradientsIn(t testing.TB, c *Case) (list [][][]float32) {
	t.Helper()
	for _, c := range c.precisions() {
		list = append(list, gradients(t, c))
	}
	return list
}

// nearOne is Near to one of them.
func nearOne(t testing.TB, got []float32, want [][]float32, tolerance float64) {
	t.Helper()
	for _, w := range want[1:] {
		if off(got, w) <= tolerance {
			return
		}
	}
	Near(t, got, want[0], tolerance)
}

type clipNorm struct {
	name string
	norm float64
}

// clipNorms gives norms around those of a case's gradients.
func clipNorms(t testing.TB, c *Case) []clipNorm {
	t.Helper()
	var norms []float64
	for _, g := range gradients(t, c) {
		if n := Norm(g); n > 0 {
			norms = append(norms, n)
		}
	}
	if len(norms) < 2 {
		t.Fatalf("%s: hardly an example has a gradient", c.Program.Name)
	}
	slices.Sort(norms)
	above := 1 // the widest gap, where a device's rounding puts no row on the other side
	for i := range norms[1:] {
		if norms[i+1]*norms[above-1] > norms[above]*norms[i] {
			above = i + 1
		}
	}
	return []clipNorm{
		{"clips all", norms[0] / 2},
		{"clips some", math.Sqrt(norms[above-1] * norms[above])},
		{"clips none", 2 * norms[len(norms)-1]},
	}
}

// kinkClaims are about what a program fixes where a derivative does not exist.
var kinkClaims = claims[device.Device]{{"ReLU′(0) is 0", testReLUKink}, {"pool tie", testPoolTie}}

// kinkGradient is the gradient of one row of zeros.
func kinkGradient(t *testing.T, d device.Device, b *Builder, params []float32) []float32 {
	t.Helper()
	c := &Case{Program: b.Program(), Params: params, Rows: device.Rows{Count: 1, Width: 1, Targets: []float32{1}}, Features: []uint8{0}}
	must(t, c.Program.Validate())
	return Open(t, d, plain(t, c.Program).Schedule, c, 1).Of(t, []int32{0}, 0)
}

func testReLUKink(t *testing.T, d device.Device) {
	b := NewBuilder("relu", ce, 1)
	b.Dense(b.Act(ir.ReLU, b.Dense(ir.Input, 2, true)), 2, true)
	// Weights and biases of the first layer are 0 and 1, so that one unit
	// stands at 0; the second layer would pass a gradient back to both.
	g := kinkGradient(t, d, b, []float32{0, 0, 0, 1, 1, 2, 3, 5, 0, 0})
	if g[2] != 0 || g[3] == 0 {
		t.Errorf("biases of units at 0 and at 1 have the gradients %v and %v; want zero and non-zero", g[2], g[3])
	}
}

func testPoolTie(t *testing.T, d device.Device) {
	first := ir.Window{H: 3, W: 3, StrideH: 1, StrideW: 1, PadTop: 1, PadBottom: 1, PadLeft: 1, PadRight: 1, DilationH: 1, DilationW: 1}
	for _, test := range []struct {
		name   string
		window ir.Window
		image  []float32
		want   []int // elements that a gradient reaches
	}{
		{"2×2", pool2(2), constant(16, 1), []int{0, 2, 8, 10}},
		{"overlapping", pool2(1), constant(16, 1), []int{0, 1, 2, 4, 5, 6, 8, 9, 10}},
		{"padding never wins", first, constant(16, -1), []int{0, 1, 2, 4, 5, 6, 8, 9, 10}},
		{"row before column", pool2(2), []float32{0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 2, 2, 0, 3, 2, 2}, []int{1, 2, 10, 13}},
		{"zeros of either sign", pool2(2), []float32{float32(math.Copysign(0, -1)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []int{0, 2, 8, 10}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := NewBuilder("tie", ce, 1)
			x := b.Reshape(b.Dense(ir.Input, 16, true), 1, 4, 4)
			x = b.Pool(ir.MaxPool, x, test.window)
			outputs := b.Program().Outputs()
			b.Dense(x, 2, true)
			// The image is the bias of the first layer.
			params := append(constant(16, 0), test.image...)
			for i := range 2 * outputs {
				params = append(params, 0.01*float32(i+1)*(1-2*float32(i/outputs)))
			}
			var reached []int
			for i, v := range kinkGradient(t, d, b, append(params, 0, 0))[16:32] {
				if v != 0 {
					reached = append(reached, i)
				}
			}
			if !slices.Equal(reached, test.want) {
				t.Errorf("the gradient reaches elements %v, want %v", reached, test.want)
			}
		})
	}
}

func constant(n int, x float32) []float32 { return slices.Repeat([]float32{x}, n) }

// few are programs that hold every kind of op between them.
func few() []*ir.Program {
	var list []*ir.Program
	for _, name := range []string{"thrice", "resnet", "avgpool", "mnist-tf", "cnn-mnist", "mlp-fmnist", "mlp-hinge"} {
		list = append(list, program(name))
	}
	return list
}

// fewIn are few, and below float32 those that fill tiles of tensor cores before them.
func fewIn(d device.Device) []*ir.Program {
	if precision(d) == device.Float32 {
		return few()
	}
	return append(tensorPrograms(), few()...)
}

// programsIn are all programs, of which a sampled device takes those below float32 that fill tiles of tensor cores: the others are
// as they are in float32.
func programsIn(d device.Device) []*ir.Program {
	if _, sampled := d.(*sampled); sampled && precision(d) != device.Float32 {
		return tensorPrograms()
	}
	return ProgramsIn(precision(d))
}

// testMetamorphic checks relations between sums that hold for any numbers.
func testMetamorphic(t *testing.T, d device.Device) {
	eachCase(t, d, fewIn(d), 9, 2, func(t *testing.T, c *Case) {
		rows := c.All()
		clip := clipNorms(t, c)[1].norm
		each(t, d, all(t, c.Program), func(t *testing.T, s named) {
			x := Open(t, d, s.Schedule, c, 12)
			of := func(rows ...int32) []float32 { return x.Of(t, rows, clip) }
			whole := of(rows...)
			t.Run("permuted", func(t *testing.T) { Near(t, of(8, 3, 1, 0, 7, 5, 2, 6, 4), whole, tolerance(d)) })
			t.Run("again", func(t *testing.T) { Same(t, of(rows...), whole) })
			t.Run("split in two", func(t *testing.T) {
				x.Add(t, rows[:4], clip)
				Near(t, of(rows[4:]...), whole, tolerance(d))
			})
			t.Run("empty after full", func(t *testing.T) {
				of(rows...)
				Same(t, of(), make([]float32, x.size))
			})
			t.Run("empty into full", func(t *testing.T) {
				x.Add(t, rows, clip)
				Same(t, of(), whole)
			})
			t.Run("one and the rest", func(t *testing.T) {
				one := of(3)
				nearOne(t, one, oraclesOf(t, c, s, []int32{3}, clip), tolerance(d))
				x.Add(t, []int32{0, 1, 2, 4, 5, 6, 7, 8}, clip)
				Near(t, of(3), whole, tolerance(d))
			})
			t.Run("duplicates", func(t *testing.T) {
				Near(t, of(3, 3, 3), scaled(of(3), 3), tolerance(d))
				Near(t, of(1, 3, 1, 3), scaled(of(3, 1), 2), tolerance(d))
			})
		})
	})
}

// all lists every schedule that clips flat, and the one that does not clip.
func all(t testing.TB, p *ir.Program) []named {
	return append(private(t, p), plain(t, p))
}

// oraclesOf are those of what s clips.
func oraclesOf(t testing.TB, c *Case, s named, rows []int32, clip float64) [][]float32 {
	t.Helper()
	if !s.Private() {
		clip = 0
	}
	return oracles(t, c, rows, clip)
}

// testStaleMemory runs a full batch in which every value is NaN, and then a
// smaller good one: the bits are those of a fresh net.
func testStaleMemory(t *testing.T, d device.Device) {
	eachCase(t, d, programsIn(d), 8, 3, func(t *testing.T, c *Case) {
		rows := c.All()[:5]
		clip := clipNorms(t, c)[1].norm
		each(t, d, all(t, c.Program), func(t *testing.T, s named) {
			want := Open(t, d, s.Schedule, c, 8).Of(t, rows, clip)
			x := Open(t, d, s.Schedule, c, 8)
			x.params(t, constant(x.size, float32(math.NaN())))
			poisoned := x.Of(t, c.All(), clip)
			if s.Private() {
				Same(t, poisoned, make([]float32, x.size))
			}
			x.params(t, c.Params)
			Same(t, x.Of(t, rows, clip), want)
		})
	})
}

// capacityClaims are about the most rows of a run.
var capacityClaims = claims[device.Device]{{"room changes nothing", testRoom}, {"blocks of rows", testBlocks}}

// testRoom checks that room changes nothing, and that a batch beyond it
// takes several runs and one release.
func testRoom(t *testing.T, d device.Device) {
	eachCase(t, d, fewIn(d), 20, 4, func(t *testing.T, c *Case) {
		clip := clipNorms(t, c)[1].norm
		each(t, d, all(t, c.Program), func(t *testing.T, s named) {
			small, large := Open(t, d, s.Schedule, c, 32), Open(t, d, s.Schedule, c, 512)
			whole := small.Of(t, c.All(), clip)
			Same(t, large.Of(t, c.All(), clip), whole)
			tight := Open(t, d, s.Schedule, c, 6)
			Near(t, tight.Of(t, c.All(), clip), whole, tolerance(d))
			if tight.draw != 1 {
				t.Errorf("a batch of several runs took %d releases", tight.draw)
			}
		})
	})
}

// testBlocks has batches within and beyond which the blocks of a sum over examples end.
func testBlocks(t *testing.T, d device.Device) {
	for _, p := range []*ir.Program{program("thrice"), program("mlp-fmnist")} {
		c := newCase(t, d, p, 20, 5)
		clip := clipNorms(t, c)[1].norm
		for _, n := range some(d, []int{31, 33, 255, 257, 600}) {
			rows := make([]int32, n)
			for i := range rows {
				rows[i] = int32(i * 7 % 20)
			}
			want := map[bool][]float32{true: oracle(t, c, rows, clip), false: oracle(t, c, rows, 0)}
			for _, s := range some(d, all(t, p)) {
				t.Run(fmt.Sprintf("%s %d rows %s", p.Name, n, s.name), func(t *testing.T) {
					Near(t, Open(t, d, s.Schedule, c, n).Of(t, rows, clip), want[s.Private()], tolerance(d))
				})
			}
		}
	}
}

// targetClaims are about rows that the loss does not accept, among others.
var targetClaims = claims[device.Device]{{"finite", testInvalidTargets}, {"not finite", testInvalidAndNotFinite}}

// badTargets are those of such rows.
func badTargets(p *ir.Program) []float32 {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	switch p.Loss {
	case ir.SoftmaxCrossEntropy:
		return []float32{nan, inf, -inf, -1, 0.5, float32(p.Outputs()), 1e30, -1e30, math.MaxFloat32}
	case ir.Huber:
		return []float32{nan, inf, -inf}
	}
	return []float32{nan, inf, -inf, 0, 0.5, 2, -3, 1e30}
}

func testInvalidTargets(t *testing.T, d device.Device) {
	eachProgram(t, d, programsIn(d), func(t *testing.T, p *ir.Program) {
		bad := badTargets(p)
		good := newCase(t, d, p, 4, 6)
		c := good.with(77, bad...)
		// The good rows last: the bad ones must leave nothing behind.
		rows := append(c.All()[4:], 0, 1, 2, 3)
		clip := clipNorms(t, good)[1].norm
		each(t, d, all(t, p), func(t *testing.T, s named) {
			x := Open(t, d, s.Schedule, c, len(rows))
			nearOne(t, x.Of(t, rows, clip), oraclesOf(t, good, s, good.All(), clip), tolerance(d))
			Same(t, x.Of(t, rows[:len(bad)], clip), make([]float32, x.size))
		})
	})
}

// testInvalidAndNotFinite has bad rows whose features are not finite either: 0·∞ must
// not count, whatever the schedule.
func testInvalidAndNotFinite(t *testing.T, d device.Device) {
	eachProgram(t, d, programsIn(d), func(t *testing.T, p *ir.Program) {
		clip := clipNorms(t, newCase(t, d, p, 4, 6))[1].norm
		c := overflowing(t, d, p).with(255, badTargets(p)...)
		eachNet(t, d, c, all(t, p), c.Rows.Count, func(t *testing.T, x *Fixture) {
			want := x.Of(t, []int32{0, 1, 2}, clip)
			Near(t, x.Of(t, c.All(), clip), want, tolerance(d))
		})
	})
}

// overflowing is a case whose rows of zeros are finite while any byte above 1
// overflows.
func overflowing(t testing.TB, d device.Device, p *ir.Program) *Case {
	t.Helper()
	c := newCase(t, d, p, 1, 7)
	c.Rows = device.Rows{Width: c.Rows.Width, Gather: scaledBy(3e38, 0.4)}
	c.Features = nil
	if p.Loss == ir.SoftmaxCrossEntropy {
		return c.with(0, 0, 1, 0)
	}
	return c.with(0, 1, -1, 1)
}

// finiteClaims are about rows whose values overflow, among others: under a private schedule they count as zero.
var finiteClaims = claims[device.Device]{{"rows", testNonFinite}, {"one feature", testOneFeature}}

func testNonFinite(t *testing.T, d device.Device) {
	const clip = 0.3
	eachProgram(t, d, programsIn(d), func(t *testing.T, p *ir.Program) {
		good := overflowing(t, d, p)
		c := good.with(255, 1, 1).with(2, 1).with(200, 1)
		rows := []int32{3, 0, 4, 1, 5, 2, 6}
		eachNet(t, d, c, private(t, p), len(rows), func(t *testing.T, x *Fixture) {
			want := x.Of(t, good.All(), clip)
			if good.Kink(0)+good.Kink(1) == "" { // a pool over equal inputs ties
				Near(t, want, oracle(t, good, good.All(), clip), tolerance(d))
			}
			Near(t, x.Of(t, rows, clip), want, tolerance(d))
			Same(t, x.Of(t, rows[:1], clip), make([]float32, x.size))
		})
	})
}

// testOneFeature has a single overflowing feature among good ones; with one of the targets a
// linear model's norm is infinite, with the other it is no number.
func testOneFeature(t *testing.T, d device.Device) {
	const clip = 0.3
	dense := slices.DeleteFunc(Programs(), func(p *ir.Program) bool { return p.Ops[0].Kind != ir.Dense })
	eachProgram(t, d, dense, func(t *testing.T, p *ir.Program) {
		good := overflowing(t, d, p)
		other := float32(-1)
		if p.Loss == ir.SoftmaxCrossEntropy {
			other = 0
		}
		c := good.with(0, 1, other)
		for _, row := range []int{3, 4} {
			c.Features[row*c.Rows.Width+c.Rows.Width/2] = 9
		}
		want := oracle(t, good, good.All(), clip)
		eachNet(t, d, c, private(t, p), 5, func(t *testing.T, x *Fixture) { Near(t, x.Of(t, c.All(), clip), want, tolerance(d)) })
	})
}

// strategies is every strategy with its schedule.
func strategies(t testing.TB, p *ir.Program) []named {
	return private(t, p)[:len(perexample.Strategies())]
}
