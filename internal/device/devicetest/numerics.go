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

// cancelling is a convolution over a constant image whose δ adds up to zero
// over the positions in exact arithmetic: 224 values w, then 32 of −7w, in
// float32 exactly. So the gradient is zero, while a float32 sum in ascending
// order loses over 10⁻⁶ of the sum of magnitudes, which is given: w's last bits
// are 7/16 of the last place of a sum between 128 and 256.
//
// In tf32 and bf16 δ is a sum of two numbers of that precision: w three quarters of a place above 1, and 7w more than a place of its
// own above 7, so that cutting both off leaves that place, 32 times, where there was zero.
func cancelling(p device.Precision) (c *Case, magnitudes float64) {
	const size = 16
	parts := map[device.Precision][]float32{device.Float32: {1 + 56*0x1p-23}, device.TF32: {1, 0.75 * 0x1p-10}, device.BF16: {1, 0.75 * 0x1p-7}}[p]
	b := NewBuilder("cancelling", ir.Huber, 2, size, size)
	b.Dense(b.Dense(b.Conv(ir.Input, 3, ir.Square(1, 1, 0), false), len(parts), false), 1, false)
	c = &Case{Program: b.Program(), Params: make([]float32, 2*3)} // outputs of zero: the dense gradients are zero too
	for _, w := range parts {
		for range 3 {
			c.Params = append(c.Params, constant(224, w)...)
			c.Params = append(c.Params, constant(32, -7*w)...)
		}
		magnitudes += 2 * 224 * float64(w)
	}
	c.Params = append(c.Params, constant(len(parts), 1)...)
	c.Rows = device.Rows{Width: 2 * size * size}
	return c.with(1, 3), magnitudes // the loss has the slope −1
}

// roundingClaims are about the bounds on one example's influence where rounding is at its worst.
var roundingClaims = claims[device.Device]{
	{"a norm under cancellation", testCancellation},
	// Inputs of 10³⁰ under δ of 10²⁰: a norm may be finite in more precision than
	// the gradient that it was taken of.
	{"a gradient that overflows", func(t *testing.T, d device.Device) {
		c, _ := cancelling(device.Float32)
		c.scaleBy(1e30, 0)
		for i := range len(c.Params) - 1 { // the last layer's weight stays 1
			c.Params[i] *= 1e20
		}
		eachNet(t, d, c, private(t, c.Program), 1, func(t *testing.T, x *Fixture) { bounded(t, x.Of(t, []int32{0}, 1), 1) })
	}},
	// An input of 2⁷⁰ under a δ of −1.5·2⁻²⁴, clipped so short that factor times δ is no normal
	// number: rounded up to 2·2⁻¹⁴⁹ from 1.6 of them, times the input it would be a quarter longer than C.
	{"a factor that underflows", func(t *testing.T, d device.Device) {
		c := (&Case{Program: linear("long", ir.Huber, 1, 1, false), Params: []float32{0}, Rows: device.Rows{Width: 1, Gather: scaledBy(0x1p70, 0)}}).with(1, 1.5*0x1p-24)
		for _, s := range strategies(t, c.Program) {
			t.Run(s.name, func(t *testing.T) {
				bounded(t, Open(t, d, s.Schedule, c, 1).Of(t, []int32{0}, 1.6*0x1p-79), 1.6*0x1p-79)
			})
		}
	}},
	{"a sum", testSumRounding},
	{"bound", testRoundingBound},
}

func testCancellation(t *testing.T, d device.Device) {
	c, magnitudes := cancelling(precision(d))
	schedules, rows := some(d, private(t, c.Program)), fewer(d, 1024, 64)
	if precision(d) != device.Float32 {
		rows = fewer(d, 1024, 2)
		schedules = slices.DeleteFunc(private(t, c.Program), func(s named) bool {
			return s.name != string(perexample.Gram) && s.name != string(perexample.Recompute)
		})
	}
	for _, s := range schedules {
		t.Run(s.name, func(t *testing.T) {
			x := Open(t, d, s.Schedule, c, rows)
			for _, norm := range []float64{1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3} {
				norm *= magnitudes
				bounded(t, x.Of(t, []int32{0}, norm), norm)
			}
			moves(t, x, make([]int32, rows), 1e-7*magnitudes)
		})
	}
}

// testSumRounding adds a share of 1, then 31 of 5·2⁻²⁶ each: added to 1, each rounds up to 2⁻²³.
// Without the first row the small ones of every 32 come first and round
// to nothing, so that the sum moves by far more than the row's own share.
func testSumRounding(t *testing.T, d device.Device) {
	dense, conv := NewBuilder("dense", ir.Huber, 1, 1, 1), NewBuilder("conv", ir.Huber, 1, 1, 1)
	dense.Dense(ir.Input, 1, false)
	conv.Conv(ir.Input, 1, ir.Square(1, 1, 0), false)
	rows := make([]int32, fewer(d, 1024, 256))
	for i := range rows {
		rows[i] = int32(min(i%32, 1))
	}
	for _, b := range []*Builder{dense, conv} {
		c := &Case{Program: b.Program(), Params: []float32{0}, Rows: device.Rows{Width: 1}}
		c = c.with(1, 1, 5*0x1p-26) // the loss has minus the target as its slope
		for _, s := range some(d, private(t, c.Program)) {
			for _, capacity := range some(d, []int{1024, 512, 100}) {
				t.Run(fmt.Sprintf("%s %s, %d rows together", c.Program.Name, s.name, capacity), func(t *testing.T) {
					x := Open(t, d, s.Schedule, c, capacity)
					moves(t, x, rows, 1.000001)
					moves(t, x, rows, 1.0/3)
				})
			}
		}
	}
}

// testRoundingBound compares the strategies' bounds: the noise follows them, and a strategy must not change it.
func testRoundingBound(t *testing.T, d device.Device) {
	most := 0.0075
	if precision(d) != device.Float32 {
		most = 0.0085
	}
	eachCase(t, d, fewIn(d), 1, 23, func(t *testing.T, c *Case) {
		var first []float64
		for _, s := range some(d, private(t, c.Program)) {
			x := Open(t, d, s.Schedule, c, 512)
			var all []float64
			for _, rows := range []int{0, 1, 10, 512, 513, 1024, 1400} {
				all = append(all, x.Net.Rounding(rows))
			}
			if !slices.IsSorted(all) || all[0] != 0 || !(all[5] <= most) {
				t.Errorf("%s %s: the bounds are %v", c.Program.Name, s.name, all)
			}
			if first == nil {
				first = all
			} else if !slices.Equal(all, first) {
				t.Errorf("%s: %s has the bounds %v, another strategy %v", c.Program.Name, s.name, all, first)
			}
		}
	})
}

// moves checks how far a sum moves without the first of its rows.
func moves(t testing.TB, x *Fixture, rows []int32, norm float64) {
	t.Helper()
	whole, rest := x.Of(t, rows, norm), x.Of(t, rows[1:], norm)
	clip := float64(float32(norm))
	most := clip * (1 + x.Net.Rounding(len(rows)))
	if x.Net.Rounding(1) < 0x1p-30 {
		most += 0x1p-24 * (Norm(whole) + Norm(rest)) // more than float32, which both were rounded to on the way out
	}
	if n := difference(whole, rest); !(n <= most) {
		t.Errorf("without the first of %d rows the sum moves by %.9g, more than %.9g at C = %.9g", len(rows), n, most, clip)
	}
}

// difference is ‖x−y‖ in float64.
func difference(x, y []float32) float64 {
	s := 0.0
	for i := range x {
		d := float64(x[i]) - float64(y[i])
		s += d * d
	}
	return math.Sqrt(s)
}
