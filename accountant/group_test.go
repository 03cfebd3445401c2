package accountant

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// groupRow is a row of scripts/groups_golden.py.
type groupRow struct {
	records            int
	rate, sigma        float64
	steps              int
	relation           Neighbouring
	delta, lower, peak float64
	peer               float64 // pessimistic; 0: none
}

func groupRows(t *testing.T) (rows []groupRow) {
	t.Helper()
	raw, err := os.ReadFile("testdata/groups.json")
	must(t, err)
	var list [][9]float64
	must(t, json.Unmarshal(raw, &list))
	for _, v := range list {
		relation := AddRemove
		if v[4] == 1 {
			relation = ReplaceOne
		}
		rows = append(rows, groupRow{int(v[0]), v[1], v[2], int(v[3]), relation, v[5], v[6], v[7], v[8]})
	}
	if len(rows) < 100 {
		t.Fatalf("%d rows", len(rows))
	}
	return rows
}

func groupOf(t testing.TB, name string, n Neighbouring, delta float64, records int, events ...Event) Result {
	t.Helper()
	r, err := Account(events, Options{Accountant: name, Neighbouring: n, Delta: delta, Group: records})
	must(t, err)
	return r
}

// Ends computed by other programs bracket ε, and so do ours: both brackets hold it.
func TestGroupGolden(t *testing.T) {
	var gaps []float64
	checked := 0
	for i, v := range groupRows(t) {
		events := PoissonBatch(v.rate, v.steps, Gaussian{v.sigma})
		r := groupOf(t, PLD, v.relation, v.delta, v.records, events)
		const rounding = 1e-6 // of transforms whose errors are not bounded
		if r.GroupMethod != GroupDirect || r.Epsilon < v.lower*(1-rounding) || r.Interval.Lower > v.peak*(1+rounding) {
			t.Errorf("%+v: %v, %v", v, r.GroupMethod, *r.Interval)
		}
		if v.peer > 0 {
			checked++
			if r.Interval.Lower > v.peer*(1+rounding) {
				t.Errorf("%+v: %v is above a pessimistic ε", v, *r.Interval)
			}
		}
		gaps = append(gaps, (r.Epsilon-v.lower)/r.Epsilon)
		if v.relation == AddRemove && i%5 == 0 {
			if renyi := groupOf(t, RDP, v.relation, v.delta, v.records, events); renyi.Epsilon < v.lower || renyi.GroupMethod != GroupDirect {
				t.Errorf("%+v: rdp says %v, by %s", v, renyi.Epsilon, renyi.GroupMethod)
			}
		}
	}
	slices.Sort(gaps)
	median, largest := gaps[len(gaps)/2], gaps[len(gaps)-1]
	t.Logf("above the lower ends: %.2g in the median, %.2g at most; %d rows checked by a second program", median, largest, checked)
	if median > 2e-3 || largest > 3e-2 || checked < 10 {
		t.Errorf("ε is %v above the independent lower end in the median, %v at most; %d checked", median, largest, checked)
	}
}

// The exact divergence of an integer order α is the sum over α numbers of records of their weights times
// e^{μ²·Σ over pairs of the product}.
func exactGroupMoment(q, mu float64, records, order int) float64 {
	w := func(j int) float64 {
		lg := func(n int) float64 { v, _ := math.Lgamma(float64(n) + 1); return v }
		return math.Exp(lg(records) - lg(j) - lg(records-j) + float64(j)*math.Log(q) + float64(records-j)*math.Log1p(-q))
	}
	var sum func(left int, weight float64, total, squares int) float64
	sum = func(left int, weight float64, total, squares int) (all float64) {
		if left == 0 {
			return weight * math.Expm1(mu*mu*float64(total*total-squares)/2)
		}
		for j := range records + 1 {
			all += sum(left-1, weight*w(j), total+j, squares+j*j)
		}
		return all
	}
	return math.Log1p(sum(order, 1, 0, 0))
}

func TestGroupRDP(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for range 60 {
		records, order := 1+r.IntN(5), 2+r.IntN(4)
		q, mu := math.Exp(-7*r.Float64())*0.98, math.Exp(-3+3.5*r.Float64())
		got := logMoment(newGroupPair(q, mu, float64(records)), float64(order))
		near(t, fmt.Sprint(records, " records, order ", order, ", q ", q, ", mu ", mu), got, exactGroupMoment(q, mu, records, order), 1e-9)
	}
	// One record is a group of one, in the worse direction.
	for _, c := range []struct{ q, sigma, order float64 }{{0.01, 1, 1.1}, {0.01, 1, 8}, {0.3, 0.7, 2.5}, {0.9, 3, 40}, {1e-4, 5, 256}, {0.5, 0.4, 3.7}} {
		near(t, fmt.Sprint(c), rdpSampledGroup(c.q, 1/c.sigma, 1, c.order), rdpSampledGaussian(c.q, c.sigma, c.order, AddRemove), 1e-9)
	}
}

// Both directions against plain sums over the line, and the closed bound above both.
func TestGroupRDPDirections(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	for range 40 {
		records, q, mu, order := 1+r.IntN(30), math.Exp(-5*r.Float64())*0.9, math.Exp(-3+2*r.Float64()), 1.2+6*r.Float64()
		p := newGroupPair(q, mu, float64(records))
		low, high := -12-order*mu*float64(records), 12+(order+1)*mu*float64(records)
		const h = 0.002
		var there, back logSum
		for z := low; z < high; z += h {
			logQ, u, _ := p.at(z)
			there.add(logQ + order*u)
			back.add(logQ + (1-order)*u)
		}
		what := fmt.Sprint(records, " records, order ", order, ", q ", q, ", mu ", mu)
		one, other := there.log()+math.Log(h), back.log()+math.Log(h)
		near(t, what, logMoment(p, order), one, 1e-8+1e-12/one)
		near(t, what+" back", logMoment(mirroredGroup{p}, 1-order), other, 1e-8+1e-12/other)
		got := rdpSampledGroup(q, mu, float64(records), order)
		near(t, what+" worse", got, math.Max(one, other)/(order-1), 1e-8+1e-12/one)
		if bound := rdpManyRecords(q, mu, float64(records), order); bound < got*(1-1e-9) {
			t.Errorf("%s: the bound %v is below %v", what, bound, got)
		}
	}
}

// anyGroupEvents are Gaussians on Poisson batches and on all records.
func anyGroupEvents(r *rand.Rand) (events []Event) {
	for range 1 + r.IntN(2) {
		q := math.Exp(-3 - 4*r.Float64())
		events = append(events, PoissonBatch(q, 1+r.IntN(200), Gaussian{math.Exp(0.7 + r.Float64())}))
	}
	if r.IntN(2) == 0 {
		events = append(events, Event{Mechanisms: []Mechanism{Gaussian{20 + 20*r.Float64()}}, Count: 1 + r.IntN(3)})
	}
	return events
}

// A group costs no less than a smaller one, and no more than the general conversion says. Rényi bounds lose
// something by becoming (ε, δ), a little more at other orders.
func TestGroupsBelowTheConversion(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 12 {
		events := anyGroupEvents(r)
		for name, loss := range map[string]float64{PLD: 1e-3, RDP: 2e-2} {
			for _, relation := range []Neighbouring{AddRemove, ReplaceOne} {
				last := account(t, name, relation, 1e-5, events...).Epsilon
				for _, records := range []int{2, 3} {
					got := groupOf(t, name, relation, 1e-5, records, events...)
					m, err := methodOf(name)
					must(t, err)
					general, err := m.convertEpsilon(events, Options{Neighbouring: relation, Delta: 1e-5}, records)
					must(t, err)
					if got.Epsilon < last*(1-1e-3) || got.Epsilon > general.Epsilon*(1+loss) {
						t.Errorf("%s, %s, %d records: %v after %v; the conversion says %v", name, relation, records, got.Epsilon, last, general.Epsilon)
					}
					last = got.Epsilon
				}
			}
		}
	}
}

// A group of one is one record, to the last bit, whichever way it is found.
func TestGroupOfOne(t *testing.T) {
	lists := [][]Event{
		{PoissonBatch(0.01, 300, Gaussian{1})}, {{Mechanisms: []Mechanism{Gaussian{4}, Laplace{9}}, Count: 3}},
		{PoissonBatch(0.02, 30, Gaussian{1}, Pure{0.1})}, {{Mechanisms: []Mechanism{ObjectivePerturbation{NoiseMultiplier: 3, Curvature: 0.1}}, Count: 1}},
	}
	for _, events := range lists {
		for _, m := range methods() {
			for _, relation := range []Neighbouring{AddRemove, ReplaceOne} {
				o := Options{Accountant: m.name, Neighbouring: relation, Delta: 1e-5}
				want, wantErr := m.account(events, o)
				o.Group = 1
				got, err := m.group(events, o)
				if fmt.Sprint(err) != fmt.Sprint(wantErr) || got.Epsilon != want.Epsilon || got.GroupMethod != "" {
					t.Errorf("%s, %s, %v: %v (%v), not %v (%v)", m.name, relation, events, got, err, want, wantErr)
				}
				if wantErr == nil && m.why == "" {
					one, err := RiskOf(events, o)
					must(t, err)
					o.Group = 0
					none, err := RiskOf(events, o)
					must(t, err)
					if fmt.Sprint(one) != fmt.Sprint(none) {
						t.Errorf("%s, %s: risk %v of one, %v", m.name, relation, one, none)
					}
				}
			}
		}
	}
	// What is remembered is kept apart by the size of the group.
	events := lists[0]
	if account(t, PLD, AddRemove, 1e-5, events...).Epsilon == groupOf(t, PLD, AddRemove, 1e-5, 2, events...).Epsilon {
		t.Error("two records cost what one does")
	}
}

// Without sampling K records are one at K times the distance, for every accountant that has such a bound.
func TestGroupsOnAllRecords(t *testing.T) {
	far, near1 := Event{Mechanisms: []Mechanism{Gaussian{10}}, Count: 3}, Event{Mechanisms: []Mechanism{Gaussian{2}}, Count: 3}
	for _, name := range []string{PLD, RDP, GDP, ZCDP} {
		for _, relation := range []Neighbouring{AddRemove, ReplaceOne} {
			got, want := groupOf(t, name, relation, 1e-6, 5, far), account(t, name, relation, 1e-6, near1)
			near(t, name, got.Epsilon, want.Epsilon, 1e-12)
			o := Options{Accountant: name, Neighbouring: relation, Delta: 1e-6, Group: 5}
			risk, err := RiskOf([]Event{far}, o)
			must(t, err)
			o.Group = 0
			one, err := RiskOf([]Event{near1}, o)
			must(t, err)
			near(t, name+" advantage", risk.Advantage, one.Advantage, 1e-12)
			if got.GroupMethod != GroupDirect {
				t.Errorf("%s: %s", name, got.GroupMethod)
			}
		}
	}
}

// Who has no bound of its own converts one record's, and the δ of what comes out is at most the one that was asked for.
func TestGroupConversion(t *testing.T) {
	for what, c := range map[string]struct {
		name     string
		relation Neighbouring
		event    Event
	}{
		"fixed size":  {PLD, ReplaceOne, SubsetBatch(0.001, 100, Gaussian{2})},
		"other noise": {PLD, AddRemove, PoissonBatch(0.001, 100, Gaussian{2}, Laplace{5})},
		"two-sided":   {RDP, ReplaceOne, PoissonBatch(0.001, 100, Gaussian{2})},
		"objective":   {PLD, AddRemove, Event{Mechanisms: []Mechanism{ObjectivePerturbation{NoiseMultiplier: 30, Curvature: 0.1}}, Count: 1}},
		"paper":       {Paper, AddRemove, PoissonBatch(0.001, 100, Gaussian{2})},
		"ctcdp":       {CTCDP, ReplaceOne, SubsetBatch(0.001, 100, Gaussian{20})},
	} {
		const records, delta = 3, 1e-6
		r, err := Account([]Event{c.event}, Options{Accountant: c.name, Neighbouring: c.relation, Delta: delta, Group: records})
		must(t, err)
		if r.GroupMethod != GroupConverted || r.Interval != nil {
			t.Errorf("%s: %s, interval %v", what, r.GroupMethod, r.Interval)
		}
		m, err := methodOf(c.name)
		must(t, err)
		if m.epsilonOnly {
			continue
		}
		one := r.Epsilon / records
		// A little more, as ε at δ and δ at ε are two computations.
		up := one * (1 + 1e-3)
		d, err := Account([]Event{c.event}, Options{Accountant: c.name, Neighbouring: c.relation, Epsilon: &up})
		must(t, err)
		if total := d.Delta * math.Expm1(records*one) / math.Expm1(one); total > delta {
			t.Errorf("%s: ε %v comes with δ %v", what, r.Epsilon, total)
		}
		less := one * 0.99
		d, err = Account([]Event{c.event}, Options{Accountant: c.name, Neighbouring: c.relation, Epsilon: &less})
		must(t, err)
		if total := d.Delta * math.Expm1(records*less) / math.Expm1(less); total < delta {
			t.Errorf("%s: ε %v is not the best: %v has δ %v", what, r.Epsilon, less*records, total)
		}
		back, err := Account([]Event{c.event}, Options{Accountant: c.name, Neighbouring: c.relation, Epsilon: &r.Epsilon, Group: records})
		must(t, err)
		if back.Delta > delta*1.05 || back.Delta < delta*0.8 || back.GroupMethod != GroupConverted {
			t.Errorf("%s: δ at %v is %v", what, r.Epsilon, back.Delta)
		}
		risk, err := RiskOf([]Event{c.event}, Options{Accountant: c.name, Neighbouring: c.relation, Delta: delta, Group: records})
		must(t, err)
		if m.why == "" && (risk == nil || risk.Advantage < math.Tanh(r.Epsilon/2)) {
			t.Errorf("%s: risk %v", what, risk)
		}
	}
}

func TestGroupRefuses(t *testing.T) {
	batch := []Event{PoissonBatch(0.01, 1000, Gaussian{1})}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Accountant: PLD, Neighbouring: AddRemove, Delta: 1e-5, Group: -1}, "group -1"},
		{Options{Accountant: PLD, Neighbouring: AddRemove, Delta: 1e-5, Group: mostGroup + 1}, "100000"},
		{Options{Accountant: PLD, Neighbouring: AddRemove, Delta: 1e-5, Group: 100000}, "use accountant rdp, or a smaller group"},
		{Options{Accountant: RDP, Neighbouring: ReplaceOne, Delta: 1e-5, Group: 50}, "give a smaller group"},
		{Options{Accountant: RDP, Neighbouring: ReplaceOne, Delta: 1e-5, Group: 2, Order: 3}, "no Rényi bound"},
		{Options{Accountant: GDP, Neighbouring: AddRemove, Delta: 1e-5, Group: 2}, "sampled"},
	} {
		if _, err := Account(batch, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

// At low orders of large groups the divergence back is a small power of ratios near 0. It is held against a plain quadrature
// of the density ratio, whose logarithms are summed as they are.
func TestGroupRDPLowOrders(t *testing.T) {
	quadrature := func(records int, q, mu, power float64) float64 { // ln E_Q[(P/Q)^power]
		lg := func(n int) float64 { v, _ := math.Lgamma(float64(n) + 1); return v }
		const h = 0.05
		var s logSum
		for z := -40.0; z < 40; z += h {
			var ratio logSum
			for j := range records + 1 {
				x := float64(j) * mu
				ratio.add(lg(records) - lg(j) - lg(records-j) + float64(j)*math.Log(q) + float64(records-j)*math.Log1p(-q) + x*z - x*x/2)
			}
			s.add(-z*z/2 - math.Log(2*math.Pi)/2 + power*ratio.log() + math.Log(h))
		}
		return s.log()
	}
	for _, c := range []struct {
		records int
		q, mu   float64
	}{{30, 0.8, 0.2}, {8, 0.95, 0.5}, {200, 0.5, 0.05}, {60, 0.99, 0.1}} {
		p := newGroupPair(c.q, c.mu, float64(c.records))
		for _, order := range []float64{1.001, 1.01, 1.1, 1.2, 1.3, 1.5, 1.8, 2.5} {
			there, back := quadrature(c.records, c.q, c.mu, order), quadrature(c.records, c.q, c.mu, 1-order)
			what := fmt.Sprint(c, " order ", order)
			near(t, what, logMoment(p, order), there, 1e-9)
			near(t, what+" back", logMoment(mirroredGroup{p}, 1-order), back, 1e-9)
			near(t, what+" worse", rdpSampledGroup(c.q, c.mu, float64(c.records), order), math.Max(there, back)/(order-1), 1e-9)
		}
	}
	// By mpmath, with 40 digits.
	near(t, "30 records", rdpSampledGroup(0.8, 0.2, 30, 1.3), 15.840602378601, 1e-12)
	// Ratios too small for a float64 count as they are: P/Q is at least (1−q)^1000, so that Q/P is at most its inverse.
	if got, most := rdpSampledGroup(0.8, 0.05, 1000, 1.3), -1000*math.Log1p(-0.8); !(got > 0 && got <= most) {
		t.Errorf("a thousand records: %v, at most %v", got, most)
	}
}

// A point of one record's curve that an accountant cannot resolve is left out: each other is a bound. Of none there is no δ.
func TestGroupConversionLeavesPointsOut(t *testing.T) {
	resolves := 0.4
	m := method{solve: func(_ []Event, o Options) (Result, error) {
		if *o.Epsilon > resolves {
			return Result{}, fmt.Errorf("epsilon %v is beyond what is resolved", *o.Epsilon)
		}
		return o.result(math.Exp(-20 * *o.Epsilon)), nil
	}}
	o := Options{Epsilon: new(3.0)}
	r, err := m.convertDelta(nil, o, 4)
	must(t, err)
	const last = 3. / 4 * 8 / 16 // of the points up to 0.4, which is the best
	near(t, "the last point", r.Delta, math.Exp(-20*last)*math.Expm1(4*last)/math.Expm1(last), 1e-9)
	resolves = -1
	if r, err := m.convertDelta(nil, o, 4); err == nil || !strings.Contains(err.Error(), "beyond what is resolved") {
		t.Errorf("no point gives δ = %v, %v", r.Delta, err)
	}
}
