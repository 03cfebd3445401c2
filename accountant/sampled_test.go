package accountant

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// vectors reads golden values from a file.
func vectors[T any](t *testing.T, name string) []T {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	var v []T
	must(t, json.Unmarshal(raw, &v))
	if len(v) == 0 {
		t.Fatalf("%s holds no vectors", name)
	}
	return v
}

// integral is ∫f over the line by the midpoint rule, for f of scale 1 with
// kinks at whole multiples of 1/16.
func integral(f func(x float64) float64) float64 {
	sum, h := 0.0, 1.0/4096
	for x := -60 + h/2; x < 60; x += h {
		sum += f(x) * h
	}
	return sum
}

func TestLaplaceRDP(t *testing.T) {
	for _, epsilon := range []float64{0.25, 1, 4} {
		for _, order := range []float64{1.5, 2, 7} {
			want := math.Log(integral(func(x float64) float64 {
				p, q := math.Abs(x-epsilon), math.Abs(x)
				return math.Exp(-order*p+(order-1)*q) / 2
			})) / (order - 1)
			near(t, "laplace", rdpLaplace(epsilon, order), want, 1e-6)
		}
	}
	// Towards pure ε, and towards αε²/2, each without overflow or cancellation.
	near(t, "high order", rdpLaplace(3, 1e5), 3, 1e-4)
	near(t, "small ε", rdpLaplace(1e-7, 3), 3e-14/2, 1e-6)
	near(t, "huge ε", rdpLaplace(1e5, 2), 1e5, 1e-5)
}

func TestPureRDP(t *testing.T) {
	for _, epsilon := range []float64{1e-3, 0.25, 1, 4} {
		for _, order := range []float64{1.5, 2, 7, 20} {
			p := 1 / (1 + math.Exp(-epsilon))
			sum := math.Pow(p, order)*math.Pow(1-p, 1-order) + math.Pow(1-p, order)*math.Pow(p, 1-order)
			near(t, "pure", rdpPure(epsilon, order), math.Log(sum)/(order-1), 1e-9)
			if l := rdpLaplace(epsilon, order); l > rdpPure(epsilon, order) {
				t.Errorf("Laplace noise of ε = %v diverges by %v at order %v, more than any ε-private release can", epsilon, l, order)
			}
		}
	}
	near(t, "huge order", rdpPure(2, 1e6), 2, 1e-5)
	near(t, "small ε", rdpPure(1e-8, 3), 1.5e-16, 1e-6)
}

// sameBatch are settings of the line search paper, δ = 1e-8, q = 1/200, T = 1000.
type sameBatch struct {
	Rho      float64
	Joint    float64 `json:"joint_lemma4_prop1"`
	Separate float64 `json:"paper_separate_lemma4_prop1"`
	PLD      float64 `json:"joint_pld"`
	TwoPLD   float64 `json:"two_batches_pld"`
}

// The general bound under Poisson sampling, as the paper evaluates it.
func TestGoldenGeneralBound(t *testing.T) {
	for _, v := range vectors[sameBatch](t, "testdata/a2_same_batch.json") {
		b := batch{q: 1. / 200, bounds: []bound{{mu: math.Sqrt(2 * v.Rho)}}}
		best := math.Inf(1)
		for a := 2.0; a < 64; a++ {
			r, err := b.rdp(a, (*batch).poisson)
			must(t, err)
			best = min(best, proposition1(1000*r, a, 1e-8))
		}
		near(t, "joint", best, v.Joint, 1e-9)
	}
}

// What holds of every mechanism is never below what is known of the Gaussian,
// and amplification never costs more than none.
func TestGeneralBoundsAreAboveTheExact(t *testing.T) {
	for _, mu := range []float64{0.1, 0.5, 1, 3} {
		for _, q := range []float64{1e-3, 0.02, 0.3, 0.9} {
			b := batch{q: q, bounds: []bound{{mu: mu}}}
			for _, order := range []float64{1.3, 2, 3.7, 16, 63} {
				got, err := b.rdp(order, (*batch).poisson)
				must(t, err)
				if exact := rdpSampledGaussian(q, 1/mu, order, AddRemove); got < exact*(1-1e-9) {
					t.Errorf("μ %v, q %v, order %v: the general bound %v is below the exact divergence %v", mu, q, order, got, exact)
				}
			}
		}
	}
}

// Subsets of fixed size: the published bound, in units of the distance.
func TestGoldenFixedSize(t *testing.T) {
	compared := 0
	for _, v := range vectors[struct {
		T, Delta, Q float64
		Noise       float64 `json:"noise_mult"`
		Want        float64 `json:"rdp_eps_wor_wang"`
	}](t, "../internal/papers/testdata/ctcdp.json") {
		if v.Want == 0 {
			continue
		}
		b := batch{q: v.Q, bounds: []bound{{mu: 1 / v.Noise}}}
		best := math.Inf(1)
		for a := 2.0; a <= 256; a++ {
			if a > 64 && a != 128 && a != 256 { // the reference's orders
				continue
			}
			r, err := b.rdp(a, (*batch).fixedSize)
			must(t, err)
			best = min(best, tight(v.T*r, a, v.Delta))
		}
		near(t, "fixed size", best, v.Want, 1e-9)
		compared++
	}
	if compared < 5 {
		t.Errorf("compared %d values", compared)
	}
}

func TestFixedSizeAccounts(t *testing.T) {
	batch := func(q float64, m ...Mechanism) Event {
		return Event{Sampling: FixedSize, Rate: q, Mechanisms: m, Count: 100}
	}
	for _, m := range []Mechanism{Gaussian{2}, Laplace{3}, Pure{0.2}} {
		small := account(t, RDP, ReplaceOne, 1e-6, batch(0.01, m)).Epsilon
		large := account(t, RDP, ReplaceOne, 1e-6, batch(0.1, m)).Epsilon
		whole := account(t, RDP, ReplaceOne, 1e-6, Event{Mechanisms: []Mechanism{m}, Count: 100}).Epsilon
		if !(small < large) || !(large < whole*2) {
			t.Errorf("%s: ε %v at q = .01, %v at .1, %v of all records", m.Name(), small, large, whole)
		}
		if same := account(t, RDP, ReplaceOne, 1e-6, batch(1, m)).Epsilon; same != whole {
			t.Errorf("%s: a batch of all records costs %v, all records %v", m.Name(), same, whole)
		}
		_, err := Account([]Event{batch(0.1, m)}, Options{Accountant: RDP, Neighbouring: AddRemove, Delta: 1e-6})
		refused(t, err, "fixed-size", "replace-one")
	}
}

// A Poisson batch of what is not Gaussian: within the exact pure bound, and
// replace-one, for which no bound is known, is refused.
func TestPoissonBatchesOfOtherMechanisms(t *testing.T) {
	const q, epsilon = 0.1, 0.5
	e := PoissonBatch(q, 1, Pure{epsilon})
	c, err := NewCurve([]Event{e}, AddRemove, nil)
	must(t, err)
	for i, order := range c.Orders {
		if most := rdpPure(math.Log1p(q*math.Expm1(epsilon)), order); c.RDP[i] > most*(1+1e-9) {
			t.Errorf("order %v: divergence %v of an amplified release that is randomised response of %v at most", order, c.RDP[i], most)
		}
	}
	both := PoissonBatch(q, 50, Gaussian{2}, Laplace{2})
	joint := account(t, RDP, AddRemove, 1e-6, both).Epsilon
	for _, part := range both.Mechanisms {
		if less := account(t, RDP, AddRemove, 1e-6, PoissonBatch(q, 50, part)).Epsilon; less >= joint {
			t.Errorf("%s alone costs %v, with another release on its batch %v", part.Name(), less, joint)
		}
	}
	for _, m := range []Mechanism{Laplace{2}, Pure{1}} {
		_, err := Account([]Event{PoissonBatch(q, 1, m)}, Options{Accountant: RDP, Neighbouring: ReplaceOne, Delta: 1e-6})
		refused(t, err, "Poisson", "add-remove")
	}
	_, err = NewCurve([]Event{both}, AddRemove, []float64{5000})
	refused(t, err, "order 5000", "4096")
}
