package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

var poolWindows = []ir.Window{
	ir.Square(2, 2, 0),
	ir.Square(2, 1, 0), // overlapping
	ir.Square(3, 2, 0),
	ir.Square(3, 1, 1),
	ir.Square(2, 3, 0), // leaves pixels out
	{H: 3, W: 2, StrideH: 2, StrideW: 1, PadTop: 2, PadBottom: 1, PadRight: 1, DilationH: 1, DilationW: 1},
}

func TestPools(t *testing.T) {
	for _, kind := range []ir.Kind{ir.MaxPool, ir.AvgPool} {
		for _, win := range poolWindows {
			testPools(t, imageOp(kind, 3, 7, 9, 3, win, false))
		}
		testPools(t, imageOp(kind, 3, 6, 8, 3, ir.Square(2, 2, 0), false)) // which fills the image
		testPools(t, imageOp(kind, 1, 2, 4, 1, ir.Square(2, 2, 0), false))
	}
}

func testPools(t *testing.T, op *ir.Op) {
	rng := rand.New(rand.NewPCG(10, 10))
	kind, win := op.Kind, op.Window
	for _, s := range []size{{3, 4}, {0, 1}, {2, 2}} {
		name := fmt.Sprintf("%s %v %+v %v", kind, op.Shape, win, s)
		in, out := ir.Size(op.Shape), ir.Size(op.Out)
		x, dy := make([]float32, s.capacity*in), spoil(normals(rng, s.capacity*out), s.live, s.capacity)
		for i := range x {
			x[i] = float32(rng.IntN(4)) // many ties
		}
		spoil(x, s.live, s.capacity)
		if kind == ir.MaxPool && s.live == 3 {
			x[in+5] = nan32 // never exceeds, and is never exceeded
		}
		m := newMachine(t)
		b, xAt, dyAt := m.batch(s), m.floats(x), m.floats(dy)
		y := m.floats(fill(s.capacity*out, untouched))
		dx, sum := m.floats(fill(s.capacity*in, untouched)), m.floats(fill(s.capacity*in, untouched))
		if kind == ir.MaxPool {
			m.launch(MaxPool(b, op, xAt, y))
			m.launch(MaxPoolGrad(b, op, xAt, dyAt, dx, false))
			m.launch(MaxPoolGrad(b, op, xAt, dyAt, sum, true))
		} else {
			m.launch(AvgPool(b, op, xAt, y))
			m.launch(AvgPoolGrad(b, op, dyAt, dx, false))
			m.launch(AvgPoolGrad(b, op, dyAt, sum, true))
		}
		wantY, wantX, wantSum := make([]truth, s.live*out), make([]truth, s.live*in), make([]truth, s.live*in)
		area := float64(win.H * win.W)
		for e := range s.live {
			best := make([]int, out)
			taps(op, func(o, i, k int) {
				if kind == ir.AvgPool {
					wantY[e*out+o].add(float64(x[e*in+i]) / area)
					wantX[e*in+i].add(float64(dy[e*out+o]) / area)
					return
				}
				if best[o] == 0 || x[e*in+i] > x[e*in+best[o]-1] {
					best[o] = i + 1
				}
			})
			for o, i := range best {
				if i > 0 {
					wantY[e*out+o].add(float64(x[e*in+i-1]))
					wantX[e*in+i-1].add(float64(dy[e*out+o]))
				}
			}
		}
		for i := range wantX {
			wantSum[i] = wantX[i]
			wantSum[i].add(untouched)
		}
		near(t, name+": y", m.read(y, len(wantY)), wantY, win.H*win.W)
		near(t, name+": dx", m.read(dx, len(wantX)), wantX, win.H*win.W)
		near(t, name+": dx added", m.read(sum, len(wantX)), wantSum, win.H*win.W+1)
		same(t, name+": dead y", m.read(y, s.capacity*out)[s.live*out:], fill((s.capacity-s.live)*out, untouched))
		same(t, name+": dead dx", m.read(dx, s.capacity*in)[s.live*in:], fill((s.capacity-s.live)*in, untouched))
	}
}
