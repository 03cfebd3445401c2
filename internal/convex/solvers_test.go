package convex

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/papers"
)

func going() error { return nil }

// a private table in a test: a record's features and target; a target that is NaN is no record.
type record struct {
	x      []float32
	target float32
}

var missing = record{target: float32(math.NaN())}

func tableOf(t *testing.T, m *Model, norm float64, records []record) *Table {
	t.Helper()
	rows, x := device.Rows{Count: len(records), Width: m.Inputs}, device.Floats{}
	for _, r := range records {
		if r.x == nil {
			r.x = make([]float32, m.Inputs)
		}
		x, rows.Targets = append(x, r.x...), append(rows.Targets, r.target)
	}
	table, err := NewTable(m, rows, x, norm, 1)
	check(t, err)
	return table
}

func modelOf(t *testing.T, loss ir.Loss, inputs, outputs int, bias bool) *Model {
	t.Helper()
	m, err := Of(linear(loss, inputs, outputs, bias))
	check(t, err)
	return m
}

// apart is how far two tables' results are from each other.
func apart(t *testing.T, s Solver, a, b *Table) float64 {
	t.Helper()
	v, err := s.Solve(a, nil, going)
	check(t, err)
	w, err := s.Solve(b, nil, going)
	check(t, err)
	return distance(v, w)
}

func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}

// pair are tables that differ in the record of a place: replaced, or there in one of them alone. Far
// targets make the losses linear.
func pair(t *testing.T, m *Model, norm float64, n, place int, replaced bool) (a, b *Table) {
	t.Helper()
	records := make([]record, n)
	for i := range records {
		records[i] = record{[]float32{float32(norm)}, 1e9}
	}
	a = tableOf(t, m, norm, records)
	records[place] = missing
	if replaced {
		records[place] = record{[]float32{float32(norm)}, -1e9}
	}
	b = tableOf(t, m, norm, records)
	a.Order = order(n)
	b.Order = a.Order
	return a, b
}

func order(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Linear losses with a common quadratic attain the sensitivity: what is there or not moves the result
// by half of what a replaced record does.
func TestSensitivityIsAttained(t *testing.T) {
	const n, norm = 40, 0.75
	m := modelOf(t, ir.Huber, 1, 1, false)
	smooth, lipschitz := m.Smoothness(norm), m.Lipschitz(norm)
	attained := func(what string, s Solver, place int, whole, drift, tolerance float64) {
		t.Helper()
		for _, replaced := range []bool{false, true} {
			bound := whole
			if !replaced {
				bound /= 2
			}
			a, b := pair(t, m, norm, n, place, replaced)
			if got := apart(t, s, a, b); got > bound+2*drift || got < bound*(1-tolerance) {
				t.Errorf("%s, replaced %v: two results are %v apart; the sensitivity is %v", what, replaced, got, bound)
			}
		}
		if drift > 1e-9*whole {
			t.Errorf("%s: the drift is %v, of a sensitivity of %v", what, drift, whole)
		}
	}
	for _, mu := range []float64{0, 0.05, 0.6} {
		for _, steps := range []int{1, 30, 400} {
			d := Descent{Steps: steps, Rate: 1.999 / (smooth + 2*mu), L2: mu, Records: n}
			p := papers.Descent{Records: n, Steps: steps, Lipschitz: lipschitz, Smoothness: smooth + mu, StrongConvexity: mu, LearningRate: d.Rate}
			check(t, p.Validate())
			attained("descent", d, 7, p.Sensitivity(), d.Drift(m, norm), 1e-9)
		}
	}
	for _, c := range []struct {
		mu, rate  float64
		average   bool
		place     int
		tolerance float64
	}{
		{0, 1 / smooth, false, 11, 1e-9},
		{0, 1 / smooth, true, 0, 1e-9},
		{0.3, 0.4, false, n - 1, 1e-9},
		{0.3, 0, false, n - 1, 1e-9},
		{200, 0, true, 0, 0.01}, // the first step is shorter than 1/μ
	} {
		for _, batch := range []int{1, 4} {
			d := Passes{Passes: 3, Batch: batch, Rate: c.rate, L2: c.mu, Average: c.average, Records: n}
			p := papers.Passes{Records: n, Passes: 3, Batch: batch, Lipschitz: lipschitz, StrongConvexity: c.mu, LearningRate: c.rate, Average: c.average}
			attained("passes", d, c.place, p.Sensitivity(), d.Drift(m, norm), c.tolerance)
		}
	}
}

// A rate just beyond the condition takes two runs farther apart than the sensitivity would be.
func TestSensitivityBeyondTheCondition(t *testing.T) {
	const n, norm, steps = 4000, 1, 150
	m := modelOf(t, ir.Huber, 1, 1, false)
	for _, beyond := range []bool{false, true} {
		rate := 2 / m.Smoothness(norm)
		if beyond {
			rate *= 1.05
		}
		records := make([]record, n) // quadratic, with the minimum at 0
		for i := range records {
			records[i] = record{[]float32{norm}, 0}
		}
		a := tableOf(t, m, norm, records)
		records[3].target = 1e9
		b := tableOf(t, m, norm, records)
		d := Descent{Steps: steps, Rate: rate, Records: n}
		p := papers.Descent{Records: n, Steps: steps, Lipschitz: 1, Smoothness: 1, LearningRate: rate}
		if got, most := apart(t, d, a, b), p.Sensitivity(); got > most != beyond {
			t.Errorf("at a rate of %v two results are %v apart; the formula gives %v", rate, got, most)
		} else if err := p.Validate(); err != nil != beyond {
			t.Errorf("a rate of %v: %v", rate, err)
		}
	}
}

// No pair of random tables moves the result by more than the sensitivity and what rounding adds.
func TestSensitivityIsNotExceeded(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	nearest := 0.0
	for range 10000 {
		k := kinds[r.IntN(len(kinds))]
		m := modelOf(t, k.loss, 1+r.IntN(3), k.outputs, r.IntN(2) == 0)
		norm, n := math.Pow(10, r.Float64()-0.5), 1+r.IntN(8)
		draw := func() record {
			if r.IntN(10) == 0 {
				return missing
			}
			x := make([]float32, m.Inputs)
			for i := range x {
				x[i] = float32(2 * norm * r.NormFloat64())
			}
			target := k.target(r)
			if k.loss == ir.Huber {
				target = float32(3 * r.NormFloat64())
			}
			return record{x, target}
		}
		records := make([]record, n+r.IntN(2)) // one may be beyond the public number
		for i := range records {
			records[i] = draw()
		}
		a := tableOf(t, m, norm, records)
		replaced, place := r.IntN(2) == 0, r.IntN(len(records))
		if records[place] = missing; replaced {
			records[place] = draw()
		}
		b := tableOf(t, m, norm, records)
		a.Most, b.Most = n, n
		a.Order = order(n)
		r.Shuffle(n, func(i, j int) { a.Order[i], a.Order[j] = a.Order[j], a.Order[i] })
		b.Order = a.Order

		mu := 0.0
		if r.IntN(2) == 0 {
			mu = m.Smoothness(norm) * math.Pow(10, -2*r.Float64())
		}
		rate := 2 / (m.Smoothness(norm) + 2*mu) * math.Pow(10, -r.Float64()*float64(r.IntN(2)))
		var s Solver
		var whole, drift float64
		if r.IntN(2) == 0 {
			d := Descent{Steps: 1 + r.IntN(15), Rate: rate, L2: mu, Records: n}
			if r.IntN(3) == 0 {
				d.Radius = m.Lipschitz(norm) * rate
			}
			s, drift = d, d.Drift(m, norm)
			whole = papers.Descent{Records: n, Steps: d.Steps, Lipschitz: m.Lipschitz(norm), Smoothness: m.Smoothness(norm) + mu, StrongConvexity: mu, LearningRate: rate}.Sensitivity()
		} else {
			d := Passes{Passes: 1 + r.IntN(3), Batch: 1 + r.IntN(n), Rate: rate, L2: mu, Average: r.IntN(2) == 0, Records: n}
			if mu > 0 && r.IntN(2) == 0 {
				d.Rate = 0
			}
			s, drift = d, d.Drift(m, norm)
			whole = papers.Passes{Records: n, Passes: d.Passes, Batch: d.Batch, Lipschitz: m.Lipschitz(norm), StrongConvexity: mu, LearningRate: d.Rate, Average: d.Average}.Sensitivity()
		}
		if !replaced {
			whole /= 2
		}
		got := apart(t, s, a, b)
		if got > whole+2*drift {
			t.Fatalf("%v, %+v: two results are %v apart; the sensitivity is %v", k.loss, s, got, whole)
		}
		nearest = max(nearest, got/whole)
	}
	if nearest < 0.9 {
		t.Errorf("the farthest pair came to %v of the sensitivity only", nearest)
	}
}

// What noise adds to a record's loss is at most half of its variance times the trace, which is that of the
// Hessian where it is largest. Over 20,000 draws the mean exceeds the bound by five standard errors with
// probability 3·10⁻⁷ at most, for each of four losses and two deviations; the seed is fixed.
func TestNoiseAddsTheTrace(t *testing.T) {
	const norm, draws = 0.8, 20000
	r := rand.New(rand.NewPCG(9, 10))
	for _, k := range kinds {
		m := modelOf(t, k.loss, 4, k.outputs, true)
		table := tableOf(t, m, norm, []record{{[]float32{norm, 0, 0, 0}, 1}})
		start := make([]float64, m.Params())
		if k.loss == ir.Huber || k.loss == ir.HuberHinge {
			start[m.bias] = 1 // where the loss is curved the most
		}
		trace, g, w := 0.0, make([]float64, len(start)), make([]float64, len(start))
		for i := range start {
			const h = 1e-5
			copy(w, start)
			w[i] += h
			table.Gradient(w, g)
			above := g[i]
			w[i] -= 2 * h
			table.Gradient(w, g)
			trace += (above - g[i]) / (2 * h)
		}
		if most := m.Trace(norm); math.Abs(trace/most-1) > 1e-6 {
			t.Errorf("%v: the Hessian's trace is %v, the bound %v", k.loss, trace, most)
		}
		z := make([]float64, k.outputs)
		at := func(w []float64) float64 {
			table.logits(z, w, 0)
			return host.Loss(m.Loss, z, 1, nil)
		}
		for _, sigma := range []float64{0.1, 2} {
			sum, squares := 0.0, 0.0
			for range draws {
				for i := range w {
					w[i] = start[i] + sigma*r.NormFloat64()
				}
				rise := at(w) - at(start)
				sum, squares = sum+rise, squares+rise*rise
			}
			mean := sum / draws
			err := math.Sqrt((squares/draws - mean*mean) / draws)
			if bound := m.Trace(norm) / 2 * sigma * sigma; mean > bound+5*err {
				t.Errorf("%v: noise of %v adds %v ± %v, the bound is %v", k.loss, sigma, mean, err, bound)
			}
		}
	}
}

// What floating point makes of a descent is within its drift of the result in 400 binary digits.
func TestDrift(t *testing.T) {
	const n, inputs, steps, mu, norm = 30, 3, 60, 0.01, 1
	m := modelOf(t, ir.Huber, inputs, 1, true)
	r, records := rand.New(rand.NewPCG(3, 4)), make([]record, n)
	for i := range records {
		for range inputs {
			records[i].x = append(records[i].x, float32(r.NormFloat64()))
		}
		records[i].target = float32(2 * r.NormFloat64())
	}
	table := tableOf(t, m, norm, records)
	d := Descent{Steps: steps, Rate: 1 / (m.Smoothness(norm) + 2*mu), L2: mu, Records: n}
	got, err := d.Solve(table, nil, going)
	check(t, err)
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(x) }
	w := make([]*big.Float, inputs+1)
	for i := range w {
		w[i] = number(0)
	}
	one := number(1)
	for range steps {
		g := make([]*big.Float, inputs+1)
		for i := range g {
			g[i] = number(0)
		}
		for i := range records {
			x := make([]*big.Float, inputs+1)
			z := new(big.Float).Set(w[inputs])
			x[inputs] = one
			for j, v := range table.row(i) {
				x[j] = new(big.Float).Mul(number(float64(v)), number(table.factor[i]))
				z.Add(z, new(big.Float).Mul(x[j], w[j]))
			}
			z.Sub(z, number(float64(records[i].target)))
			if new(big.Float).Abs(z).Cmp(one) > 0 {
				z = number(float64(z.Sign()))
			}
			for j := range g {
				g[j].Add(g[j], new(big.Float).Mul(z, x[j]))
			}
		}
		for j := range w {
			g[j].Quo(g[j], number(n))
			g[j].Add(g[j], new(big.Float).Mul(number(mu), w[j]))
			w[j].Sub(w[j], g[j].Mul(g[j], number(d.Rate)))
		}
	}
	off := 0.0
	for j := range w {
		e, _ := w[j].Sub(w[j], number(got[j])).Float64()
		off += e * e
	}
	if off = math.Sqrt(off); off == 0 || off > d.Drift(m, norm) || d.Drift(m, norm) > 1e-11 {
		t.Errorf("the result is off by %v; the drift is %v", off, d.Drift(m, norm))
	}
}

// Work that is stopped ends with the error, and gives nothing.
func TestSolversStop(t *testing.T) {
	m := modelOf(t, ir.Logistic, 1, 1, true)
	table := tableOf(t, m, 1, []record{{[]float32{1}, 1}, {[]float32{1}, -1}})
	table.Order = order(2)
	stop := errors.New("stop")
	for _, s := range []Solver{Descent{Steps: 9, Rate: 1, Records: 2}, Passes{Passes: 9, Batch: 1, Rate: 1, Records: 2}} {
		asked := 0
		w, err := s.Solve(table, nil, func() error {
			if asked++; asked == 3 {
				return stop
			}
			return nil
		})
		if err != stop || w != nil {
			t.Errorf("%T: %v, %v", s, w, err)
		}
	}
	table.Order = order(1)
	if _, err := (Passes{Passes: 1, Batch: 1, Rate: 1, Records: 2}).Solve(table, nil, going); err == nil {
		t.Error("two places were taken in the order of one")
	}
}

// What docs/proofs/output-perturbation.md says of a table as large as Bank.
func TestDriftIsSmall(t *testing.T) {
	const n, steps = 45211, 100
	m := modelOf(t, ir.Logistic, 51, 1, true)
	rate := 1 / m.Smoothness(1)
	d := Descent{Steps: steps, Rate: rate, Records: n}
	if part := 2 * d.Drift(m, 1) / (m.Lipschitz(1) * rate * steps / n); part > 1e-6 {
		t.Errorf("rounding adds %v of the sensitivity", part)
	}
}

// Of many steps the drift is taken in blocks. It is no less than by the recursion, one step after the other,
// and hardly more; a billion steps take no longer.
func TestDriftOfManySteps(t *testing.T) {
	const u = 0x1p-53
	m := modelOf(t, ir.Logistic, 10, 1, true)
	l, beta := m.Lipschitz(1), m.Smoothness(1)
	for _, c := range []struct {
		l2, radius float64
		falls      bool
	}{{0, 0, false}, {0.01, 0, false}, {0, 3, false}, {0.01, 0, true}, {1e-4, 2, true}} {
		rate := func(step int) float64 {
			if c.falls {
				return min(1/(beta+c.l2), 1/(c.l2*float64(step)))
			}
			return 1 / (beta + 2*c.l2)
		}
		a := arithmetic{Model: m, norm: 1, l2: c.l2, radius: c.radius, terms: 100}
		const steps = 100_000
		last, most, reach, exact := 0.0, 0.0, 0.0, 0.0
		for step := range steps {
			eta := rate(step + 1)
			keep, at := 1-eta*c.l2, exact+last
			if exact = keep*exact + eta*l; c.radius > 0 {
				exact = min(exact, c.radius)
			}
			last = keep*last + eta*(16*u*beta*at+125*u*l) + (6*max(at, exact)+4*eta*l)*u + float64(m.Params()+8)*u*c.radius
			most, reach = max(most, last), max(reach, exact+last)
		}
		gotLast, gotMost, gotReach := a.drift(steps, rate)
		for _, x := range [][2]float64{{gotLast, last}, {gotMost, most}, {gotReach, reach}} {
			if x[0] < x[1] || x[0] > 1.02*x[1] {
				t.Errorf("%+v: %v in blocks, %v step by step", c, x[0], x[1])
			}
		}
		asked := 0
		if far, _, _ := a.drift(1_000_000_000, func(step int) float64 { asked++; return rate(step) }); !(far >= last*0.98) || math.IsInf(far, 1) || asked > 100_000 {
			t.Errorf("%+v: %v after a billion steps, of which %d were looked at", c, far, asked)
		}
	}
}
