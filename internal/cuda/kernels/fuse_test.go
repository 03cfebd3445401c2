package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// fusing holds the two launches of an op and an activation beside the one that does both.
type fusing struct {
	t    *testing.T
	m    *machine
	b    Batch
	s    size
	name string
}

// forward compares y of an op, then activated, with what the fused launch gives.
func (f *fusing) forward(op *ir.Op, act ir.Kind, alone func(y Ptr) Launch, fused func(y Ptr) Launch) {
	f.t.Helper()
	n := ir.Size(op.Out)
	y, want, got := f.m.empty(f.s.capacity*n), f.m.empty(f.s.capacity*n), f.m.empty(f.s.capacity*n)
	f.m.launch(alone(y))
	f.m.launch(activation(f.t, Activation)(f.b, &ir.Op{Kind: act, Out: op.Out}, y, want))
	f.m.launch(fused(got))
	same(f.t, fmt.Sprintf("%s and %s: y", f.name, act), f.m.read(got, f.s.live*n), f.m.read(want, f.s.live*n))
}

// backward compares dx of an op, passed through the activation that gave x, with what the fused launch gives.
func (f *fusing) backward(op *ir.Op, act ir.Kind, x Ptr, alone func(dx Ptr) Launch, fused func(dx Ptr) Launch) {
	f.t.Helper()
	n := ir.Size(op.Shape)
	dx, want, got := f.m.empty(f.s.capacity*n), f.m.empty(f.s.capacity*n), f.m.empty(f.s.capacity*n)
	f.m.launch(alone(dx))
	l, err := ActivationGrad(f.b, &ir.Op{Kind: act, Out: op.Shape}, x, dx, want, false)
	if err != nil {
		f.t.Fatal(err)
	}
	f.m.launch(l)
	f.m.launch(fused(got))
	same(f.t, fmt.Sprintf("%s and %s: dx", f.name, act), f.m.read(got, f.s.live*n), f.m.read(want, f.s.live*n))
}

func activation(t *testing.T, f func(Batch, *ir.Op, Ptr, Ptr) (Launch, error)) func(Batch, *ir.Op, Ptr, Ptr) Launch {
	return func(b Batch, op *ir.Op, x, y Ptr) Launch {
		l, err := f(b, op, x, y)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

var activations = []ir.Kind{ir.ReLU, ir.Tanh, ir.Sigmoid}

// Fusing changes no bit.
func TestFusedActivations(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	eachDense(func(name string, c denseCase) {
		if c.live == 0 {
			return
		}
		op := denseOp(c.in, c.out, c.bias)
		m := newMachine(t)
		f := fusing{t, m, m.batch(c.size), c.size, name}
		x, dy := m.floats(spoil(normals(rng, c.capacity*c.in), c.live, c.capacity)), m.floats(spoil(normals(rng, c.capacity*c.out), c.live, c.capacity))
		w, bias := m.floats(normals(rng, c.in*c.out)), Ptr(0)
		if c.bias {
			bias = m.floats(normals(rng, c.out))
		}
		for _, act := range activations {
			if !FusesForward(op, act) || !FusesBackward(op, act) {
				t.Fatalf("%s: it is not fused with %s", name, act)
			}
			f.forward(op, act, func(y Ptr) Launch { return DenseForward(f.b, op, x, w, bias, y) },
				func(y Ptr) Launch { return DenseActivated(f.b, op, act, x, w, bias, y) })
			f.backward(op, act, x, func(dx Ptr) Launch { return DenseInputGrad(f.b, op, dy, w, dx, false) },
				func(dx Ptr) Launch { return DenseInputGradThrough(f.b, op, act, x, dy, w, dx) })
		}
	})
	eachConv(t, 12, func(t *testing.T, _ *rand.Rand, c *convCase) {
		if c.s.live == 0 {
			return
		}
		m := newMachine(t)
		f := fusing{t, m, m.batch(c.s), c.s, "conv"}
		x, dy, w, bias := m.floats(c.x), m.floats(c.dy), m.floats(c.w), Ptr(0)
		if c.op.Bias != ir.None {
			bias = m.floats(c.bias)
		}
		f.forward(c.op, ir.ReLU, func(y Ptr) Launch { return ConvForward(f.b, c.op, x, w, bias, y) },
			func(y Ptr) Launch { return ConvActivated(f.b, c.op, ir.ReLU, x, w, bias, y) })
		f.backward(c.op, ir.ReLU, x, func(dx Ptr) Launch { return ConvInputGrad(f.b, c.op, dy, w, dx, false) },
			func(dx Ptr) Launch { return ConvInputGradThrough(f.b, c.op, x, dy, w, dx) })
		if FusesForward(c.op, ir.Tanh) {
			t.Error("a convolution is said to fuse tanh")
		}
	})
	for _, win := range poolWindows {
		for _, act := range activations {
			s := size{2, 3}
			m := newMachine(t)
			f := fusing{t, m, m.batch(s), s, fmt.Sprintf("pool %+v", win)}
			op := imageOp(ir.MaxPool, 2, 6, 5, 2, win, false)
			x, dy := m.floats(spoil(normals(rng, s.capacity*60), s.live, s.capacity)), m.floats(normals(rng, s.capacity*ir.Size(op.Out)))
			f.backward(op, act, x, func(dx Ptr) Launch { return MaxPoolGrad(f.b, op, x, dy, dx, false) },
				func(dx Ptr) Launch { return PoolGradThrough(f.b, op, act, x, dy, dx) })
			mean := *op
			mean.Kind = ir.AvgPool
			f.backward(&mean, act, x, func(dx Ptr) Launch { return AvgPoolGrad(f.b, &mean, dy, dx, false) },
				func(dx Ptr) Launch { return PoolGradThrough(f.b, &mean, act, x, dy, dx) })
		}
	}
}
