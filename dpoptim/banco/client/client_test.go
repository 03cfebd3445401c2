package client

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/dpoptim/banco"
)

func params(t testing.TB, epsilon, bound float64, dim int) banco.Params {
	t.Helper()
	p, err := banco.New(epsilon, bound, dim)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func seeded(t testing.TB, p banco.Params, seed uint64) *Client {
	t.Helper()
	c, err := NewSeeded(p, seed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A hundred reports a law: of a key of the system's, no two alike; gradients stay as they are.
func TestReports(t *testing.T) {
	for _, p := range []banco.Params{params(t, 1, 2, 7), params(t, 1, 2, 7).OnSphere()} {
		c, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		seen, gradient := map[float64]bool{}, []float64{3, 0, 0, 0, 0, 0, 1}
		for range 100 {
			r, err := c.Report(gradient)
			if err != nil || len(r) != 7 || seen[r[0]] {
				t.Fatalf("%v, %v", r, err)
			}
			seen[r[0]] = true
		}
		if c.Reports() != 100 || gradient[0] != 3 {
			t.Errorf("%d reports of %v", c.Reports(), gradient)
		}
	}
	if _, err := New(banco.Params{}); err == nil {
		t.Error("a client without settings is made")
	}
}

// A report's mean is the gradient, and its mean square that of Params: within six deviations of the mean of
// 5,000 reports, which is left less than once in 10⁸ runs a figure.
func TestMoments(t *testing.T) {
	const n, d, bound = 5000, 5, 2
	for _, p := range []banco.Params{params(t, 2, bound, d), params(t, 2, bound, d).OnSphere()} {
		c, gradient := seeded(t, p, 1), []float64{1, 0, -0.5, 0, 0.2}
		mean, square := make([]float64, d), 0.0
		for range n {
			r, err := c.Report(gradient)
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range r {
				mean[i] += x / n
				square += x * x / n
			}
		}
		want := p.SecondMoment()
		if p.Radius() == 0 {
			want += 1.29
		}
		// A Gamma radius r of shape d has Var r² < 5·E[r²]² for d ≥ 1.
		if math.Abs(square-want) > 6*want*math.Sqrt(5./n) || p.Radius() > 0 && math.Abs(square-want) > 1e-9*want {
			t.Errorf("mean square %v, want %v", square, want)
		}
		for i, x := range mean {
			if off := 6 * math.Sqrt(want/d/n) * 1.5; math.Abs(x-gradient[i]) > off {
				t.Errorf("mean of coordinate %d is %v, want %v within %v", i, x, gradient[i], off)
			}
		}
	}
}

// The length of the noise has the distribution Gamma(d, 2G/ε), and on a line it is Laplace: within a distance that
// the inequality of Dvoretzky, Kiefer and Wolfowitz leaves to one in 10⁹.
func TestNoiseLaw(t *testing.T) {
	const n = 3000
	for d, law := range map[int]func(x float64) float64{
		1: func(x float64) float64 { return 1 - math.Exp(-x) },
		3: func(x float64) float64 { return 1 - math.Exp(-x)*(1+x+x*x/2) },
	} {
		p := params(t, 0.5, 3, d)
		c, lengths, above := seeded(t, p, 7), make([]float64, n), 0
		for i := range lengths {
			r, err := c.Report(make([]float64, d))
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for _, x := range r {
				sum += x * x
			}
			if lengths[i] = math.Sqrt(sum) / p.RadiusScale(); r[0] > 0 {
				above++
			}
		}
		slices.Sort(lengths)
		most := 0.0
		for i, x := range lengths {
			most = max(most, law(x)-float64(i)/n, float64(i+1)/n-law(x))
		}
		if most > math.Sqrt(math.Log(2e9)/(2*n)) || math.Abs(float64(above)/n-0.5) > 3/math.Sqrt(n) { // six deviations
			t.Errorf("d = %d: the distance of the distributions is %v, %d of %d above 0", d, most, above, n)
		}
	}
}

// Clients and server together, without a mechanism between them and nobody's step size: on |⟨w, x⟩ − y| they come
// near the weights that y was made of.
func TestLearns(t *testing.T) {
	const d, rounds = 3, 6000
	for _, p := range []banco.Params{params(t, 4, 1, d), params(t, 4, 1, d).OnSphere()} {
		c, s := seeded(t, p, 2), banco.NewServer(p)
		want := []float64{0.5, -0.3, 0.2}
		for i := range rounds {
			w, g := s.Point(), make([]float64, d)
			k := i % d
			g[k] = 1
			if w[k] < want[k] {
				g[k] = -1
			}
			r, err := c.Report(g)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Update(r); err != nil {
				t.Fatal(err)
			}
		}
		excess, zero := 0.0, 0.0
		for k, x := range s.Average() {
			excess += math.Abs(x-want[k]) / d
			zero += math.Abs(want[k]) / d
		}
		t.Logf("excess %v of %v", excess, zero)
		if excess > zero/3 {
			t.Errorf("excess risk %v, at zero %v", excess, zero)
		}
	}
}

func BenchmarkReport(b *testing.B) {
	for _, p := range []banco.Params{params(b, 1, 1, 1), params(b, 1, 1, 100), params(b, 1, 1, 100).OnSphere()} {
		b.Run("", func(b *testing.B) {
			c := seeded(b, p, 1)
			g := make([]float64, p.Dim())
			for b.Loop() {
				c.Report(g)
			}
		})
	}
}
