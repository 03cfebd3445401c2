package accountant

import (
	"math"
	"sort"
)

// A groupPair is P = Σ wⱼN(jμ,1) against Q = N(0,1), with the weights of Binomial(records, q): what several records
// at once do to a Gaussian release of a Poisson batch (docs/proofs/groups.md).
//
// P/Q is Σ wⱼe^{−j²μ²/2}·xʲ at x = e^{μz}. All zeros of (1−q+qx)^records are negative. The factors e^{−j²μ²/2} are a
// multiplier sequence (Pólya and Schur 1914), which keeps that. So P/Q has zeros only where the imaginary part of
// z is an odd multiple of π/μ, as for one record.
type groupPair struct {
	mu   float64
	logs []float64 // ln wⱼ
}

func newGroupPair(q, mu, records float64) groupPair {
	p := groupPair{mu, []float64{records * math.Log1p(-q)}}
	odds := math.Log(q) - math.Log1p(-q)
	for j := 0.0; j < records; j++ {
		p.logs = append(p.logs, p.logs[len(p.logs)-1]+math.Log((records-j)/(j+1))+odds)
	}
	return p
}

// at is as for any pair. Terms of a sum whose logarithms are concave are added up from the largest on.
func (p groupPair) at(z float64) (logQ, u, d float64) {
	exponent := func(j int) float64 { x := float64(j) * p.mu; return x*z - x*x/2 }
	n := len(p.logs)
	top := sort.Search(n-1, func(j int) bool { return p.logs[j+1]+exponent(j+1) <= p.logs[j]+exponent(j) })
	add := func(f func(j int) (term float64, more bool)) (sum float64) {
		for j := top; j >= 0; j-- {
			term, more := f(j)
			if sum += term; !more {
				break
			}
		}
		for j := top + 1; j < n; j++ {
			term, more := f(j)
			if sum += term; !more {
				break
			}
		}
		return sum
	}
	most := p.logs[top] + exponent(top)
	u = most + math.Log(add(func(j int) (float64, bool) {
		x := p.logs[j] + exponent(j) - most
		return math.Exp(x), x > -45
	}))
	if math.Abs(u) > 0.5 {
		return logNormal(z), u, math.Expm1(u)
	}
	// Near 1 the ratio is 1 plus a sum that keeps its digits.
	d = add(func(j int) (float64, bool) {
		x := exponent(j)
		return math.Exp(p.logs[j]) * math.Expm1(x), p.logs[j]+math.Max(x, 0) > -120
	})
	return logNormal(z), math.Log1p(d), d
}

func (p groupPair) mass(alpha float64) (low, high float64) {
	return 0, math.Max(alpha, 2) * p.mu * float64(len(p.logs)-1)
}

func (p groupPair) step(float64) float64 { return trapezoidStep(p.mu, 1) }

// A mirroredGroup is a groupPair for E_Q[(Q/P)^{α−1}], which is E_Q[(P/Q)^{1−α}].
type mirroredGroup struct{ groupPair }

// mass reaches down as far as the integrand, which is Q·(P/Q)^{1−α}, can have its mode, and up as far as P.
func (p mirroredGroup) mass(alpha float64) (low, high float64) {
	all := p.mu * float64(len(p.logs)-1)
	return math.Min(0, alpha) * all, all
}

// On the line at height y each of the factors of P/Q, as many as there are records, may shrink by cos(μy/2), whose
// logarithm is above −μ²y²/4 within the strip.
func (p mirroredGroup) step(alpha float64) float64 {
	return trapezoidStep(p.mu, 1-alpha*float64(len(p.logs)-1)*p.mu*p.mu/2)
}

// mostGroupNodes bounds the places at which a divergence of a group is summed, and the records of such a group.
const (
	mostGroupNodes   = 1 << 16
	mostGroupRecords = 1 << 13
)

// rdpSampledGroup is the Rényi divergence of order alpha > 1 of Gaussian releases on a Poisson batch, in one of which a
// record moves the sum by mu, for so many records added or removed: the larger of both directions. Where there are too many places
// to sum over it is a bound.
func rdpSampledGroup(q, mu, records, alpha float64) float64 {
	if records > mostGroupRecords {
		return rdpManyRecords(q, mu, records, alpha)
	}
	p := newGroupPair(q, mu, records)
	m := mirroredGroup{p}
	places := func(low, high, step float64) float64 { return (high - low + 2*reach) / step }
	low, high := p.mass(alpha)
	if places(low, high, p.step(alpha)) > mostGroupNodes {
		return rdpManyRecords(q, mu, records, alpha)
	}
	there := logMoment(p, alpha)
	low, high = m.mass(1 - alpha)
	back := -(alpha - 1) * p.logs[0] // Q/P is at most (1−q)^{−records}
	if places(low, high, m.step(1-alpha)) <= mostGroupNodes {
		back = math.Min(back, logMoment(m, 1-alpha))
	}
	return math.Max(there, back) / (alpha - 1)
}

// rdpManyRecords is a bound in closed form: by Minkowski's inequality E_Q[(Σ wⱼLⱼ)^α]^{1/α} ≤ Σ wⱼe^{(α−1)j²μ²/2},
// and (1−q)^{−records} is the most that Q/P can be.
func rdpManyRecords(q, mu, records, alpha float64) float64 {
	var s logSum
	weight, odds := records*math.Log1p(-q), math.Log(q)-math.Log1p(-q)
	back := -weight
	for j := 0.0; j <= records; j++ {
		s.add(weight + (alpha-1)*j*j*mu*mu/2)
		if j < records {
			weight += math.Log((records-j)/(j+1)) + odds
		}
	}
	return math.Max(alpha/(alpha-1)*math.Max(s.log(), 0), back)
}
