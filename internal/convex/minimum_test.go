package convex

import (
	"math"
	"math/rand/v2"
	"testing"
)

// What is found lies within the promised distance of the minimum, for every loss, small and large regularizers, and tilts far
// larger than the records: by strong convexity that distance is at most the gradient's norm over Λ.
func TestMinimum(t *testing.T) {
	const records, norm = 300, 1.
	short := 0
	r := rand.New(rand.NewPCG(5, 6))
	for _, k := range kinds {
		if k.outputs > 1 {
			continue
		}
		m, err := Of(linear(k.loss, 5, 1, true))
		check(t, err)
		table := random(t, m, r, k.target, records, 2)
		for _, regularization := range []float64{0.5, 10, 1000} {
			for _, size := range []float64{0, 1, 1000} {
				tilt := make([]float64, m.Params())
				for i := range tilt {
					tilt[i] = size * (2*r.Float64() - 1)
				}
				p := PlanMinimum(m, norm, regularization, size, 0, records)
				away := func(p Minimum) float64 {
					w, err := p.Solve(table, tilt, func() error { return nil })
					check(t, err)
					gradient, length := make([]float64, len(w)), 0.0
					table.Gradient(w, gradient)
					for i := range w {
						length = math.Hypot(length, gradient[i]+regularization*w[i]+tilt[i])
					}
					return length / regularization
				}
				if d := away(p); !(d <= p.Within) {
					t.Errorf("%v, Λ %v, tilt %v: %v away after %d steps, promised %v", k.loss, regularization, size, d, p.Steps, p.Within)
				}
				few := p
				if few.Steps /= 10; away(few) > p.Within {
					short++
				}
				if want := nearness * m.Lipschitz(norm) / p.Smoothness; regularization > 1 && p.Within > want {
					t.Errorf("%v, Λ %v, tilt %v: within %v, wanted %v", k.loss, regularization, size, p.Within, want)
				}
			}
		}
	}
	if short == 0 {
		t.Error("a tenth of the steps is enough everywhere")
	}
}

// Records beyond the public number are left out.
func TestMinimumLeavesOut(t *testing.T) {
	m, err := Of(linear(kinds[0].loss, 5, 1, true))
	check(t, err)
	data := func(n int) *Table { return random(t, m, rand.New(rand.NewPCG(8, 9)), kinds[0].target, n, 1) }
	p, tilt := PlanMinimum(m, 1, 10, 1, 0, 600), make([]float64, m.Params())
	none := func() error { return nil }
	all, _ := p.Solve(data(600), tilt, none)
	more, _ := p.Solve(data(900), tilt, none)
	fewer, _ := p.Solve(data(500), tilt, none)
	for i := range all {
		if all[i] != more[i] || all[i] == fewer[i] {
			t.Errorf("coordinate %d of 500, 600 and 900 records, 600 of which count: %v, %v, %v", i, fewer[i], all[i], more[i])
		}
	}
}
