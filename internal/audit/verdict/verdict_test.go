package verdict

import (
	"math"
	"testing"

	"github.com/privgrad/privgrad/accountant"
)

// tailOf is P(X ≤ k) of a binomial, summed in logs.
func tailOf(k, n int, p float64) float64 {
	s := 0.0
	for i := range k + 1 {
		s += probability(i, n, p)
	}
	return s
}

func probability(k, n int, p float64) float64 {
	lgamma := func(x int) float64 { y, _ := math.Lgamma(float64(x)); return y }
	return math.Exp(lgamma(n+1) - lgamma(k+1) - lgamma(n-k+1) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// gaussian claims exactly what one Gaussian of this μ does (Dong, Roth and Su
// 2022, corollary 1).
func gaussian(mu float64) *Claim {
	k := &Claim{Epsilon: 4, Delta: 1e-5}
	for i := range 400 {
		e := float64(i) / 100
		k.Curve = append(k.Curve, Point{normal(mu/2-e/mu) - math.Exp(e)*normal(-mu/2-e/mu), math.Exp(e), math.Exp(-e)})
	}
	return k
}

// At a limit, as few events as were seen, or as many, have probability Tail.
func TestClopperPearson(t *testing.T) {
	for _, x := range []struct{ k, n int }{{0, 10}, {0, 1500}, {1, 1500}, {7, 50}, {30, 1500}, {750, 1500}, {1499, 1500}, {9, 10}, {5999, 24000}} {
		if got := tailOf(x.k, x.n, upperLimit(x.k, x.n)); math.Abs(got/Tail-1) > 1e-7 {
			t.Errorf("%d of %d: at the upper limit %v they have probability %v", x.k, x.n, upperLimit(x.k, x.n), got)
		}
		if x.k > 0 {
			if got := 1 - tailOf(x.k-1, x.n, lowerLimit(x.k, x.n)); math.Abs(got/Tail-1) > 1e-7 {
				t.Errorf("%d of %d: at the lower limit %v they have probability %v", x.k, x.n, lowerLimit(x.k, x.n), got)
			}
		}
	}
	if upperLimit(5, 5) != 1 || lowerLimit(0, 5) != 0 {
		t.Errorf("limits of all and nothing: %v and %v", upperLimit(5, 5), lowerLimit(0, 5))
	}
	if want := 1 - math.Pow(Tail, 1.0/200); math.Abs(upperLimit(0, 200)/want-1) > 1e-9 {
		t.Errorf("0 of 200: %v, want %v", upperLimit(0, 200), want)
	}
}

// The curve that follows from δ(ε) is the trade-off function of the mechanism:
// the error rates of the likelihood-ratio test for exact δ(ε), and no more than
// those for an accountant's, which must not claim less noise than there is.
func TestLeastFNR(t *testing.T) {
	exact := gaussian(1)
	one := accountant.PoissonBatch(1, 1, accountant.Gaussian{NoiseMultiplier: 1})
	rdp, err := NewClaim([]accountant.Event{one}, accountant.Options{Accountant: accountant.PLD, Neighbouring: accountant.AddRemove, Delta: 1e-5})
	if err != nil {
		t.Fatal(err)
	}
	last := 1.0
	for z := -3.0; z <= 4; z += 0.125 {
		fpr, fnr := normal(-z), normal(z-1)
		if got := exact.LeastFNR(fpr); math.Abs(got-fnr) > 2e-4 {
			t.Errorf("at FPR %v the claim allows FNR %v, the best test has %v", fpr, got, fnr)
		}
		if got := rdp.LeastFNR(fpr); got > fnr || got < fnr/4-0.02 {
			t.Errorf("at FPR %v the accountant allows FNR %v, the best test has %v", fpr, got, fnr)
		}
	}
	for fpr := 0.0; fpr <= 1; fpr += 0.01 {
		if got := rdp.LeastFNR(fpr); got > last || got < 0 {
			t.Errorf("at FPR %v the claim allows FNR %v after %v", fpr, got, last)
		} else {
			last = got
		}
	}
	if e := epsilonFrom(0, 0.1, 0.2); math.Abs(e-math.Log(0.8/0.1)) > 1e-12 {
		t.Errorf("ε of error rates 0.1 and 0.2: %v", e)
	}
	if e := epsilonFrom(0, 1, 0.6); e != 0 { // NaN, once
		t.Errorf("rates worse than guessing leave ε of %v, want 0", e)
	}
	if e := epsilonFrom(0, 0.5, 0.5); e != 0 {
		t.Errorf("ε of a coin: %v", e)
	}
}

// On the claim's own curve the probability of a conviction, summed over all
// outcomes, is at most 2·Tail, wherever the threshold lies. Well below it an
// audit does convict.
func TestConvictsSeldom(t *testing.T) {
	k := gaussian(1)
	d := NewDesign(400, k)
	for _, z := range []float64{-2, -1, 0, 0.5, 1, 1.5, 2, 3} {
		p0, p1 := normal(-z), normal(z-1)
		convicted, truly := 0.0, 0.0
		for i := range d.Count + 1 {
			for j := range d.Count + 1 {
				if d.Convicts(i, j) {
					convicted += probability(i, d.Count, p0) * probability(j, d.Count, p1)
					truly += probability(i, d.Count, normal(-z)) * probability(j, d.Count, normal(z-3))
				}
			}
		}
		if convicted > 2*Tail {
			t.Errorf("at FPR %v a correct mechanism is convicted with probability %v", p0, convicted)
		}
		if z == 1.5 && truly < 0.99 {
			t.Errorf("three times the μ is convicted with probability %v only", truly)
		}
	}
}

// A threshold lies between the worlds where it can, also where values repeat.
func TestThreshold(t *testing.T) {
	d := NewDesign(800, gaussian(1))
	a, b := make([]float64, d.Choose), make([]float64, d.Choose)
	for i := range b {
		b[i] = 10
	}
	if x := d.Threshold(a, b, d.Margin); x != 5 {
		t.Errorf("between zeros and tens: %v", x)
	}
	if x := d.Threshold(a, a, d.Margin); x != 0 {
		t.Errorf("of zeros alone: %v", x)
	}
}

// The threshold comes from the first runs alone, and errors from the others
// alone, or the limits would hold for nothing.
func TestThresholdRunsAreNotCounted(t *testing.T) {
	k := gaussian(1)
	d := NewDesign(800, k)
	var stats [2][]float64
	for world := range stats {
		for i := range d.Choose + d.Count {
			x := float64(world) // told apart at ½
			if i >= d.Choose {
				x = float64(1 - world) // where the other world would be told
				if i%4 == 0 {
					x = float64(world)
				}
			}
			stats[world] = append(stats[world], x)
		}
	}
	v := d.Judge(stats, k)
	if math.Abs(v.FPR.Rate-0.75) > 0.01 || math.Abs(v.FNR.Rate-0.75) > 0.01 || v.Convicted || v.Epsilon != 0 {
		t.Errorf("%+v, want both rates 0.75", v)
	}
	if v.FPR.Lower > v.FPR.Rate || v.FPR.Upper < v.FPR.Rate || d.Choose+d.Count != 400 || d.Choose != 100 {
		t.Errorf("%+v of %d and %d runs", v, d.Choose, d.Count)
	}
}
