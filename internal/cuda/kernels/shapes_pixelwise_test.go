package kernels

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// TestRealShapesOfPixels takes kernels between products through some blocks of large batches, in tf32: bf16 differs in nothing but how values are read and
// written.
func TestRealShapesOfPixels(t *testing.T) {
	k := Math(device.TF32)
	s := newWide(t, k, 4096)
	const rounding = 0x1p-11
	shape := []int{64, 32, 32}
	n, c := area(shape)
	all, size := s.b.Capacity*ir.Size(shape), ir.Size(shape)
	x, dy, y, planes := s.floats(all), s.floats(all), s.floats(all), s.floats(all)
	// of an element in pixels, and where it is in planes
	turned := func(e int) int { return e%c*n + e/c }
	one := func(v float64) (t total) {
		t.add(v)
		return t
	}
	relu := &ir.Op{Kind: ir.ReLU, Shape: shape, Out: shape}
	s.check(must(t)(k.Activation(s.b, relu, x.Ptr, y.Ptr)), result{place: y, name: "ReLU", row: size, bound: rounding,
		want: func(b, e int) total { return one(max(x.at(b*size+e), 0)) }})
	s.check(k.ToPixels(s.b, shape, planes.Ptr, y.Ptr, false), result{place: y, name: "to pixels", row: size, bound: rounding,
		want: func(b, e int) total { return one(planes.at(b*size + turned(e))) }})
	back := func(b, e int) total { return one(x.at(b*size + e%n*c + e/n)) }
	s.check(k.FromPixels(s.b, shape, x.Ptr, planes.Ptr, false), result{place: planes, name: "from pixels", row: size, want: back})
	s.check(k.Flat(s.b, shape, x.Ptr, planes.Ptr), result{place: planes, name: "flat", row: size, bound: rounding, want: back})

	pool := imageOp(ir.MaxPool, 64, 32, 32, 64, ir.Square(2, 2, 0), false)
	half := s.floats(all / 4)
	largest := func(b, e int) float64 {
		p, most := e/c, math.Inf(-1)
		for i := range 4 {
			most = max(most, x.at(b*size+((p/16*2+i/2)*32+p%16*2+i%2)*c+e%c))
		}
		return most
	}
	s.check(k.MaxPool(s.b, pool, x.Ptr, half.Ptr), result{place: half, name: "maximum", row: size / 4, bound: rounding,
		want: func(b, e int) total { return one(largest(b, e)) }})
	s.check(k.MaxPoolGrad(s.b, pool, x.Ptr, half.Ptr, y.Ptr, false), result{place: y, name: "gradient of the maximum", row: size, bound: rounding,
		want: func(b, e int) total {
			p := e / c
			out := (p/32/2*16+p%32/2)*c + e%c
			if largest(b, out) != x.at(b*size+e) {
				return one(0)
			}
			return one(half.at(b*size/4 + out))
		}})

	op := normOp(16, true, shape...)
	w, bias, own, moments := s.floats(c), s.floats(c), s.floats(s.b.Capacity*MomentBytes(op)/4), s.floats(s.b.Capacity*MomentBytes(op)/4)
	group := size / op.Groups
	s.check(k.GroupNormActivated(s.b, op, noActivation, x.Ptr, w.Ptr, bias.Ptr, y.Ptr, own.Ptr), result{place: y, name: "normalized", row: size, bound: rounding,
		want: func(b, e int) (t total) {
			values := make([]float32, group)
			for i := range values {
				values[i] = float32(x.at(b*size + i/4*c + e%c/4*4 + i%4)) // four channels
			}
			hat, _ := normalized(&ir.Op{Groups: 1, Epsilon: op.Epsilon}, values)
			t.add(hat[e/c*4+e%4] * w.at(e%c))
			t.add(bias.at(e % c))
			return t
		}})
	kept := s.floats(s.b.Capacity * 1000)
	way := NormBack{X: x.Ptr, Dy: dy.Ptr, Weight: w.Ptr, Moments: moments.Ptr, Kept: kept.Ptr + 4*500, Stride: 1000}
	s.check(k.GroupNormBackward(s.b, op, way), result{place: kept, name: "kept", row: 1000, skip: 500, bound: 24 * unit, want: func(b, e int) (t total) {
		m := 2 * (b*op.Groups + e%c/4)
		for p := range n {
			d := dy.at(b*size + p*c + e%c)
			if e < c {
				d *= (x.at(b*size+p*c+e%c) - moments.double(m)) * moments.double(m+1)
			}
			t.add(d)
		}
		return t
	}})
}
