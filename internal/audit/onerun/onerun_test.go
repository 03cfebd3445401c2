package onerun

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/canary"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/plan"
)

// A world is a run of which guesses are simulated.
type world struct {
	rate  float64
	steps int
	noise float64
}

var worlds = []world{{.136, 147, 2.5}, {.033, 600, 1.1}, {.33, 121, 2.33}, {1, 50, 12}, {.2, 3, .7}}

func (w world) plan(t *testing.T, canaries int) *plan.Plan {
	t.Helper()
	c := config.Default()
	delta := 1e-5
	c.Recipe, c.Data, c.Model, c.Canaries = "", "fmnist", "logistic", canaries
	c.NoiseMultiplier, c.SamplingRate, c.Steps, c.Delta = &w.noise, &w.rate, &w.steps, &delta
	p, err := plan.Reprice(c, 60_000, 7850, 10)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// right simulates a run in which noise is so many times what the world says.
func (w world) right(random *rand.Rand, canaries int, noise float64) int {
	h, coins := canary.Silence(canaries), make([]bool, canaries)
	for i := range coins {
		h.Products[i] = noise * w.noise * math.Sqrt(float64(w.steps)) * random.NormFloat64()
		if coins[i] = random.IntN(2) == 1; coins[i] {
			for range w.steps {
				if random.Float64() < w.rate {
					h.Products[i]++
				}
			}
		}
	}
	return h.Guess(canary.Threshold(w.rate, 1, w.steps), coins)
}

// Of 1,000 correct runs in each world, one is convicted at most, on average. If it is one, 8 or more are convicted once in 10⁵ times. Half the noise is convicted as often as the power says, within five standard errors.
func TestRates(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	const runs, canaries, faulty = 1000, 500, 200
	for _, w := range worlds {
		r, err := judge(w.plan(t, canaries), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		convicted, found := 0, 0
		for range runs {
			if w.right(random, canaries, 1) >= r.Refuting {
				convicted++
			}
		}
		for range faulty {
			if w.right(random, canaries, .5) >= r.Refuting {
				found++
			}
		}
		t.Logf("%+v: ε = %.3g, %d of %d correct runs are convicted, %d of %d with half the noise (power %.4f)", w, r.Epsilon, convicted, runs, found, faulty, r.Power)
		if convicted > 7 {
			t.Errorf("%+v: %d of %d correct runs are convicted", w, convicted, runs)
		}
		if p := float64(found) / faulty; !(math.Abs(p-r.Power) <= 5*math.Sqrt(max(r.Power*(1-r.Power), 1./faulty)/faulty)) {
			t.Errorf("%+v: half the noise is convicted at %v, the power is %v", w, p, r.Power)
		}
	}
}

// What guesses prove grows with them. It passes the claim where the claim is refuted, and is the ε of the run with other noise that they just
// refute.
func TestLower(t *testing.T) {
	w := worlds[0]
	p := w.plan(t, 1000)
	last := 0.
	for _, right := range []int{480, 520, 560, 600, 640, 660, 690, 720, 800} {
		r, err := judge(p, right, 1)
		if err != nil {
			t.Fatal(err)
		}
		if r.EpsilonLower < last || r.Convicted != (r.EpsilonLower >= r.Epsilon) || r.Convicted != (right >= r.Refuting) {
			t.Errorf("%d right guesses: %+v behind %v", right, r, last)
		}
		if last = r.EpsilonLower; last == 0 {
			continue
		}
		chance := chanceOf(t, w, last)
		if tail := atLeast(1000, right, chance); tail > 1-Confidence || tail < (1-Confidence)/2 {
			t.Errorf("%d right guesses have a probability of %v at ε = %v", right, tail, last)
		}
	}
	if last == 0 {
		t.Error("800 of 1,000 right guesses prove nothing")
	}
}

// chanceOf is the probability of a right guess that goes with an ε, by a calibration of the noise.
func chanceOf(t *testing.T, w world, epsilon float64) float64 {
	t.Helper()
	o := accountant.Options{Accountant: accountant.PLD, Neighbouring: accountant.AddRemove, Delta: 1e-5}
	sigma, _, err := accountant.Schedule{SamplingRate: w.rate, Steps: w.steps, Accountant: o.Accountant, Neighbouring: o.Neighbouring, Delta: o.Delta}.Calibrate(epsilon)
	if err != nil {
		t.Fatal(err)
	}
	risk, err := accountant.RiskOf([]accountant.Event{accountant.PoissonBatch(w.rate, w.steps, accountant.Gaussian{NoiseMultiplier: sigma})}, o)
	if err != nil {
		t.Fatal(err)
	}
	return (1 + risk.Advantage) / 2
}

// The tail of the binomial distribution by its sum.
func TestAtLeast(t *testing.T) {
	for _, n := range []int{1, 7, 40} {
		for _, p := range []float64{.1, .5, .62, .97} {
			tail, term := 0., math.Pow(p, float64(n))
			for right := n; right >= 0; right-- {
				tail += term
				term *= float64(right) / float64(n-right+1) * (1 - p) / p
				if got := atLeast(n, right, p); math.Abs(got-tail) > 1e-12 {
					t.Errorf("%d of %d at %v: %v, want %v", right, n, p, got, tail)
				}
			}
		}
	}
	if atLeast(10, 0, .5) != 1 || atLeast(10, 11, .5) != 0 || atLeast(10, 11, 1) != 0 || atLeast(10, 10, 1) != 1 || refuting(3, .9) != 4 {
		t.Error("at the ends")
	}
}
