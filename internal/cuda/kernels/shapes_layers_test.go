package kernels

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// TestRealShapesOfLayers takes what no convolutional network has through some blocks of large batches.
func TestRealShapesOfLayers(t *testing.T) {
	for _, l := range [][2]int{{64, 64}, {1, 2048}} {
		newWide(t, Math(device.Float32), 4096).layerNorm(l[0], l[1], 50000, 600000)
	}
	newWide(t, Math(device.Float32), 4096).gelu(16384)
	newWide(t, Math(device.Float32), 4096).standardize(64, 576, 50000, 600000)
}

func (s *wide) layerNorm(rows, n, keptAt, stride int) {
	all := s.b.Capacity * rows * n
	x, dy, y, dx := s.floats(all), s.floats(all), s.floats(all), s.floats(all)
	weight, bias, own, moments := s.floats(n), s.floats(n), s.floats(4*s.b.Capacity*rows), s.floats(4*s.b.Capacity*rows)
	op := layerOp(rows, n, true)
	one := &ir.Op{Groups: 1, Epsilon: op.Epsilon}
	s.check(LayerNorm(s.b, op, x.Ptr, weight.Ptr, bias.Ptr, y.Ptr, own.Ptr), result{place: y, name: "y", row: rows * n, bound: 0x1p-22,
		want: func(b, e int) (t total) {
			row := make([]float32, n)
			for j := range row {
				row[j] = float32(x.at(b*rows*n + e/n*n + j))
			}
			hat, _ := normalized(one, row)
			t.add(hat[e%n] * weight.at(e%n))
			t.add(bias.at(e % n))
			return t
		}})
	// hat is an element normalized by moments that nobody has computed.
	hat := func(b, e int) (value, scale float64) {
		at := 2 * (b*rows + e/n)
		scale = moments.double(at + 1)
		return (x.at(b*rows*n+e) - moments.double(at)) * scale, scale
	}
	kept, norm2 := s.floats(s.b.Capacity*stride), s.zeros(2*s.b.Capacity*LayerNormNorms(op))
	way := NormBack{X: x.Ptr, Dy: dy.Ptr, Weight: weight.Ptr, Moments: moments.Ptr, Dx: dx.Ptr, Kept: kept.Ptr + Ptr(4*keptAt), Stride: stride, Norm2: norm2.Ptr}
	s.check(LayerNormBackward(s.b, op, way), result{place: dx, name: "dx", row: rows * n, bound: 0x1p-20,
		want: func(b, e int) (t total) {
			var mean, slope float64
			for j := range n {
				v, _ := hat(b, e/n*n+j)
				g := dy.at(b*rows*n+e/n*n+j) * weight.at(j) / float64(n)
				mean, slope = mean+g, slope+g*v
			}
			v, scale := hat(b, e)
			t.add(dy.at(b*rows*n+e) * weight.at(e%n) * scale)
			t.add(-mean * scale)
			t.add(-v * slope * scale)
			return t
		}},
		result{place: kept, name: "kept", row: stride, skip: keptAt, bound: 0x1p-19, want: func(b, e int) (t total) {
			for r := range rows {
				d := dy.at((b*rows+r)*n + e%n)
				if v, _ := hat(b, r*n+e%n); e < n {
					d *= v
				}
				t.add(d)
			}
			return t
		}})
}

func (s *wide) gelu(n int) {
	x, dy, y, dx := s.floats(s.b.Capacity*n), s.floats(s.b.Capacity*n), s.floats(s.b.Capacity*n), s.floats(s.b.Capacity*n)
	s.check(GELU(s.b, n, x.Ptr, y.Ptr), result{place: y, name: "y", row: n, bound: 2 * GELUError * unit, want: func(b, e int) (t total) {
		v, _, _ := geluTruth(x.at(b*n + e))
		t.add(v)
		return t
	}})
	s.check(GELUGrad(s.b, n, x.Ptr, dy.Ptr, dx.Ptr, false), result{place: dx, name: "dx", row: n, bound: 2 * (GELUGradError + 1) * unit, want: func(b, e int) total {
		_, slope, size := geluTruth(x.at(b*n + e))
		d := dy.at(b*n + e)
		return total{d * slope, math.Abs(d) * size}
	}})
}

func (s *wide) standardize(out, k, keptAt, stride int) {
	w, gain, made, own, moments := s.floats(out*k), s.floats(out), s.floats(out*k), s.floats(6*out), s.floats(6*out)
	filter := func(at func(int) float64, o int) []float64 {
		row := make([]float64, k)
		for j := range row {
			row[j] = at(o*k + j)
		}
		return row
	}
	s.check(Standardize(out, k, w.Ptr, gain.Ptr, made.Ptr, own.Ptr, 0), result{place: made, name: "W", row: k, bound: 0x1p-23, want: func(o, j int) (t total) {
		row := filter(w.at, o)
		mean, scale, _ := channel(row)
		t.add(gain.at(o) * (row[j] - mean) * scale)
		return t
	}})
	kept, norm2 := s.floats(s.b.Capacity*stride), s.zeros(2*s.b.Capacity)
	s.check(StandardizeGrad(s.b, out, k, out, w.Ptr, gain.Ptr, moments.Ptr, kept.Ptr+Ptr(4*keptAt), stride, norm2.Ptr),
		result{place: kept, name: "kept", row: stride, skip: keptAt, bound: 0x1p-22, want: func(b, e int) (t total) {
			o, room := e/k, e >= out*k
			if room {
				o = e - out*k - out
			}
			mean, scale, squares := moments.double(3*o), moments.double(3*o+1), moments.double(3*o+2)
			g := filter(func(i int) float64 { return kept.at(b*stride + keptAt + i) }, o)
			var sum, slope total
			for j, v := range g {
				sum.add(v / float64(k))
				slope.add(v * (w.at(o*k+j) - mean) * scale)
			}
			if room {
				return slope
			}
			t.add(gain.at(o) * scale * g[e%k])
			t.add(-gain.at(o) * scale * sum.sum)
			if squares > standardizeFloor {
				t.add(-gain.at(o) * scale * (w.at(e) - mean) * scale * slope.sum)
			}
			return t
		}})
}
