package reference

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// whole is a front end that is a program alone.
type whole struct{ p ir.Program }

func (w whole) In() [3]int                             { return [3]int(w.p.Shape) }
func (w whole) Width() int                             { return w.p.Outputs() }
func (w whole) Program() (*ir.Program, []float32)      { return &w.p, nil }
func (w whole) Fill([]uint16, []uint8, []float32, int) {}

// A stop waits for few records, since one may take a second. How often the device asks does not depend on their number.
func TestStopsBetweenRecords(t *testing.T) {
	for _, n := range []int{0, 3, 2000} {
		front := whole{ir.Program{Shape: []int{1, 1, 2}, Ops: []ir.Op{{Kind: ir.Unit, In: []ir.Value{0}, Shape: []int{2}, Out: []int{2}, Norm: 1, Weight: ir.None, Bias: ir.None}}}}
		raw, err := Load(device.Rows{Count: n, Width: 2, Gather: device.Fractions, Targets: make([]float32, n)}, make(device.Bytes, 2*n))
		if err != nil {
			t.Fatal(err)
		}
		asked, seen := 0, []int{}
		o := device.MapOptions{Stopped: func() error { asked++; return nil }, Progress: func(p int) { seen = append(seen, p) }}
		if _, err := Open().Map(front, raw, o); err != nil || asked != parts {
			t.Errorf("among %d records it asks %d times: %v", n, asked, err)
		}
		for i, p := range seen {
			if p != i+1 || len(seen) != 100 {
				t.Fatalf("report %d of %d is %d", i, len(seen), p)
			}
		}
	}
}

// Ops without a gradient, at numbers small enough to compute by hand.
func TestMaps(t *testing.T) {
	image := []float64{1, 2, 3, 4, 5, 6} // 2 rows of 3
	shape := []int{1, 2, 3}
	square := func(h, w int) ir.Window {
		return ir.Window{H: h, W: w, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}
	}
	for _, c := range []struct {
		name      string
		op        ir.Op
		input     []float64
		in        []int
		constants []float64
		shapes    [][]int
		want      []float64
	}{
		{name: "reflect", op: ir.Op{Kind: ir.Reflect, Out: []int{1, 3, 5}, Window: ir.Window{PadBottom: 1, PadLeft: 2}}, input: image, in: shape,
			want: []float64{3, 2, 1, 2, 3, 6, 5, 4, 5, 6, 3, 2, 1, 2, 3}},
		{name: "planes", op: ir.Op{Kind: ir.Planes, Out: []int{4, 1, 1}, Window: square(1, 3)}, input: image, in: []int{2, 1, 3},
			constants: []float64{1, 0, -1, 1, 1, 1}, shapes: [][]int{{2, 1, 1, 3}}, want: []float64{-2, 6, -2, 15}},
		{name: "modulus", op: ir.Op{Kind: ir.Modulus, Groups: 2, Out: []int{2, 1, 2}}, input: []float64{3, 0, 4, -2, 5, 8, 12, 15}, in: []int{4, 1, 2},
			want: []float64{5, 2, 13, 17}},
		{name: "concat", op: ir.Op{Kind: ir.Concat, In: []ir.Value{0, 0}, Groups: 3, Out: []int{12}}, input: image, in: []int{12},
			want: []float64{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}},
		{name: "pick", op: ir.Op{Kind: ir.Pick, Index: []int32{5, 0, 0}, Out: []int{3}}, input: image, in: shape, want: []float64{6, 1, 1}},
		{name: "affine", op: ir.Op{Kind: ir.Affine, Out: shape, Bias: 1}, input: image, in: shape,
			constants: []float64{10, 1, 0, -1, -2}, shapes: [][]int{{2, 1}, {3}}, want: []float64{10, 19, 28, 4, 4, 4}},
		{name: "contrast", op: ir.Op{Kind: ir.Contrast, Out: []int{1, 1, 2}, Window: square(1, 2), Epsilon: 2}, input: []float64{1, 1, 5, 3, 3, 3}, in: []int{2, 1, 3},
			want: []float64{math.Sqrt(3), 2}}, // of 1 1 3 3 and of 1 5 3 3
		{name: "divide", op: ir.Op{Kind: ir.Divide, In: []ir.Value{0, 1}, Out: []int{2, 1, 3}}, input: image, in: []int{2, 1, 3},
			want: []float64{1, 1, 1, 4, 2.5, 2}},
		{name: "unit", op: ir.Op{Kind: ir.Unit, Norm: 10, Out: []int{2}}, input: []float64{3, -4}, in: []int{2}, want: []float64{6, -8}},
		{name: "unit of zeros", op: ir.Op{Kind: ir.Unit, Norm: 10, Out: []int{2}}, input: []float64{0, 0}, in: []int{2}, want: []float64{0, 0}},
		{name: "deskew of a row", op: ir.Op{Kind: ir.Deskew, Out: shape}, input: []float64{0, 0, 0, 1, 0, 1}, in: shape, want: []float64{0, 0, 0, 1, 0, 1}},
		// Two pixels: heights ∓½, places ∓1. The covariance is 1, the variance ½ + 2·0.1: rows move by ∓1/1.4.
		{name: "deskew", op: ir.Op{Kind: ir.Deskew, Out: shape}, input: []float64{1, 0, 0, 0, 0, 1}, in: shape,
			want: []float64{1 - 1/1.4, 1 / 1.4, 0, 0, 1 / 1.4, 1 - 1/1.4}},
	} {
		p := &ir.Program{Name: c.name, Shape: []int{len(c.input)}}
		if c.op.Shape = c.in; c.op.In == nil {
			c.op.In = []ir.Value{ir.Input}
		}
		if len(c.shapes) < 2 {
			c.op.Bias = ir.None
		}
		if len(c.shapes) == 0 {
			c.op.Weight = ir.None
		}
		for _, s := range c.shapes {
			p.Params = append(p.Params, ir.Param{Shape: s, Offset: p.NumParams()})
		}
		if c.op.Kind == ir.Divide { // by its own first channel
			p.Ops = append(p.Ops, ir.Op{Kind: ir.Pick, In: []ir.Value{0}, Shape: []int{6}, Out: []int{3}, Index: []int32{0, 1, 2}, Weight: ir.None, Bias: ir.None})
		}
		p.Ops = append(p.Ops, c.op)
		if err := p.ValidateMap(); err != nil {
			t.Error(err)
			continue
		}
		got := Values(p, c.constants, c.input, device.Float32)[p.Logits()]
		// Sums of a few terms below 20, in float64.
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-14*20 }) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
