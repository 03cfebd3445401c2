package devicetest

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/perexample"
)

// byHand clips one gradient by the definition of a clipping, in float64, from
// the gradient's own elements.
func byHand(p *ir.Program, c ir.Clipping, g []float32, clip float64) []float32 {
	switch c {
	case ir.Flat:
		return scaled(g, min(1, clip/Norm(g)))
	case ir.Automatic:
		return scaled(g, clip/(Norm(g)+0.01))
	}
	var ends []int // of layers: each is a weight and perhaps a bias, in the order of the parameters
	for _, op := range p.Ops {
		if op.Weight != ir.None {
			last := p.Params[slices.Max(op.Parameters())]
			ends = append(ends, last.Offset+last.Size())
		}
	}
	var share []float32
	for _, end := range ends {
		layer, bound := g[len(share):end], clip/math.Sqrt(float64(len(ends)))
		share = append(share, scaled(layer, min(1, bound/Norm(layer)))...)
	}
	return share
}

// otherClippingClaims are about clippings other than the flat one: an example's share follows the
// definition and never exceeds C, and sums are the shares'.
var otherClippingClaims = claims[device.Device]{
	{"per-layer", func(t *testing.T, d device.Device) { testShares(t, d, ir.PerLayer) }},
	{"automatic", func(t *testing.T, d device.Device) { testShares(t, d, ir.Automatic) }},
	{"per-layer after broken numbers", func(t *testing.T, d device.Device) { testBrokenNumbers(t, d, ir.PerLayer) }},
	{"automatic after broken numbers", func(t *testing.T, d device.Device) { testBrokenNumbers(t, d, ir.Automatic) }},
	{"one layer not finite", testOneLayer},
	// A gradient of zero stays zero where small ones are scaled up.
	{"automatic of nothing", func(t *testing.T, d device.Device) {
		c := &Case{
			Program: linear("flat hinge", ir.Hinge, 2, 1, true), Params: []float32{0, 0, 5},
			Rows: device.Rows{Count: 1, Width: 2, Targets: []float32{1}}, Features: []uint8{3, 4},
		}
		for _, s := range clipped(t, c.Program, ir.Automatic) {
			Same(t, Open(t, d, s.Schedule, c, 1).Of(t, c.All(), 1), make([]float32, 3))
		}
	}},
	{"automatic of nothing beside a huge δ", testNothingBesideHuge},
}

func testShares(t *testing.T, d device.Device, kind ir.Clipping) {
	eachCase(t, d, programsIn(d), 6, 31, func(t *testing.T, c *Case) {
		grads := gradientsIn(t, c)
		each(t, d, clipped(t, c.Program, kind), func(t *testing.T, s named) {
			tolerance := tolerance(d)
			if s.name == string(perexample.Gram) {
				tolerance *= 2 // its norm is longer by a bound on the rounding of the gradient
			}
			x := Open(t, d, s.Schedule, c, 5)
			for _, norm := range clipNorms(t, c) {
				sums := make([][]float32, len(grads))
				for i := range sums {
					sums[i] = make([]float32, x.size)
				}
				for row := range c.All() {
					var want [][]float32
					for p, grads := range grads {
						one := byHand(c.Program, kind, grads[row], norm.norm)
						want = append(want, one)
						for i, v := range one {
							sums[p][i] += v
						}
					}
					share := x.Of(t, []int32{int32(row)}, norm.norm)
					bounded(t, share, norm.norm)
					nearOne(t, share, want, tolerance)
				}
				whole := x.Of(t, c.All(), norm.norm) // in two runs
				nearOne(t, whole, sums, tolerance)
				Same(t, x.Of(t, c.All(), norm.norm), whole)
			}
		})
	})
}

func testBrokenNumbers(t *testing.T, d device.Device, kind ir.Clipping) {
	c := newCase(t, d, program("thrice"), 8, 32)
	eachNet(t, d, c, clipped(t, c.Program, kind), 8, func(t *testing.T, x *Fixture) {
		want := x.Of(t, c.All()[:5], 0.5)
		x.params(t, constant(x.size, float32(math.NaN())))
		Same(t, x.Of(t, c.All(), 0.5), make([]float32, x.size))
		x.params(t, c.Params)
		Same(t, x.Of(t, c.All()[:5], 0.5), want)
	})
}

// testOneLayer has a saturated tanh, behind which an infinite feature leaves all
// layers but the first a finite gradient, and the first 0·∞.
func testOneLayer(t *testing.T, d device.Device) {
	b := NewBuilder("saturated", ce, 1)
	b.Dense(b.Act(ir.Tanh, b.Dense(ir.Input, 2, true)), 2, true)
	c := &Case{
		Program: b.Program(), Params: []float32{1, 2, 0, 0, 0.5, -0.25, 1, 0.75, 0, 0},
		Rows: device.Rows{Count: 2, Width: 1, Gather: scaledBy(3e38, 0.4), Targets: []float32{0, 1}}, Features: []uint8{0, 9},
	}
	for _, s := range clipped(t, c.Program, ir.PerLayer) {
		x := Open(t, d, s.Schedule, c, 2)
		good := x.Of(t, []int32{0}, 1)
		if Norm(good) == 0 {
			t.Fatal("the finite row has no gradient")
		}
		Same(t, x.Of(t, []int32{1}, 1), make([]float32, x.size))
		Near(t, x.Of(t, []int32{1, 0, 1}, 1), good, tolerance(d))
	}
}

// testNothingBesideHuge scales up beside inputs of zero, where it may not overflow.
func testNothingBesideHuge(t *testing.T, d device.Device) {
	b := NewBuilder("huge", ce, 1)
	b.Dense(b.Dense(ir.Input, 1, false), 2, false)
	c := &Case{
		Program: b.Program(), Params: []float32{1, 1e37, -1e37},
		Rows: device.Rows{Count: 1, Width: 1, Targets: []float32{0}}, Features: []uint8{0},
	}
	for _, s := range clipped(t, c.Program, ir.Automatic) {
		for _, v := range Open(t, d, s.Schedule, c, 1).Of(t, c.All(), 1) {
			if v != 0 {
				t.Errorf("%s: a gradient of zero adds %v", s.name, v)
			}
		}
	}
}
