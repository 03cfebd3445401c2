package papers

import (
	"math"
	"math/rand/v2"
	"testing"
)

// This file has what docs/proofs/pur.md says of the schedules and of the paper's slips.

// quadratic is F(θ) = Σ h_i·θ_i²/2, on which the moments of noisy gradient descent are known.
type quadratic []float64

// step takes E θ_i² through a step.
func (h quadratic) step(square []float64, eta, sigma float64) {
	for i := range h {
		shrink := 1 - eta*h[i]
		square[i] = shrink*shrink*square[i] + eta*eta*sigma*sigma
	}
}

func (h quadratic) loss(square []float64) (f float64) {
	for i := range h {
		f += h[i] * square[i] / 2
	}
	return f
}

func deviations(s *PUR) (all []float64) {
	for i := range s.Steps {
		all = append(all, s.Sigma(i))
	}
	return all
}

// Schedule (c) on quadratics: the simulated excess is that of the exact recursion, within 5.5
// standard errors (a false reject in 2·10⁷ by the normal law; the seed is fixed), and the
// recursion stays within F0·r^T at every step and every k.
func TestStronglyConvexExcess(t *testing.T) {
	curvatures := map[string]quadratic{"flat": {0.05, 0.05, 0.05}, "steep": {0.35, 0.35, 0.35}, "both": {0.05, 0.1, 0.35}}
	source := rand.New(rand.NewPCG(1, 2))
	for name, h := range curvatures {
		for _, k := range []float64{0, 0.5, 1, 2, 5} {
			p := Problem{Records: 1000, Dim: len(h), Lipschitz: 1, Smoothness: 0.35, StrongConvexity: 0.05, K: k}
			start := []float64{2, -1, 1.5}
			square := []float64{4, 1, 2.25}
			p.InitialGap = h.loss(square)
			s := must(NewPUR(PURStronglyConvex, p, 0.003))(t)
			sigmas := deviations(s)
			r, _ := s.decay.Float64()
			bound := p.InitialGap
			for i := range s.Steps {
				h.step(square, s.LearningRate, s.Sigma(i))
				if bound *= r; h.loss(square) > bound*(1+1e-9) {
					t.Fatalf("%s, k=%v: E F is %v after %d steps, the bound %v", name, k, h.loss(square), i+1, bound)
				}
			}
			const runs = 4000
			sum, squares := 0.0, 0.0
			for range runs {
				w := append([]float64(nil), start...)
				for i := range s.Steps {
					for j := range w {
						w[j] -= s.LearningRate * (h[j]*w[j] + sigmas[i]*source.NormFloat64())
					}
				}
				f := 0.0
				for j := range w {
					f += h[j] * w[j] * w[j] / 2
				}
				sum += f / runs
				squares += f * f / runs
			}
			if want, deviation := h.loss(square), math.Sqrt((squares-sum*sum)/runs); math.Abs(sum-want) > 5.5*deviation {
				t.Errorf("%s, k=%v: the simulated E F is %v ± %v after %d steps, the recursion has %v", name, k, sum, deviation, s.Steps, want)
			}
		}
	}
}

// Proposition 3(a) as printed does not hold for F(x) = 50x²; with the factor M it does. The
// form that scales holds with any k.
func TestPropositionThreeA(t *testing.T) {
	h := quadratic{100}
	for _, k := range []float64{0, 0.5, 1, 2, 3} {
		p := Problem{Records: 1000, Dim: 1, Lipschitz: 1, Smoothness: 100, InitialGap: 50, K: k}
		s := must(NewPUR(PURNonConvex, p, 1e-5))(t)
		square, sum := []float64{1}, 0.0
		for i := range s.Steps {
			sum += h[0] * h[0] * square[0] // ‖∇F‖²
			h.step(square, s.LearningRate, s.Sigma(i))
		}
		m, third := p.Smoothness, math.Pi*math.Pi/3
		bound := 2 * m * ((1+k*k)*(1+k*k) + 4*third*k*k) / (1 + 2*k*k) * p.InitialGap
		if k == 0 {
			printed := 8 * (third*m + 1) * p.InitialGap / 3
			if sum < 50*printed || s.Steps < 3 {
				t.Errorf("the sum of squares is %v after %d steps, the printed bound %v", sum, s.Steps, printed)
			}
			bound = m * printed
		}
		if sum > bound {
			t.Errorf("k=%v: the sum of squares is %v after %d steps, the bound %v", k, sum, s.Steps, bound)
		}
	}
}

// At the last step that a budget ρ pays for, F0·r^T of schedule (c) is (2κ−1)·L²d/(N²μρ) but
// for that step and the start; equation (11) prints it without 2κ−1.
func TestEquationEleven(t *testing.T) {
	p := Problem{Records: 60000, Dim: 50, Lipschitz: 1, Smoothness: 0.251, StrongConvexity: 0.001, InitialGap: math.Ln2}
	const rho = 0.5
	s := must(NewPUR(PURStronglyConvex, p, rho))(t)
	kappa := p.Smoothness / p.StrongConvexity
	r, _ := s.decay.Float64()
	n := float64(p.Records)
	printed := p.Lipschitz * p.Lipschitz * float64(p.Dim) / (n * n * p.StrongConvexity * rho)
	excess := p.InitialGap * math.Pow(r, float64(s.Steps))
	if ratio := excess / (printed * (2*kappa - 1)); ratio < 0.97 || ratio > 1/r {
		t.Errorf("F0·r^T is %v times (2κ−1)·(11)", ratio)
	}
	// A quadratic of curvature μ, where what is left of the start is F0·r^{2T}, exceeds (11).
	h, square := quadratic{}, []float64{}
	for range p.Dim {
		h, square = append(h, p.StrongConvexity), append(square, 2*p.InitialGap/p.StrongConvexity/float64(p.Dim))
	}
	for i := range s.Steps {
		h.step(square, s.LearningRate, s.Sigma(i))
	}
	if got := h.loss(square); got < 10*printed || got > excess {
		t.Errorf("the excess is %v, (11) says %v, (2) %v", got, printed, excess)
	}
}

// What composes is 1/σ². Its ratio to a step's gain, at the best learning rate, falls in σ
// and has no minimum; at σ = ‖∇F‖/√d it is twice the infimum, at k times that 1+1/k² times.
func TestTheCriterion(t *testing.T) {
	const norm, d, m = 0.3, 20.0, 0.7
	ratio := func(sigma float64) float64 {
		best := 0.0
		for i := 1; i <= 4000; i++ { // over η
			eta := float64(i) / 4000 / m
			best = max(best, (eta-m*eta*eta/2)*norm*norm-m*eta*eta*d*sigma*sigma/2)
		}
		return 1 / (sigma * sigma) / best
	}
	infimum := 2 * m * d / math.Pow(norm, 4)
	last := math.Inf(1)
	for k := 0.25; k <= 8; k *= 2 {
		got := ratio(k * norm / math.Sqrt(d))
		if got >= last {
			t.Errorf("the price of a gain rises at k=%v", k)
		}
		near(t, "the price over its infimum", got/infimum, 1+1/(k*k), 1e-2)
		last = got
	}
}

// |x| is convex and Lipschitz, and the descent lemma fails for it at every M.
func TestAbsoluteValue(t *testing.T) {
	for _, m := range []float64{1, 1e3, 1e9} {
		eta := 1 / (2 * m)
		x := eta / 4
		if gain, lemma := x-math.Abs(x-eta), eta-m*eta*eta/2; gain >= lemma || gain > 0 {
			t.Errorf("M=%v: a step from %v gains %v, the lemma says %v", m, x, gain, lemma)
		}
	}
}

// Schedule (b) with its projection, on convex losses that are linear, quadratic or flat:
// E F stays within 16(1+k²)MR²/T. The mean of 100 runs is below a fortieth of
// the bound, so no seed would fail this.
func TestProjectedExcess(t *testing.T) {
	source := rand.New(rand.NewPCG(3, 4))
	const radius, m, d = 2.0, 0.5, 4
	target := []float64{1, -1, 0.5, 1} // of norm below 2
	huber := func(u, scale float64) (loss, slope float64) {
		if a := math.Abs(u); a > scale {
			return m * scale * (a - scale/2), math.Copysign(m*scale, u)
		}
		return m * u * u / 2, m * u
	}
	for _, scale := range []float64{0.01, 0.3, 10} {
		for _, k := range []float64{0.5, 1, 2} {
			s := must(NewPUR(PURConvex, Problem{Records: 2000, Dim: d, Lipschitz: 1, Smoothness: m, Radius: radius, K: k}, 0.1))(t)
			sigmas, mean := deviations(s), 0.0
			for range 100 {
				w := make([]float64, d)
				for i := range s.Steps {
					norm := 0.0
					for j := range w {
						_, slope := huber(w[j]-target[j], scale)
						w[j] -= s.LearningRate * (slope + sigmas[i]*source.NormFloat64())
						norm += w[j] * w[j]
					}
					for j := range w {
						w[j] *= min(1, radius/math.Sqrt(norm))
					}
				}
				for j := range w {
					loss, _ := huber(w[j]-target[j], scale)
					mean += loss / 100
				}
			}
			if bound := 16 * (1 + k*k) * m * radius * radius / float64(s.Steps); mean > bound {
				t.Errorf("scale %v, k=%v: the excess is %v after %d steps, the bound %v", scale, k, mean, s.Steps, bound)
			}
		}
	}
}
