package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// A stencil has the bits of the kernels for any window, whatever it leaves out and whichever examples share a block.
func TestStencil(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	centered := ir.Square(3, 1, 1)
	valid, tall := centered, ir.Square(5, 1, 0)
	valid.PadTop, valid.PadBottom, tall.PadTop, tall.PadBottom = 0, 3, 2, 1
	for _, c := range []convShape{
		{size{5, 6}, 2, 8, 8, 34, centered, true},
		{size{3, 3}, 34, 5, 8, 40, valid, false},
		{size{2, 3}, 6, 9, 16, 3, centered, true},
		{size{1, 2}, 33, 6, 16, 70, centered, false},
		{size{3, 4}, 9, 4, 14, 35, centered, true},
		{size{11, 13}, 5, 1, 3, 2, centered, true},
		{size{1, 1}, 3, 5, 32, 32, valid, true},
		{size{2, 2}, 1, 3, 45, 33, centered, false},
		{size{1, 1}, 1, 2, 128, 64, centered, false},
		{size{0, 3}, 2, 8, 8, 2, centered, true},
		{size{1, 1}, 2, 2, 129, 2, centered, true}, // too wide
		{size{4, 5}, 1, 9, 12, 6, ir.Square(5, 1, 0), true},
		{size{2, 3}, 6, 12, 12, 17, ir.Square(5, 1, 0), false},
		{size{3, 3}, 17, 8, 7, 9, tall, true},
	} {
		op := imageOp(ir.Conv, c.channels, c.h, c.w, c.out, c.window, c.bias)
		t.Run(fmt.Sprintf("%v, %v to %v", c.size, op.Shape, op.Out), func(t *testing.T) {
			m := newMachine(t)
			in, out := ir.Size(op.Shape), ir.Size(op.Out)
			b, bias := m.batch(c.size), Ptr(0)
			if c.bias {
				bias = m.floats(normals(rng, c.out))
			}
			x := m.floats(spoil(normals(rng, c.capacity*in), c.live, c.capacity))
			dy := m.floats(spoil(normals(rng, c.capacity*out), c.live, c.capacity))
			w := m.floats(normals(rng, op.Window.H*op.Window.W*c.channels*c.out))
			before := normals(rng, c.capacity*max(in, out))
			check := func(what string, n int, launch, want func(to Ptr) Launch) {
				t.Helper()
				to, other := m.floats(before), m.floats(before)
				if module := launch(to).Module; (module == "stencil") != (c.w <= 128) {
					t.Fatalf("%s is of module %s", what, module)
				}
				m.launch(launch(to))
				m.launch(want(other))
				same(t, what, m.read(to, c.capacity*n), m.read(other, c.capacity*n))
			}
			for _, act := range []ir.Kind{noActivation, ir.ReLU} {
				check("y", out, func(y Ptr) Launch { return ConvActivated(b, op, act, x, w, bias, y) },
					func(y Ptr) Launch { return columnsForward(b, op, act, x, w, bias, y) })
			}
			for _, add := range []bool{false, true} {
				for _, through := range []Ptr{0, x} {
					check("dx", in, func(dx Ptr) Launch { return convInputGrad(b, op, dy, w, dx, add, through) },
						func(dx Ptr) Launch { return columnsInputGrad(b, op, dy, w, dx, add, through) })
				}
			}
		})
	}
}

// What becomes of an example does not depend on its row, even if a weight is infinite and meets padding.
func TestStencilOfInfiniteWeights(t *testing.T) {
	const examples = 9
	rng := rand.New(rand.NewPCG(15, 2))
	op := imageOp(ir.Conv, 1, 21, 20, 32, ir.Square(3, 1, 1), false)
	m := newMachine(t)
	b, in, out := m.batch(size{examples, examples}), ir.Size(op.Shape), ir.Size(op.Out)
	one, w := normals(rng, in), normals(rng, 9*32)
	w[1] = float32(math.Inf(-1)) // a tap of the row above
	var x []float32
	for range examples {
		x = append(x, one...)
	}
	y := m.empty(examples * out)
	l := ConvForward(b, op, m.floats(x), m.floats(w), 0, y)
	if l.Module != "stencil" {
		t.Fatalf("%s is no stencil", l.Name)
	}
	m.launch(l)
	all := m.read(y, examples*out)
	for e := 1; e < examples; e++ {
		same(t, fmt.Sprintf("example %d", e), all[e*out:][:out], all[:out])
	}
}

// Whatever the shape, a block has rows to compute, and no more shared memory than any GPU gives it.
func TestStencilMemory(t *testing.T) {
	for _, w := range []ir.Window{ir.Square(3, 1, 1), ir.Square(5, 1, 0)} {
		for cols := w.W; cols <= stencilThreads; cols++ {
			for _, rows := range []int{w.H, w.H + 1, 7, 64} {
				for _, planes := range []int{1, 4, 9, 64} {
					op := imageOp(ir.Conv, planes, rows, cols, planes, w, true)
					for _, l := range []Launch{ConvForward(Batch{Capacity: 300}, op, 0, 0, 0, 0), ConvInputGrad(Batch{Capacity: 300}, op, 0, 0, 0, false)} {
						if bundle, down := l.Args[8], l.Args[9]; bundle < 1 || down < 1 || l.Shared > optIn {
							t.Fatalf("%s of %v: %d rows of %d examples, %d bytes", l.Name, op.Shape, down, bundle, l.Shared)
						}
					}
				}
			}
		}
	}
}
