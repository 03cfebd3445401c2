package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

func vectorOp(kind ir.Kind, n int) *ir.Op {
	return &ir.Op{Kind: kind, Shape: []int{n}, Out: []int{n}, Weight: ir.None, Bias: ir.None, Slope: 0.1}
}

// ulp is the distance of the float32 values about x.
func ulp(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-24, -149))
}

func sigmoid(x float64) float64 {
	if x < 0 {
		return math.Exp(x) / (1 + math.Exp(x))
	}
	return 1 / (1 + math.Exp(-x))
}

func TestActivations(t *testing.T) {
	inf := float32(math.Inf(1))
	x := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 88.7, -88.7, 103, -103, -104, 105, -105, inf, -inf, nan32, math.MaxFloat32, -math.MaxFloat32,
		0x1p-149, -0x1p-149, 0x1p-126, 0.625, 0.6249999, -0.625, 9.01, 10, 9.999, -87.4, 1e-5}
	for e := -30; e < 7; e++ {
		for i := range 48 {
			v := float32(math.Ldexp(1+float64(i)/48+0.003, e))
			x = append(x, v, -v)
		}
	}
	for v := float32(-20); v < 20; v += 0.037 {
		x = append(x, v)
	}
	for _, c := range []struct {
		kind ir.Kind
		f    func(float64) float64
		ulps float64
	}{
		{ir.ReLU, func(v float64) float64 { return max(v, 0) }, 0},
		{ir.LeakyReLU, func(v float64) float64 { return max(v, float64(float32(0.1))*v) }, 0.5},
		{ir.Tanh, math.Tanh, TanhError},
		{ir.Sigmoid, sigmoid, SigmoidError},
	} {
		m := newMachine(t)
		y := m.floats(fill(len(x), untouched))
		l, err := Activation(m.batch(size{1, 1}), vectorOp(c.kind, len(x)), m.floats(x), y)
		if err != nil {
			t.Fatal(err)
		}
		m.launch(l)
		worst, at := 0.0, float32(0)
		for i, got := range m.read(y, len(x)) {
			want := c.f(float64(x[i]))
			if x[i] != x[i] {
				if got == got {
					t.Errorf("%s of NaN is %v", c.kind, got)
				}
				continue
			}
			d := math.Abs(float64(got)-want) / ulp(want)
			if d > worst {
				worst, at = d, x[i]
			}
		}
		t.Logf("%s errs by %.2f units in the last place, at %v", c.kind, worst, at)
		if worst > c.ulps {
			t.Errorf("%s errs by %.2f units in the last place at %v, more than %v", c.kind, worst, at, c.ulps)
		}
	}
}

func TestActivationGradients(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	const n = 103
	for _, s := range []size{{5, 7}, {0, 2}, {3, 3}} {
		for kind, f := range map[ir.Kind]func(y float64) float64{
			ir.ReLU: func(y float64) float64 {
				if y > 0 {
					return 1
				}
				return 0
			},
			ir.LeakyReLU: func(y float64) float64 {
				if y > 0 {
					return 1
				}
				return float64(float32(0.1))
			},
			ir.Tanh:    func(y float64) float64 { return 1 - y*y },
			ir.Sigmoid: func(y float64) float64 { return y * (1 - y) },
		} {
			y, dy := make([]float32, s.capacity*n), spoil(normals(rng, s.capacity*n), s.live, s.capacity)
			for i := range y {
				y[i] = rng.Float32()
				if i%3 == 0 {
					y[i] = 0
				}
			}
			spoil(y, s.live, s.capacity)
			m := newMachine(t)
			op, b, yAt, dyAt := vectorOp(kind, n), m.batch(s), m.floats(y), m.floats(dy)
			for _, add := range []bool{false, true} {
				dx := m.floats(fill(s.capacity*n, 0.5))
				l, err := ActivationGrad(b, op, yAt, dyAt, dx, add)
				if err != nil {
					t.Fatal(err)
				}
				m.launch(l)
				want := make([]truth, s.live*n)
				for i := range want {
					slope := f(float64(y[i]))
					want[i].add(slope, float64(dy[i]))
					if add {
						want[i].add(0.5)
					}
				}
				near(t, kind.String(), m.read(dx, s.live*n), want, 3)
				same(t, kind.String()+": dead", m.read(dx, s.capacity*n)[s.live*n:], fill((s.capacity-s.live)*n, 0.5))
			}
		}
	}
}

func TestAdd(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	const n = 300
	for _, s := range []size{{2, 3}, {0, 1}} {
		x0, x1 := spoil(normals(rng, s.capacity*n), s.live, s.capacity), spoil(normals(rng, s.capacity*n), s.live, s.capacity)
		m := newMachine(t)
		op, b, at0, at1 := vectorOp(ir.Add, n), m.batch(s), m.floats(x0), m.floats(x1)
		y, dx := m.floats(fill(s.capacity*n, untouched)), m.floats(fill(s.capacity*n, untouched))
		m.launch(Add(b, op, at0, at1, y))
		m.launch(AddGrad(b, op, at0, dx, false))
		m.launch(AddGrad(b, op, at1, dx, true))
		want := fill(s.capacity*n, untouched)
		for i := range s.live * n {
			want[i] = x0[i] + x1[i]
		}
		same(t, "sum", m.read(y, len(want)), want)
		same(t, "gradient that came twice", m.read(dx, len(want)), want)
	}
}

func TestActivationOfAnotherOp(t *testing.T) {
	for _, kind := range []ir.Kind{ir.Dense, ir.Add} {
		if _, err := Activation(Batch{}, vectorOp(kind, 1), 0, 0); err == nil {
			t.Errorf("%s is taken for an activation", kind)
		}
		if _, err := ActivationGrad(Batch{}, vectorOp(kind, 1), 0, 0, 0, false); err == nil {
			t.Errorf("%s is taken for an activation", kind)
		}
	}
}
