package accountant

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func risk(t *testing.T, name string, n Neighbouring, events ...Event) *Risk {
	t.Helper()
	r, err := RiskOf(events, Options{Accountant: name, Neighbouring: n, Delta: 1e-5})
	if err != nil || r == nil {
		t.Fatalf("%s: %v, %v", name, r, err)
	}
	return r
}

// Every accountant's risk is at least that of the Gaussian in closed form, 2Φ(μ/2)−1 and
// Φ(Φ⁻¹(α)+μ); the exact ones' is that.
func TestRiskOfGaussian(t *testing.T) {
	normal := func(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
	for _, n := range []Neighbouring{AddRemove, ReplaceOne} {
		for _, sigma := range []float64{0.7, 3, 100} {
			events := []Event{{Mechanisms: []Mechanism{Gaussian{2 * sigma}}, Count: 4}}
			mu := n.distance() / sigma
			for _, name := range []string{PLD, GDP, RDP, ZCDP} {
				r := risk(t, name, n, events...)
				exact := name == PLD || name == GDP
				hold := func(what string, got, want float64) {
					t.Helper()
					if got < want || exact && got > want*(1+1e-9) || got > 1 {
						t.Errorf("%s, %s, μ %v: %s %v, truly %v", name, n, mu, what, got, want)
					}
				}
				hold("advantage", r.Advantage, 2*normal(mu/2)-1)
				for key, fpr := range map[string]float64{"0.001": 0.001, "0.01": 0.01, "0.05": 0.05} {
					hold(key, r.TPR[key], normal(mu-math.Sqrt2*math.Erfcinv(2*fpr)))
				}
			}
		}
	}
}

// Upper ends: what Rényi's bound says is no less than what the loss distribution does, and
// neither is above what (ε, δ) alone implies. All grow with what is asked.
func TestRisksHold(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	between := func(low, high float64) float64 { return math.Exp(math.Log(low) + math.Log(high/low)*random.Float64()) }
	for i := range 12 {
		n := []Neighbouring{AddRemove, ReplaceOne}[i%2]
		q, sigma, steps := between(1e-3, 0.5), between(0.7, 20), int(between(1, 1000))
		e := PoissonBatch(q, steps, Gaussian{sigma})
		tight, loose := risk(t, PLD, n, e), risk(t, RDP, n, e)
		alone := RiskAt(account(t, PLD, n, 1e-5, e).Epsilon, 1e-5)
		more := risk(t, PLD, n, PoissonBatch(q, steps+1+steps/5, Gaussian{0.95 * sigma}))
		ordered := func(what string, a, b, c, d float64) {
			t.Helper()
			if !(0 < a && a <= 1.01*b && a <= 1.01*c && a <= d && b <= 1 && c <= 1) {
				t.Errorf("%v, %s: %s %v by pld, %v by rdp, %v of (ε, δ) alone, %v where more is asked", e, n, what, a, b, c, d)
			}
		}
		ordered("advantage", tight.Advantage, loose.Advantage, alone.Advantage, more.Advantage)
		for fpr := range tight.TPR {
			ordered(fpr, tight.TPR[fpr], loose.TPR[fpr], alone.TPR[fpr], more.TPR[fpr])
		}
	}
}

// (ε, 0) is randomised response at worst, and δ adds at most itself.
func TestRiskAt(t *testing.T) {
	r := RiskAt(1, 0)
	near(t, "advantage", r.Advantage, math.Tanh(0.5), 1e-12)
	near(t, "TPR", r.TPR["0.01"], 0.01*math.E, 1e-12)
	near(t, "TPR", RiskAt(5, 0).TPR["0.05"], 1-math.Exp(-5)*0.95, 1e-12)
	near(t, "with δ", RiskAt(1, 1e-3).Advantage, (math.E-1+2e-3)/(math.E+1), 1e-12)
	if r := RiskAt(math.Inf(1), 1e-5); r != nil {
		t.Errorf("an infinite ε implies %v", r)
	}
	raw, err := json.Marshal(RiskAt(0, 0))
	if want := `{"advantage":0,"tpr_at_fpr":{"0.001":0.001`; err != nil || !strings.HasPrefix(string(raw), want) {
		t.Errorf("%s, %v, want %s…", raw, err, want)
	}
}

// No risk where there is no guarantee, and that of (ε, δ) where no more is known.
func TestRiskWithoutCurve(t *testing.T) {
	e := PoissonBatch(0.01, 100, Gaussian{1})
	for _, c := range []struct {
		name  string
		event Event
	}{{PRV, e}, {Paper, e}, {PLD, PoissonBatch(0.01, 1, Gaussian{0})}} {
		if r, err := RiskOf([]Event{c.event}, Options{Accountant: c.name, Neighbouring: AddRemove, Delta: 1e-5}); r != nil || err != nil {
			t.Errorf("%s, %v: %v, %v", c.name, c.event, r, err)
		}
	}
	subset := SubsetBatch(0.001, 10, Gaussian{40})
	r := risk(t, CTCDP, ReplaceOne, subset)
	if want := RiskAt(account(t, CTCDP, ReplaceOne, 1e-5, subset).Epsilon, 1e-5); r.Advantage != want.Advantage {
		t.Errorf("ctcdp: %v, want %v", r, want)
	}
}

// A grid that is too coarse leaves Rényi's bound.
func TestLongRiskOfRareLosses(t *testing.T) {
	far := PoissonBatch(1e-9, 1_000_000_000, Gaussian{1})
	if r, bound := risk(t, PLD, AddRemove, far), risk(t, RDP, AddRemove, far); !(r.Advantage <= bound.Advantage) {
		t.Errorf("pld %v, rdp %v", r, bound)
	}
}

// Calibration for an attack's advantage ends below its target, and near it.
func TestCalibrateByAdvantage(t *testing.T) {
	for _, name := range []string{PLD, RDP} {
		s := Schedule{SamplingRate: 0.01, Steps: 300, Neighbouring: AddRemove, Accountant: name}
		sigma, reached, err := s.ByAdvantage().Calibrate(0.1)
		must(t, err)
		if got := risk(t, name, AddRemove, s.Events(sigma)...).Advantage; got != reached || got > 0.1 || got < 0.1*(1-1e-4) {
			t.Errorf("%s: σ %v is said to give %v, and gives %v", name, sigma, reached, got)
		}
	}
	s := Schedule{SamplingRate: 0.01, Steps: 300, Neighbouring: AddRemove, Accountant: PRV}.ByAdvantage()
	_, _, err := s.Calibrate(0.1)
	refused(t, err, "prv", "no guarantee")
	for _, target := range []float64{0, 1, math.NaN()} {
		_, _, err = s.Calibrate(target)
		refused(t, err, "advantage", "above 0 and below 1")
	}
}

// Too little noise to certify is said in words of what was asked for.
func TestCalibrateNeedlessNoise(t *testing.T) {
	s := Schedule{SamplingRate: 0.01, Steps: 10, Neighbouring: AddRemove, Accountant: PLD, Delta: 1e-5}
	_, _, err := s.Calibrate(1e6)
	refused(t, err, "epsilon 1e+06", "almost no noise", "lower epsilon")
	s.Delta = 0.5
	_, _, err = s.Calibrate(3)
	refused(t, err, "delta 0.5", "almost no noise", "or delta")
	if Doubt(20) != "" || Doubt(math.Inf(1)) != "" || !strings.Contains(Doubt(21), "epsilon 21") {
		t.Error("doubts are for finite ε above 20")
	}
}
