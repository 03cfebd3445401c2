package accountant

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

func trialsOf(t *testing.T, text string) Trials {
	t.Helper()
	got, err := ParseTrials(text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// dp-accounting's price of the same selections, at the same orders. It finds γ to 1e-9, and leaves out the case of no trial.
func TestSelectionGolden(t *testing.T) {
	var cases []struct {
		Rate, Noise, Delta, Epsilon float64
		Steps                       int
		Trials                      string
	}
	text, err := os.ReadFile("testdata/selection.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	var orders []float64
	for i := 2; i < 64; i++ {
		orders = append(orders, float64(i))
	}
	orders = append(orders, 80, 128, 256, 512)
	kinds := map[bool]int{}
	for _, c := range cases {
		s := Selection{Candidates: [][]Event{{PoissonBatch(c.Rate, c.Steps, Gaussian{c.Noise})}}, Trials: trialsOf(t, c.Trials)}
		base, err := s.largest(AddRemove, orders)
		if err != nil {
			t.Fatal(err)
		}
		got, at := s.priced(base, orders).epsilon(c.Delta, tight)
		more := 0.0 // that no trial costs
		poisson, is := s.Trials.(PoissonTrials)
		if kinds[is]++; is {
			more = math.Log1p(math.Exp(-poisson.Mean)/poisson.Mean) / (orders[at] - 1)
		}
		if got < c.Epsilon*(1-1e-6) || got > (c.Epsilon+more)*(1+1e-6) {
			t.Errorf("%s of %d steps at rate %v, noise %v: ε = %v, dp-accounting has %v", c.Trials, c.Steps, c.Rate, c.Noise, got, c.Epsilon)
		}
		if r, err := s.Epsilon(AddRemove, c.Delta); err != nil || r.Epsilon > 1.001*got || r.Epsilon < 0.9*got {
			t.Errorf("%s: ε = %v over the default orders, %v over whole ones: %v", c.Trials, r.Epsilon, got, err)
		}
	}
	if kinds[true] < 10 || kinds[false] < 10 {
		t.Errorf("the cases have %d Poisson and %d other selections", kinds[true], kinds[false])
	}
}

// rise is the derivative of the probability generating function of a number of trials, by its definition.
func rise(trials Trials, x float64) float64 {
	switch t := trials.(type) {
	case PoissonTrials:
		return t.Mean * math.Exp(t.Mean*(x-1))
	case TruncatedNegativeBinomial:
		above := math.Pow(1-(1-t.Gamma)*x, -t.Eta-1) * (1 - t.Gamma)
		if t.Eta == 0 {
			return above / -math.Log(t.Gamma)
		}
		return above * t.Eta / (math.Pow(t.Gamma, -t.Eta) - 1)
	}
	return math.NaN()
}

// A world is a release with one of several settings, each as likely, and normal noise. Its score is what was released.
type world struct{ means, deviations []float64 }

// selected is the probability, or its density in y, of releasing setting i with score y as the best of a random number.
func (w world) selected(trials Trials, i int, y float64) float64 {
	below := 0.0 // the probability of a lower score
	for j, mean := range w.means {
		below += math.Erfc((mean-y)/w.deviations[j]/math.Sqrt2) / 2 / float64(len(w.means))
	}
	z := (y - w.means[i]) / w.deviations[i]
	density := math.Exp(-z*z/2) / w.deviations[i] / math.Sqrt(2*math.Pi)
	return density / float64(len(w.means)) * rise(trials, below)
}

// divergence is that of two selections, by the trapezoidal rule over all settings and scores, and the case of no trial.
func divergence(a, b world, trials Trials, order float64) (divergence, mass float64) {
	sum, none := 0.0, 0.0
	if p, is := trials.(PoissonTrials); is {
		none = math.Exp(-p.Mean)
	}
	sum, mass = none, none
	for i, deviation := range a.deviations {
		const step = 1.0 / 64
		for z := -40.0; z <= 40; z += step {
			y := z * deviation
			p, q := a.selected(trials, i, y), b.selected(trials, i, y)
			if p > 0 && q > 0 {
				sum += step * deviation * math.Exp(order*math.Log(p)+(1-order)*math.Log(q))
				mass += step * deviation * p
			}
		}
	}
	return math.Log(sum) / (order - 1), mass
}

// The price is never below the divergence of selections that can be integrated: of one or two settings, with normal noise of
// different size, in either direction, the score rising or falling with the record. Without one of its terms it would be.
func TestSelectionIsNeverBelow(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 10))
	uniform := func(a, b float64) float64 { return a + (b-a)*random.Float64() }
	wrong := map[string]int{}
	for range 120 {
		var trials Trials = PoissonTrials{math.Exp(uniform(-2, 3.5))}
		eta := 0.0
		if random.IntN(3) > 0 {
			eta = []float64{0, 1, uniform(-0.9, 3)}[random.IntN(3)]
			trials = TruncatedNegativeBinomial{eta, math.Exp(uniform(-5, -0.1))}
		}
		shift := float64(1 - 2*random.IntN(2))
		var without, with world
		s := Selection{Trials: trials}
		for range 1 + random.IntN(2) {
			noise := uniform(0.7, 5)
			without.means, without.deviations = append(without.means, 0), append(without.deviations, noise)
			with.means, with.deviations = append(with.means, shift), append(with.deviations, noise)
			s.Candidates = append(s.Candidates, []Event{{Mechanisms: []Mechanism{Gaussian{noise}}, Count: 1, Sampling: FullData}})
		}
		order := []float64{1.1, 1.5, 2, 3, 5, 8}[random.IntN(6)]
		c, err := s.Curve(AddRemove, []float64{order})
		if err != nil {
			t.Fatal(err)
		}
		base, err := s.largest(AddRemove, []float64{order})
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][2]world{{without, with}, {with, without}} {
			got, mass := divergence(pair[0], pair[1], trials, order)
			if math.Abs(mass-1) > 1e-6 {
				t.Fatalf("%s: the probabilities add up to %v", trials, mass)
			}
			if got > c.RDP[0]+1e-9 {
				t.Errorf("%s, order %v, noise %v: the divergence is %v, the price %v", trials, order, without.deviations, got, c.RDP[0])
			}
			if got > base.RDP[0]+1e-6 {
				wrong["one trial"]++
			}
			if p, is := trials.(PoissonTrials); is && got > base.RDP[0]+math.Log(p.Mean)/(order-1)+1e-6 {
				wrong["Poisson without its other terms"]++
			}
			if is := eta < 0; is && got > base.RDP[0]+1e-6 {
				wrong["η below 0"]++
			}
		}
	}
	for _, what := range []string{"one trial", "Poisson without its other terms", "η below 0"} {
		if wrong[what] == 0 {
			t.Errorf("no case shows that the price of %s is too low: the cases are too easy", what)
		}
	}
}

// A trial that does not depend on the data makes a selection that does not: its price is 0 at least, and small.
func TestSelectionOfNothing(t *testing.T) {
	for _, text := range []string{"tnb:0,0.1", "tnb:-0.5,0.01", "tnb:1,0.5", "poisson:0.01", "poisson:1", "poisson:10"} {
		s := Selection{[][]Event{{{Mechanisms: []Mechanism{Gaussian{1e6}}, Count: 1, Sampling: FullData}}}, trialsOf(t, text)}
		c, err := s.Curve(AddRemove, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range c.RDP {
			if !(r >= 0) {
				t.Errorf("%s: the divergence of order %v is %v", text, c.Orders[i], r)
			}
		}
		if r, err := s.Epsilon(AddRemove, 1e-5); err != nil || r.Epsilon > 0.2 {
			t.Errorf("%s: ε = %v: %v", text, r.Epsilon, err)
		}
	}
}

// The mean that the price uses is that of the weights by which the number is drawn.
func TestExpectedTrials(t *testing.T) {
	for _, text := range []string{"tnb:0,0.1", "tnb:1e-9,0.1", "tnb:-1e-14,0.01", "tnb:-0.5,0.01", "tnb:-0.999,0.3", "tnb:1,0.02", "tnb:3,0.2", "tnb:0,0.999", "poisson:0.3", "poisson:25"} {
		trials := trialsOf(t, text)
		const precision = 200
		k := trials.Least()
		weight, sum, mean := big.NewFloat(1).SetPrec(precision), new(big.Float).SetPrec(precision), new(big.Float).SetPrec(precision)
		for range 20000 {
			sum.Add(sum, weight)
			mean.Add(mean, new(big.Float).Mul(weight, big.NewFloat(float64(k))))
			ratio := new(big.Float).SetPrec(precision)
			trials.Ratio(ratio, k)
			weight.Mul(weight, ratio)
			k++
		}
		want, _ := mean.Quo(mean, sum).Float64()
		if got := trials.Expected(); math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: the mean is %v, the weights' %v", text, got, want)
		}
		if again := trialsOf(t, trials.String()); again != trials {
			t.Errorf("%s is read as %s", text, again)
		}
	}
}

// The largest curve decides at each order by itself.
func TestLargestCurve(t *testing.T) {
	few, many := []Event{PoissonBatch(0.01, 2000, Gaussian{1})}, []Event{PoissonBatch(1, 1, Gaussian{1.3})}
	s := Selection{[][]Event{few, many, few}, PoissonTrials{3}}
	for _, n := range []Neighbouring{AddRemove, ReplaceOne} {
		got, err := s.largest(n, defaultOrders())
		if err != nil {
			t.Fatal(err)
		}
		a, errA := NewCurve(few, n, nil)
		b, errB := NewCurve(many, n, nil)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		first := 0
		for i := range got.RDP {
			if got.RDP[i] != max(a.RDP[i], b.RDP[i]) {
				t.Errorf("%s, order %v: %v of %v and %v", n, got.Orders[i], got.RDP[i], a.RDP[i], b.RDP[i])
			}
			if a.RDP[i] > b.RDP[i] {
				first++
			}
		}
		if first == 0 || first == len(got.RDP) {
			t.Errorf("%s: one curve is above the other at all orders", n)
		}
	}
}

func TestParseTrialsRefuses(t *testing.T) {
	for _, text := range []string{"", "tnb", "tnb:1", "tnb:-1,0.1", "tnb:0,0", "tnb:0,1", "tnb:0,1e-9", "tnb:nan,0.1", "tnb:5,1e-3", "poisson:0", "poisson:-1", "poisson:1e9", "geometric:3", "poisson:1,2"} {
		if got, err := ParseTrials(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	for _, s := range []Selection{
		{nil, PoissonTrials{3}},
		{[][]Event{{}}, PoissonTrials{3}},
		{[][]Event{{{Mechanisms: []Mechanism{Gaussian{0}}, Count: 1, Sampling: FullData}}}, PoissonTrials{3}},
		{[][]Event{{PoissonBatch(0.01, 1, Gaussian{1})}}, TruncatedNegativeBinomial{-1, 0.5}},
	} {
		if r, err := s.Epsilon(AddRemove, 1e-5); err == nil {
			t.Errorf("%v costs %v", s, r.Epsilon)
		}
	}
}

// A calibration ends at the target or below, and no more than 1e-4 below where prices can be computed.
func TestLargestTrial(t *testing.T) {
	s := Selection{Trials: trialsOf(t, "tnb:0,0.1")}
	price := func(trial float64) (float64, error) {
		sigma, _, err := Schedule{SamplingRate: 0.02, Steps: 300, Neighbouring: AddRemove, Accountant: RDP, Delta: 1e-5}.Calibrate(trial)
		if err != nil {
			return 0, err
		}
		s.Candidates = [][]Event{{PoissonBatch(0.02, 300, Gaussian{sigma})}}
		r, err := s.Epsilon(AddRemove, 1e-5)
		return r.Epsilon, err
	}
	for _, target := range []float64{0.7, 3, 8} {
		trial, reached, err := LargestTrial(target, 1e-2, price)
		if err != nil || reached > target || reached < target*(1-1e-4) || !(trial < reached) {
			t.Errorf("ε = %v: %v by trials of %v: %v", target, reached, trial, err)
		}
	}
	if _, _, err := LargestTrial(0.001, 1e-2, price); !errors.Is(err, ErrBudget) {
		t.Errorf("a target below what a selection of nothing costs: %v", err)
	}
}

// Risk follows from the curve: it is never above that of (ε, δ) alone.
func TestSelectionRisk(t *testing.T) {
	s := Selection{[][]Event{{PoissonBatch(0.01, 500, Gaussian{1.2})}}, trialsOf(t, "tnb:0,0.1")}
	r, err := s.Epsilon(AddRemove, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Risk(AddRemove)
	alone := RiskAt(r.Epsilon, 1e-5)
	if err != nil || got.Advantage > alone.Advantage+1e-3 || got.Advantage < 0.05 || len(got.TPR) != len(alone.TPR) {
		t.Errorf("risk %v, by ε and δ alone %v: %v", got, alone, err)
	}
	if !slices.IsSorted([]float64{got.TPR["0.001"], got.TPR["0.01"], got.TPR["0.05"]}) {
		t.Errorf("true-positive rates %v", got.TPR)
	}
}
