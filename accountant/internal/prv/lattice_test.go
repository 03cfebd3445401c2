package prv

import (
	"math"
	"testing"
)

func one(t testing.TB, steps []Step, replaceOne bool) []list {
	t.Helper()
	lists, err := directions(steps, replaceOne)
	check(t, err)
	return lists
}

func TestInverse(t *testing.T) {
	for _, l := range []loss{
		{GaussianNoise, 1, 1, false}, {GaussianNoise, 0.01, 1, false}, {GaussianNoise, 1e-6, 0.1, false},
		{GaussianNoise, 0.999, 5, false}, {GaussianNoise, 0.5, 20, false}, {GaussianNoise, 1, 20, false},
		{GaussianNoise, 0.01, 1, true}, {GaussianNoise, 0.5, 20, true}, {GaussianNoise, 1e-6, 0.1, true}, {GaussianNoise, 0.999, 5, true},
		{LaplaceNoise, 1, 2, false}, {LaplaceNoise, 0.1, 0.5, false}, {LaplaceNoise, 0.5, 20, false},
	} {
		low, high := -9.0, 9+l.size
		if l.noise == LaplaceNoise {
			low, high = 0.01*l.size, 0.99*l.size
		}
		for i := range 200 {
			x := low + (high-low)*float64(i)/199
			y := l.at(x)
			// Where the loss is flat in double precision, x is lost.
			slope := (l.at(x+1e-4) - l.at(x-1e-4)) / 2e-4
			if tolerance := 1e-11 + 1e-14*(1+math.Abs(y))/slope; tolerance < 1e-3 && math.Abs(l.inverse(y)-x) > tolerance {
				t.Fatalf("%+v at %v: loss %v, back at %v", l, x, y, l.inverse(y))
			}
		}
	}
}

// E[e^{sY}] is E_Q[(P/Q)^{s+1}]: for Poisson Gaussians a binomial sum at
// integers, closed for plain ones, and near 1 at s = −1 whatever the pair.
func TestMoments(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	for _, mu := range []float64{0.01, 0.5, 1, 4, 20} {
		v := newVariable(loss{GaussianNoise, 1, mu, false}, false, 1, 12/mu)
		for _, s := range []float64{-12, -1, 0.5, 12} {
			near("plain", v.logMoment(s/mu), s/mu*(s/mu+1)*mu*mu/2)
		}
		near("mean", v.mean, mu*mu/2)
	}
	for _, q := range []float64{1e-3, 0.2, 0.9} {
		for _, mu := range []float64{0.1, 1, 2} {
			for _, add := range []bool{false, true} {
				v := newVariable(loss{GaussianNoise, q, mu, false}, add, 1, 8)
				for alpha := 2; alpha <= 8; alpha++ {
					sum, binomial := 0.0, 1.0
					for l := 0; l <= alpha; l++ {
						sum += binomial * math.Pow(1-q, float64(alpha-l)) * math.Pow(q, float64(l)) * math.Exp(float64(l*l-l)*mu*mu/2)
						binomial *= float64(alpha-l) / float64(l+1)
					}
					s := float64(alpha - 1)
					if add {
						s = -float64(alpha)
					}
					near("binomial", v.logMoment(s), math.Log(sum))
				}
			}
			for _, v := range []*variable{
				newVariable(loss{GaussianNoise, q, mu, true}, false, 1, 8),
				newVariable(loss{LaplaceNoise, q, mu, false}, false, 1, 8),
				newVariable(loss{LaplaceNoise, q, mu, false}, true, 1, 8),
			} {
				near("total", v.logMoment(0), 0)
				near("the other density's total", v.logMoment(-1), 0)
			}
		}
	}
	v := newVariable(loss{LaplaceNoise, 1, 1.5, false}, false, 1, 8)
	near("Laplace", v.logMoment(2), math.Log(3./5*math.Exp(2*1.5)+2./5*math.Exp(-3*1.5)))
}

// The cells' probabilities sum to 1, and with the shift they have the
// variable's mean, also where the circle is far shorter than the variable's range.
func TestSpread(t *testing.T) {
	for _, steps := range [][]Step{{gaussian(0.1, 1, 1)}, {gaussian(1, 0.5, 1)}, {laplace(0.3, 1, 1)}, {laplace(1, 2, 1)}} {
		for _, l := range one(t, steps, false) {
			for _, mesh := range []float64{0.5, 0.013, 0.0007} {
				cells := make([]float64, 1<<16)
				shift := l[0].spread(cells, mesh)
				total, mean := 0.0, 0.0
				for i, p := range cells {
					if i >= len(cells)/2 {
						i -= len(cells)
					}
					total += p
					mean += p * float64(i) * mesh
				}
				if math.Abs(total-1) > 1e-13 || math.Abs(mean+shift-l[0].mean) > 1e-12 || math.Abs(shift) > mesh/2 {
					t.Errorf("%+v, mesh %v: total %v, mean %v and shift %v for %v", steps, mesh, total, mean, shift, l[0].mean)
				}
				short := make([]float64, 64)
				if s := l[0].spread(short, mesh); s != shift {
					t.Errorf("%+v, mesh %v: shift %v on a short circle, %v on a long one", steps, mesh, s, shift)
				}
				for i, p := range cells {
					short[i%64] -= p
				}
				for _, d := range short {
					if math.Abs(d) > 1e-13 {
						t.Fatalf("%+v, mesh %v: probabilities move on a short circle by %v", steps, mesh, d)
					}
				}
			}
		}
	}
}

// Lattices of few cells have wide intervals, and each holds what a fine one
// gives. At sampling rate 1e-4 a release varies by 1e-4, less than the mesh: without
// the match of means all of it would round to nothing.
func TestCoarseLattices(t *testing.T) {
	for _, c := range []struct {
		steps      []Step
		replaceOne bool
	}{
		{[]Step{gaussian(1e-4, 1, 100_000)}, false},
		{[]Step{gaussian(0.02, 0.8, 500), laplace(0.1, 0.4, 50)}, false},
		{[]Step{gaussian(0.02, 0.8, 500), gaussian(1, 20, 3)}, true},
	} {
		const d = 1e-6
		fine := epsilon(t, c.steps, c.replaceOne, d)
		lists := one(t, c.steps, c.replaceOne)
		for most := 1 << 13; most <= 1<<17; most *= 2 {
			var r Result
			for _, l := range lists {
				got, err := l.compose(d/1000, 1, most)
				check(t, err)
				if len(got.p) > most {
					t.Errorf("%d cells, %d allowed", len(got.p), most)
				}
				r = r.or(Result{got.epsilon(d+got.deltaError) - got.epsilonError, got.epsilon(d), got.epsilon(d-got.deltaError) + got.epsilonError})
			}
			if r.Lower > fine.Upper || r.Upper < fine.Lower || math.Abs(r.Estimate-fine.Estimate) > 0.3*(r.Upper-r.Lower) {
				t.Errorf("%+v, %d cells: %+v, but %+v when fine", c.steps, most, r, fine)
			}
		}
	}
}

// The rounding that Hoeffding's inequality is tight for: k values of ±ε₀ on a
// mesh of nearly 2ε₀ are rounded to ±2ε₀, each by half a mesh, and the sum's
// deviation doubles. Of the exact one, ε₀√k, ε is some 4.7 too large, of which
// ε_error must make up for all; it is √(2·ln(4/δ_error)) = 6.6 of them.
func TestWorstRounding(t *testing.T) {
	const size, d = 0.02, 1e-6
	for k := 4000; k < 7000; k += 20 {
		l := one(t, []Step{laplace(1, size, k)}, false)[0]
		coarse, err := l.compose(d/1000, 1, 1<<10)
		if err != nil || coarse.mesh < 1.93*size || coarse.mesh > 1.99*size {
			continue
		}
		exact := epsilon(t, []Step{laplace(1, size, k)}, false, d)
		if coarse.epsilon(d) < 1.5*exact.Estimate {
			t.Errorf("epsilon %v of %d cells is near %v: the case shows nothing", coarse.epsilon(d), len(coarse.p), exact.Estimate)
		}
		if lower := coarse.epsilon(d+coarse.deltaError) - coarse.epsilonError; lower > exact.Lower {
			t.Errorf("%d releases: at least %v by %d cells, but %+v", k, lower, len(coarse.p), exact)
		}
		return
	}
	t.Error("no case found")
}

// Both curves of a lattice are one curve.
func TestLatticeCurves(t *testing.T) {
	for _, l := range one(t, []Step{gaussian(0.05, 1, 200)}, false) {
		c, err := l.compose(1e-9, 1, 1<<14)
		check(t, err)
		for _, e := range []float64{0, 0.1, 0.77, 2} {
			if back := c.epsilon(c.delta(e)); math.Abs(back-e) > 1e-9 {
				t.Errorf("epsilon %v came back as %v", e, back)
			}
		}
	}
}

// What the transform leaves where the exact probability is below 1e-17 is
// rounding. The allowance is ten times what was seen; here it may not be
// more than a fifth of it.
func TestRounding(t *testing.T) {
	for _, s := range []Step{
		gaussian(1, 1./3, 1), gaussian(0.01, 1, 100), gaussian(0.001, 1.5, 1000), gaussian(1, 33, 10_000), gaussian(0.001, 1.5, 1_000_000),
	} {
		for _, l := range one(t, []Step{s}, false) {
			c, err := l.compose(1e-17, 0.1, 1<<19)
			check(t, err)
			_, high := l.tails(math.Log(1e17))
			for i := range 50 {
				e := high * (1 - 0.002*float64(i))
				if left := math.Abs(c.delta(e)) - l.probability(e); left > rounding(c.count)/5 {
					t.Errorf("%+v: %v at %v, allowed %v", s, left, e, rounding(c.count))
					break
				}
			}
		}
	}
}
