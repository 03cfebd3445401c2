package accountant

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

func TestGoldenPLD(t *testing.T) {
	for _, v := range readGolden(t).Vectors {
		r := account(t, PLD, AddRemove, v.Delta, PoissonBatch(v.Q, v.Steps, Gaussian{v.Sigma}))
		near(t, "pld", r.Epsilon, v.EpsPLD, 1e-3)
		if r.Interval == nil || r.Epsilon != r.Interval.Upper || r.Interval.Upper-r.Interval.Lower > math.Max(1e-3*r.Epsilon, 1e-4) {
			t.Errorf("q %v, σ %v, T %v: ε %v in %v", v.Q, v.Sigma, v.Steps, r.Epsilon, r.Interval)
		}
	}
}

// Gradient and line search on one batch of the line search paper's setting, and
// on two of their own, ρ split 90 : 10.
func TestGoldenSameBatch(t *testing.T) {
	for _, v := range vectors[sameBatch](t, "testdata/a2_same_batch.json") {
		gradient, search := Gaussian{math.Sqrt(1 / (1.8 * v.Rho))}, Gaussian{math.Sqrt(1 / (0.2 * v.Rho))}
		near(t, "one batch", account(t, PLD, AddRemove, 1e-8, PoissonBatch(1./200, 1000, gradient, search)).Epsilon, v.PLD, 1e-3)
		two := account(t, PLD, AddRemove, 1e-8, PoissonBatch(1./200, 1000, gradient), PoissonBatch(1./200, 1000, search)).Epsilon
		near(t, "two batches", two, v.TwoPLD, 1e-3)
	}
}

// The analytic Gaussian by calibration (Balle and Wang 2018, algorithm 1).
func TestGoldenAnalyticGaussian(t *testing.T) {
	for _, v := range vectors[struct {
		Epsilon float64 `json:"eps"`
		Delta   float64
		Sigma   float64 `json:"sigma_over_Delta"`
	}](t, "../internal/papers/testdata/analytic_gaussian.json") {
		s := Schedule{SamplingRate: 1, Steps: 1, Neighbouring: AddRemove, Accountant: GDP, Delta: v.Delta}
		sigma, reached, err := s.Calibrate(v.Epsilon)
		must(t, err)
		near(t, "σ", sigma, v.Sigma, 1e-10)
		if reached > v.Epsilon {
			t.Errorf("ε %v is above its target %v", reached, v.Epsilon)
		}
	}
}

// Without sampling every accountant bounds the same Gaussians: exact ≤ concentrated ≤ Rényi at a list of orders.
func TestAccountantsAgreeWithoutSampling(t *testing.T) {
	for _, n := range []Neighbouring{AddRemove, ReplaceOne} {
		for _, sigma := range []float64{0.7, 3, 40} {
			events := []Event{{Mechanisms: []Mechanism{Gaussian{sigma}, Gaussian{2 * sigma}}, Count: 7}}
			exact := account(t, GDP, n, 1e-6, events...).Epsilon
			near(t, "pld", account(t, PLD, n, 1e-6, events...).Epsilon, exact, 1e-3)
			concentrated := account(t, ZCDP, n, 1e-6, events...).Epsilon
			renyi := account(t, RDP, n, 1e-6, events...).Epsilon
			if !(exact < concentrated && concentrated <= renyi*(1+1e-9) && renyi < 1.2*exact+0.1) {
				t.Errorf("%s, σ %v: gdp %v, zcdp %v, rdp %v", n, sigma, exact, concentrated, renyi)
			}
			epsilon := concentrated
			r, err := Account(events, Options{Accountant: ZCDP, Neighbouring: n, Epsilon: &epsilon})
			must(t, err)
			near(t, "δ of the concentrated ε", r.Delta, 1e-6, 1e-6)
		}
	}
}

// Two Laplace releases on all records: pure ε adds up, and at δ the tighter
// accountants say less.
func TestLaplaceAccounts(t *testing.T) {
	events := []Event{{Mechanisms: []Mechanism{Laplace{4}}, Count: 2}}
	if got := account(t, PLD, AddRemove, 1e-12, events...).Epsilon; got > 0.5*(1+1e-9) {
		t.Errorf("pld gives %v for what is 0.5-private", got)
	}
	loss, randomised := account(t, PLD, AddRemove, 1e-3, events...).Epsilon,
		account(t, PLD, AddRemove, 1e-3, Event{Mechanisms: []Mechanism{Pure{0.25}}, Count: 2}).Epsilon
	if !(loss <= randomised) {
		t.Errorf("Laplace noise costs %v, the worst release of its ε %v", loss, randomised)
	}
	near(t, "replace-one", account(t, PLD, ReplaceOne, 1e-3, events...).Epsilon,
		account(t, PLD, AddRemove, 1e-3, Event{Mechanisms: []Mechanism{Laplace{2}}, Count: 2}).Epsilon, 1e-9)
}

// What the loss distribution certifies: a lower end that is not above the
// upper, which is not above Rényi's bound, and no fall where more is asked.
func TestIntervalsHold(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	between := func(low, high float64) float64 { return low + (high-low)*random.Float64() }
	for i := range 24 { // each is four compositions
		q := math.Exp(between(math.Log(1e-4), 0))
		sigma := math.Exp(between(math.Log(0.5), math.Log(20)))
		steps := int(math.Exp(between(0, math.Log(3000))))
		n := []Neighbouring{AddRemove, ReplaceOne}[i%2]
		delta := math.Pow(10, -between(3, 10))
		at := func(name string, q, sigma float64, steps int) Result {
			r, err := Account([]Event{PoissonBatch(q, steps, Gaussian{sigma})}, Options{Accountant: name, Neighbouring: n, Delta: delta})
			must(t, err)
			return r
		}
		base := at(PLD, q, sigma, steps)
		width := base.Interval.Upper - base.Interval.Lower
		if width < 0 {
			t.Fatalf("the lower end is above the upper: %v", *base.Interval)
		}
		if renyi := at(RDP, q, sigma, steps).Epsilon; base.Interval.Lower > renyi*(1+1e-9) || base.Epsilon > renyi+width+1e-9 {
			t.Fatalf("pld gives %v, rdp %v", *base.Interval, renyi)
		}
		for _, more := range []Result{at(PLD, q, sigma, steps+1+steps/10), at(PLD, min(1.1*q, 1), sigma, steps), at(PLD, q, sigma/1.1, steps)} {
			if more.Interval.Upper < base.Interval.Lower || more.Epsilon < base.Epsilon-width-1e-9 {
				t.Fatalf("more is asked, and costs %v after %v", *more.Interval, *base.Interval)
			}
		}
	}
}

// Calibration under every accountant: on the upper end, never above, within
// 1e-4 of the target.
func TestCalibrateUnderEveryAccountant(t *testing.T) {
	for _, c := range []struct {
		accountant string
		q          float64
		steps      int
	}{
		{PLD, 0.01, 1000}, {PLD, 1, 20}, {RDP, 0.01, 1000}, {PRV, 0.1, 5}, {ZCDP, 1, 20}, {GDP, 1, 20}, {Paper, 0.01, 1000},
	} {
		for _, target := range []float64{0.3, 3} {
			s := Schedule{SamplingRate: c.q, Steps: c.steps, Neighbouring: AddRemove, Accountant: c.accountant, Delta: 1e-6}
			sigma, reached, err := s.Calibrate(target)
			must(t, err)
			again, err := s.Epsilon(sigma)
			must(t, err)
			if again != reached || reached > target || reached < target*(1-1e-4) {
				t.Errorf("%s, ε %v: multiplier %v gives %v, said %v", c.accountant, target, sigma, again, reached)
			}
			less, err := s.Epsilon(sigma * (1 - 1e-3))
			must(t, err)
			if less <= target {
				t.Errorf("%s, ε %v: multiplier %v was enough, calibration gave %v", c.accountant, target, sigma*(1-1e-3), sigma)
			}
		}
	}
}

func TestCalibrateStepsAndRateByPLD(t *testing.T) {
	s := Schedule{SamplingRate: 0.01, Steps: 100, Neighbouring: AddRemove, Accountant: PLD, Delta: 1e-6}
	steps, reached, err := s.CalibrateSteps(2, 1.1)
	must(t, err)
	s.Steps = steps + max(1, steps/1000)
	over, err := s.Epsilon(1.1)
	must(t, err)
	if reached > 2 || over <= 2 {
		t.Errorf("%d steps give %v, %d give %v", steps, reached, s.Steps, over)
	}
	s.Steps = 100
	rate, reached, err := s.CalibrateSamplingRate(2, 1.1)
	must(t, err)
	if reached > 2 || reached < 2*(1-1e-4) {
		t.Errorf("rate %v gives %v", rate, reached)
	}
}

// Published systems that use the central limit say 6.59 here.
func TestCentralLimitUnderReports(t *testing.T) {
	r := account(t, PLD, AddRemove, 1e-5, PoissonBatch(0.04, 2250, Gaussian{1.5}))
	if r.Interval.Lower < 6.75 || r.Epsilon > 6.78 {
		t.Errorf("ε in %v, the true value is 6.769", *r.Interval)
	}
}

// The schedules of the learned-protection paper, through the accountant: the
// noise in units of C is twice that in units of the distance 2C.
func TestGoldenCtCDP(t *testing.T) {
	compared := 0
	for _, v := range vectors[struct {
		Eps, Delta, Q float64
		T             int
		Noise         float64 `json:"noise_mult"`
		Valid         bool
	}](t, "../internal/papers/testdata/ctcdp.json") {
		if !v.Valid {
			continue
		}
		e := Event{Sampling: FixedSize, Rate: v.Q, Mechanisms: []Mechanism{Gaussian{2 * v.Noise}}, Count: v.T}
		near(t, "ctcdp", account(t, CTCDP, ReplaceOne, v.Delta, e).Epsilon, v.Eps, 1e-9)
		compared++
	}
	if compared < 3 {
		t.Errorf("compared %d schedules", compared)
	}
}

// Where a grid cannot tell, the figure is Rényi's or infinite, never too small:
// so many steps at a rate so low that untilted masses overflow; steps that lose nothing for nearly all records; and losses
// of very different size on one batch.
func TestExtremeSchedules(t *testing.T) {
	manySteps.epsilon(t)
	atExtremes(t, []extreme{
		{PoissonBatch(1e-300, 1, Gaussian{1}), 0},
		{PoissonBatch(0.01, 10, Pure{1e-9}), 0},
		{PoissonBatch(1, 1, Gaussian{1e200}), 0},
	})
	// Far out a Gaussian's δ underflows, and is not 0.
	for _, name := range []string{PLD, GDP, ZCDP, RDP} {
		epsilon := 60.0
		r, err := Account([]Event{{Mechanisms: []Mechanism{Gaussian{1}}, Count: 1}}, Options{Accountant: name, Neighbouring: AddRemove, Epsilon: &epsilon})
		if err != nil || !(r.Delta > 0) {
			t.Errorf("%s: δ %v at ε = 60, %v", name, r.Delta, err)
		}
	}
	r := account(t, RDP, ReplaceOne, 1e-5, PoissonBatch(0.5, 1, Gaussian{1e200}))
	if math.IsInf(r.Epsilon, 0) {
		t.Errorf("almost infinite noise costs %v", r.Epsilon)
	}
}

// TestLongExtremeSchedules takes even more steps, and δ of many, which takes seconds.
func TestLongExtremeSchedules(t *testing.T) {
	atExtremes(t, []extreme{manySteps, {PoissonBatch(1e-9, 1_000_000_000, Gaussian{1}), 1e-5}})
}

var manySteps = extreme{PoissonBatch(1.3213e-7, 300_000_000, Gaussian{1}), 0.005}

// extreme is a schedule with what its true ε is known to exceed.
type extreme struct {
	event Event
	least float64
}

func (c extreme) epsilon(t *testing.T) {
	t.Helper()
	r := account(t, PLD, AddRemove, 1e-5, c.event)
	renyi := account(t, RDP, AddRemove, 1e-5, c.event).Epsilon
	if !(r.Epsilon >= c.least && r.Epsilon <= renyi*(1+1e-12) && r.Interval.Lower <= r.Epsilon) {
		t.Errorf("%v: ε %v in %v, at least %v; Rényi's bound is %v", c.event, r.Epsilon, *r.Interval, c.least, renyi)
	}
}

func atExtremes(t *testing.T, list []extreme) {
	t.Helper()
	for _, c := range list {
		c.epsilon(t)
		epsilon := 0.5
		d, err := Account([]Event{c.event}, Options{Accountant: PLD, Neighbouring: AddRemove, Epsilon: &epsilon})
		if err != nil || !(d.Delta > 0 && d.Delta <= 1) {
			t.Errorf("%v: δ %v at ε = .5, %v", c.event, d.Delta, err)
		}
	}
}

func TestInfiniteEndsAreNull(t *testing.T) {
	for i, want := range map[Interval]string{{1, 2.5}: `{"lower":1,"upper":2.5}`, {0, math.Inf(1)}: `{"lower":0,"upper":null}`} {
		if b, err := json.Marshal(&i); err != nil || string(b) != want {
			t.Errorf("%v: %s, %v, want %s", i, b, err, want)
		}
	}
}
