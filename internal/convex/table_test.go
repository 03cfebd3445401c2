package convex

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// linear is a program of one dense op.
func linear(loss ir.Loss, inputs, outputs int, bias bool) *ir.Program {
	p := &ir.Program{
		Name: "linear", Shape: []int{inputs}, Loss: loss,
		Params: []ir.Param{{Name: "w", Shape: []int{outputs, inputs}}},
		Ops:    []ir.Op{{Kind: ir.Dense, In: []ir.Value{ir.Input}, Shape: []int{inputs}, Out: []int{outputs}, Bias: ir.None}},
	}
	if bias {
		p.Params = append(p.Params, ir.Param{Name: "b", Shape: []int{outputs}, Offset: inputs * outputs})
		p.Ops[0].Bias = 1
	}
	return p
}

var kinds = []struct {
	loss    ir.Loss
	outputs int
	target  func(r *rand.Rand) float32
}{
	{ir.Logistic, 1, sign}, {ir.HuberHinge, 1, sign},
	{ir.Huber, 1, func(r *rand.Rand) float32 { return r.Float32() }},
	{ir.SoftmaxCrossEntropy, 3, func(r *rand.Rand) float32 { return float32(r.IntN(3)) }},
}

func sign(r *rand.Rand) float32 { return float32(2*r.IntN(2) - 1) }

// random is a table of records, some of which are larger than the norm and some of which count as zero.
func random(t *testing.T, m *Model, r *rand.Rand, target func(*rand.Rand) float32, n, threads int) *Table {
	t.Helper()
	rows := device.Rows{Count: n, Width: m.Inputs}
	var x device.Floats
	for i := range n {
		for range m.Inputs {
			x = append(x, float32(r.NormFloat64()))
		}
		rows.Targets = append(rows.Targets, target(r))
		switch i % 10 {
		case 3:
			rows.Targets[i] = 77.5
			if m.Loss == ir.Huber {
				rows.Targets[i] = float32(math.Inf(1))
			}
		case 7:
			x[len(x)-1] = float32(math.NaN())
		}
	}
	table, err := NewTable(m, rows, x, 1, threads)
	check(t, err)
	return table
}

// The gradient of the sum of losses is its difference quotient, is the same on more threads, and no record's is above L
// or moves faster than β.
func TestGradient(t *testing.T) {
	for _, k := range kinds {
		for _, bias := range []bool{false, true} {
			m, err := Of(linear(k.loss, 5, k.outputs, bias))
			check(t, err)
			data := func(threads int) *Table { return random(t, m, rand.New(rand.NewPCG(1, 2)), k.target, 1200, threads) }
			table, r := data(1), rand.New(rand.NewPCG(3, 4))
			w, d := make([]float64, m.Params()), make([]float64, m.Params())
			for i := range w {
				w[i], d[i] = r.NormFloat64(), r.NormFloat64()
			}
			g, g4 := make([]float64, len(w)), make([]float64, len(w))
			table.Gradient(w, g)
			data(4).Gradient(w, g4)
			slope := 0.0
			for i := range g {
				slope += g[i] * d[i]
				if g[i] != g4[i] {
					t.Errorf("%v: coordinate %d is %v on one thread, %v on four", k.loss, i, g[i], g4[i])
				}
			}
			const h = 1e-5
			at := func(s float64) (sum float64) {
				moved, z := make([]float64, len(w)), make([]float64, m.Outputs)
				for i := range w {
					moved[i] = w[i] + s*d[i]
				}
				for i := range 1200 {
					if table.counts(i) {
						sum += table.loss(moved, z, i)
					}
				}
				return sum
			}
			if quotient := (at(h) - at(-h)) / (2 * h); math.Abs(quotient-slope) > 1e-4*(1+math.Abs(slope)) {
				t.Errorf("%v: slope %v, difference quotient %v", k.loss, slope, quotient)
			}
			testBounds(t, table, r)
		}
	}
}

// testBounds compares single records' gradients at random points with L and β.
func testBounds(t *testing.T, table *Table, r *rand.Rand) {
	n := table.Params()
	z, delta := make([]float64, table.Outputs), make([]float64, table.Outputs)
	most, curved, counted := 0.0, 0.0, 0
	for range 4000 {
		i := r.IntN(1200)
		if !table.counts(i) {
			if j := i % 10; j != 3 && j != 7 {
				t.Fatalf("record %d does not count", i)
			}
			continue
		}
		counted++
		a, b, ga, gb := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		step := math.Pow(10, -3*r.Float64())
		for j := range a {
			a[j] = 3 * r.NormFloat64()
			b[j] = a[j] + step*r.NormFloat64()
		}
		table.addGradient(ga, a, z, delta, i)
		table.addGradient(gb, b, z, delta, i)
		size, moved, by := 0.0, 0.0, 0.0
		for j := range a {
			size += ga[j] * ga[j]
			moved += (ga[j] - gb[j]) * (ga[j] - gb[j])
			by += (a[j] - b[j]) * (a[j] - b[j])
		}
		most, curved = max(most, math.Sqrt(size)), max(curved, math.Sqrt(moved/by))
	}
	l, beta := table.Lipschitz(1), table.Smoothness(1)
	if most > l*(1+1e-12) || most < 0.5*l || curved > beta*(1+1e-6) || curved < 0.2*beta || counted == 0 {
		t.Errorf("%v: gradients up to %v (L = %v), quotients up to %v (β = %v)", table.Model.Loss, most, l, curved, beta)
	}
}

// Networks that are no linear models are refused, with the reason.
func TestOfRefuses(t *testing.T) {
	deep := linear(ir.Logistic, 3, 1, true)
	deep.Ops = append(deep.Ops, ir.Op{Kind: ir.ReLU})
	for _, p := range []*ir.Program{deep, linear(ir.Hinge, 3, 1, true)} {
		if _, err := Of(p); err == nil {
			t.Errorf("%v of %d ops passed", p.Loss, len(p.Ops))
		}
	}
	for _, k := range kinds {
		m, err := Of(linear(k.loss, 3, k.outputs, true))
		if err != nil || m.Params() != 4*k.outputs {
			t.Fatalf("%v: %v", k.loss, err)
		}
		z := make([]float64, k.outputs)
		if want := host.Loss(k.loss, z, 1, nil); m.LossAtZero() != want {
			t.Errorf("%v: loss at zero %v, want %v", k.loss, m.LossAtZero(), want)
		}
	}
}

// loss is that of a record at w, which must count.
func (t *Table) loss(w, z []float64, i int) float64 {
	t.logits(z, w, i)
	return host.Loss(t.Loss, z, t.target[i], nil)
}
