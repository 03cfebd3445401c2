package banco

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/dpoptim/banco"
	"github.com/privgrad/privgrad/dpoptim/banco/client"
	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/reproducetest"
)

func TestPage(t *testing.T) {
	o := reproducetest.Tiny(t)
	o.Seeds = 2
	s := reproducetest.Run(t, figure, o)
	rs := reproducetest.CheckOutputs(t, figure, s, reproduce.QuickLabel)
	cells := 2*len(lengths)*(len(betting)+2*len(factors)) + 1 + len(betting) + 1 + len(signals)
	if s.Runs != o.Seeds*cells || len(s.Skipped) != 1 {
		t.Errorf("%d runs of %d cells, left out: %q", s.Runs, cells, s.Skipped)
	}
	for _, c := range s.Claims {
		if c.Verdict == reproduce.Unmeasured || strings.Contains(c.Found, "NaN") {
			t.Errorf("%+v", c)
		}
	}
	for _, r := range rs {
		if r.TrainLoss == nil || !(*r.TrainLoss >= 0) || math.IsInf(*r.TrainLoss, 0) {
			t.Errorf("a record is %+v", r)
		}
	}
}

// In three dimensions, against a sum over the sphere by its longitudes and latitudes.
func TestExcess(t *testing.T) {
	w := []float64{0.7, -0.4, 1.1}
	for _, v := range []world{{absolute, 3, 2, 0.3}, {logistic, 3, 2, 0}} {
		const n = 1000
		sum := 0.0
		for i := range n {
			z := 2*(float64(i)+0.5)/n - 1 // Archimedes: uniform
			for j := range n {
				a := 2 * math.Pi * (float64(j) + 0.5) / n
				x := []float64{math.Sqrt(1-z*z) * math.Cos(a), math.Sqrt(1-z*z) * math.Sin(a), z}
				at := w[0]*x[0] + w[1]*x[1] + w[2]*x[2]
				if v.loss == absolute {
					sum += (0.7*math.Abs(at-2*x[0]) + 0.3*math.Abs(at+2*x[0]) - 0.3*math.Abs(4*x[0])) / (n * n)
					continue
				}
				p := 1 / (1 + math.Exp(-2*x[0]))
				risk := func(u float64) float64 { return p*math.Log1p(math.Exp(-u)) + (1-p)*math.Log1p(math.Exp(u)) }
				sum += (risk(at) - risk(2*x[0])) / (n * n)
			}
		}
		if got := v.excess(w); math.Abs(got-sum) > 2e-5 {
			t.Errorf("%s: %v, by a sum %v", v.loss, got, sum)
		}
		if got := v.excess([]float64{2, 0, 0}); math.Abs(got) > 1e-12 {
			t.Errorf("%s: %v at w*", v.loss, got)
		}
	}
}

// The mean of 40,000 gradients along a direction is the slope of the excess, within six deviations: by chance it is not once in
// 10⁸ runs.
func TestGradient(t *testing.T) {
	for _, v := range []world{{absolute, 4, 1, 0.2}, {logistic, 4, 3, 0}} {
		random := rand.New(rand.NewPCG(1, 2))
		w, g := []float64{0.5, 1, -0.3, 0.2}, make([]float64, 4)
		for axis := range 2 {
			up, down := slices.Clone(w), slices.Clone(w)
			up[axis] += 1e-5
			down[axis] -= 1e-5
			want := (v.excess(up) - v.excess(down)) / 2e-5
			const n = 40_000
			sum, squares := 0.0, 0.0
			for range n {
				v.gradient(w, g, random)
				sum, squares = sum+g[axis], squares+g[axis]*g[axis]
				if norm := math.Sqrt(g[0]*g[0] + g[1]*g[1] + g[2]*g[2] + g[3]*g[3]); norm > 1+1e-12 {
					t.Fatalf("a gradient of norm %v", norm)
				}
			}
			mean := sum / n
			if deviation := math.Sqrt((squares/n - mean*mean) / n); math.Abs(mean-want) > 6*deviation {
				t.Errorf("%s, axis %d: %v ± %v, want %v", v.loss, axis, mean, deviation, want)
			}
		}
	}
}

// Fast reports have the law of the clients': by the Kolmogorov–Smirnov distance of 5,000 each, which is above the
// threshold by chance less than once in 10⁷ runs a figure.
func TestFastNoiseHasTheClientsLaw(t *testing.T) {
	const n, d = 5000, 3
	p, err := banco.New(2, 1, d)
	if err != nil {
		t.Fatal(err)
	}
	gradient := []float64{0.6, -0.2, 0.1}
	for name, law := range map[string]banco.Params{"gamma": p, "hemisphere": p.OnSphere()} {
		c, err := client.NewSeeded(law, 7)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(3, 4))
		var quick reporter = newGamma(law, random)
		if name == "hemisphere" {
			quick = &hemisphere{law, random, make([]float64, d)}
		}
		var found [2][2][]float64 // by maker: first values, norms of the rest
		for maker, r := range []reporter{quick, inIntegers{c}} {
			for range n {
				g := slices.Clone(gradient)
				if err := r.report(g); err != nil {
					t.Fatal(err)
				}
				found[maker][0], found[maker][1] = append(found[maker][0], g[0]), append(found[maker][1], math.Hypot(g[1], g[2]))
			}
		}
		limit := math.Sqrt(math.Log(2e7)/2) * math.Sqrt(2.0/n)
		for i := range 2 {
			if got := distance(found[0][i], found[1][i]); got > limit {
				t.Errorf("%s: figure %d has a distance of %v, at most %v", name, i, got, limit)
			}
		}
		other := newGamma(p, random) // another law is told apart
		if name == "gamma" {
			other.length.Alpha = d - 1
		}
		var wrong []float64
		for range n {
			g := slices.Clone(gradient)
			if err := other.report(g); err != nil {
				t.Fatal(err)
			}
			wrong = append(wrong, math.Hypot(g[1], g[2]))
		}
		if got := distance(wrong, found[1][1]); got <= limit {
			t.Errorf("%s: another law has a distance of %v", name, got)
		}
	}
}

// distance is the largest gap between two empirical laws of as many values.
func distance(a, b []float64) float64 {
	slices.Sort(a)
	slices.Sort(b)
	most, j := 0.0, 0
	for i, x := range a {
		for j < len(b) && b[j] <= x {
			j++
		}
		most = max(most, math.Abs(float64(i+1-j)/float64(len(a))))
	}
	return most
}

// SGD by hand, and a run that is interrupted.
func TestSGD(t *testing.T) {
	s := &sgd{rate: 0.5, w: make([]float64, 1), sum: make([]float64, 1)}
	for _, g := range []float64{1, -3} {
		if err := s.Update([]float64{g}); err != nil {
			t.Fatal(err)
		}
	}
	if s.Point()[0] != 1 || s.Average()[0] != -0.25 { // 0, −0.5, 1
		t.Errorf("at %v, on average %v", s.Point(), s.Average())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tuned.learn(ctx, world{loss: absolute, dim: 1, length: 1}, 1, []int{10}, 1); err == nil {
		t.Error("an interrupted run goes on")
	}
}

// Theorem 2's worst case is between nothing to learn and nothing in the way.
func TestSlope(t *testing.T) {
	if got := gradient([]float64{0, 1, 2}, []float64{5, 4.5, 4}); math.Abs(got+0.5) > 1e-15 {
		t.Errorf("a slope of %v", got)
	}
}

// Slopes are over two factors of ten, evenly by their logarithms.
func TestDecades(t *testing.T) {
	got := decades(&reproduce.Env{Options: reproduce.Options{Work: 1}})
	if want := []int{10000, 21544, 46416, 100000, 215443, 464159, 1000000}; !slices.Equal(got, want) {
		t.Errorf("slopes are over %v reports, want %v", got, want)
	}
}
