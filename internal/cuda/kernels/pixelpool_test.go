package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// poolValues have many ties, and numbers that are none in the first and in a later place.
func (w *twin) poolValues(rng *rand.Rand, shape []int) (planes, pixels Ptr) {
	n := ir.Size(shape)
	x := make([]float32, w.s.capacity*n)
	for i := range x {
		x[i] = float32(rng.IntN(4))
	}
	if w.s.live == 3 {
		x[n], x[n+5] = nan32, nan32
	}
	return w.value(shape, x)
}

func TestPixelPools(t *testing.T) {
	windows := append([]ir.Window{{H: 6, W: 8, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}}, poolWindows...)
	eachTwin(t, func(w *twin, rng *rand.Rand, name string) {
		for i, win := range windows {
			for _, kind := range []ir.Kind{ir.MaxPool, ir.AvgPool} {
				channels := []int{3, 8, 17, 24, 1, 16, 12}[i]
				w.pool(imageOp(kind, channels, 6, 8, channels, win, false), rng, fmt.Sprintf("%s, %+v, %s", name, win, kind))
			}
		}
		whole := ir.Window{H: 3, W: 2, StrideH: 3, StrideW: 2, DilationH: 1, DilationW: 1}
		for _, channels := range []int{6, 24, 260} { // the last is more than a block has
			w.pool(imageOp(ir.MaxPool, channels, 3, 2, channels, whole, false), rng, fmt.Sprint(name, ", maximum of all, ", channels))
			w.pool(imageOp(ir.AvgPool, channels, 3, 2, channels, whole, false), rng, fmt.Sprint(name, ", mean of all, ", channels))
		}
	})
}

// pool compares an op with that in planes. Means of a whole image add in another order.
func (w *twin) pool(op *ir.Op, rng *rand.Rand, name string) {
	x, xs := w.poolValues(rng, op.Shape)
	d, ds := w.random(rng, op.Out)
	forward, back := MaxPool, func(dx Ptr, add bool) Launch { return MaxPoolGrad(w.b, op, x, d, dx, add) }
	of, ofBack := w.k.MaxPool, func(dx Ptr, add bool) Launch { return w.k.MaxPoolGrad(w.b, op, xs, ds, dx, add) }
	if op.Kind == ir.AvgPool {
		forward, back = AvgPool, func(dx Ptr, add bool) Launch { return AvgPoolGrad(w.b, op, d, dx, add) }
		of, ofBack = w.k.AvgPool, func(dx Ptr, add bool) Launch { return w.k.AvgPoolGrad(w.b, op, ds, dx, add) }
	}
	w.both(name, op.Out, false, func(y Ptr) Launch { return forward(w.b, op, x, y) }, func(y Ptr) Launch { return of(w.b, op, xs, y) })
	for _, add := range halves {
		w.both(name+", back", op.Shape, add, func(dx Ptr) Launch { return back(dx, add) }, func(dx Ptr) Launch { return ofBack(dx, add) })
	}
	for _, act := range activations {
		w.both(fmt.Sprint(name, ", back through ", act), op.Shape, false, func(dx Ptr) Launch { return PoolGradThrough(w.b, op, act, x, d, dx) },
			func(dx Ptr) Launch { return w.k.PoolGradThrough(w.b, op, act, xs, ds, dx) })
	}
}
