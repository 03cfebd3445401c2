package devicetest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
)

// vectorClaims are about sums and inner products of vectors.
var vectorClaims = claims[site]{{"Axpy and Dot", testAxpyDot}, {"recordings that are refused", testVectorRecordings}}

func testVectors(t *testing.T, d device.Device) {
	for _, c := range []*Case{NewCase(t, program("thrice"), 1, 33), wide(t)} {
		t.Run(c.Program.Name, func(t *testing.T) { vectorClaims.run(t, c.on(t, d, 1)) })
	}
}

// testAxpyDot compares with loops in float64.
func testAxpyDot(t *testing.T, s site) {
	x := s.open(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, width := range []int{0, 1, 3} { // 0: scalars
		size := 5000
		if width > 0 {
			size = width * x.size
		}
		vec := func() (v device.Vector, values []float32) {
			if v = x.vector(t, max(width, 1)); width == 0 {
				v = x.scalars(t, size)
			}
			values = normals(rnd, size, 1)
			must(t, x.Net.Write(v, values))
			return v, values
		}
		v, a := vec()
		w, b := vec()
		step := x.record(t, func(q device.Queue) {
			q.Dot(v, w)
			q.Axpy(w, device.Along, v)
			q.Dot(w, w)
		})
		out := ran(t, step, &device.Inputs{Scalars: [device.Slots]float32{device.Along: -0.3}})
		sum := make([]float32, size)
		var vw, ww, size2 float64
		for i := range sum {
			y := float64(b[i]) + float64(float32(-0.3))*float64(a[i])
			sum[i] = float32(y)
			vw, ww, size2 = vw+float64(a[i])*float64(b[i]), ww+y*y, size2+math.Abs(float64(a[i])*float64(b[i]))
		}
		Near(t, x.values(t, w, size), sum, 2e-7)
		Same(t, x.values(t, v, size), a)
		if len(out.Dots) != 2 || math.Abs(out.Dots[0]-vw) > 1e-12*size2 || math.Abs(out.Dots[1]-ww) > 2e-7*ww {
			t.Errorf("%d values: inner products %v, want [%v %v]", size, out.Dots, vw, ww)
		}
		again := ran(t, step, &device.Inputs{})
		if len(again.Dots) != 2 || again.Dots[1] != out.Dots[1] || out.Dots[0] == again.Dots[0] {
			t.Errorf("run again without a multiple: inner products %v after %v", again.Dots, out.Dots)
		}
	}
}

func testVectorRecordings(t *testing.T, s site) {
	x := s.open(t)
	few := x.scalars(t, 2)
	x.refuses(t, recordings{
		"widths that differ":             func(q device.Queue) { q.Axpy(x.Out, device.Along, few) },
		"widths of a product":            func(q device.Queue) { q.Dot(few, x.Out) },
		"no such vector":                 func(q device.Queue) { q.Dot(x.Out, 99) },
		"no such vector to add to":       func(q device.Queue) { q.Axpy(99, device.Along, x.Out) },
		"a scalar that there is none of": func(q device.Queue) { q.Axpy(x.Out, device.Slots, x.Out) },
	})
}
