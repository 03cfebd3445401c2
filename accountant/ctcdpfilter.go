package accountant

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/papers"
)

// A ctcdpFilter admits Gaussian releases of fixed-size batches, at one rate and under
// replace-one, as long as all together stay within a budget that is spent in
// constrained truncated concentrated privacy (Hong et al. 2021). The prices may
// be chosen by looking at earlier releases: at the one order that turns the budget
// into (ε, δ) what is added up are Rényi divergences, as a Filter does.
type ctcdpFilter struct {
	plan  papers.CtCDP
	meter // of ρ
}

// newCtCDPFilter sets the budget (ε, δ) and the rate q = n_B/N.
func newCtCDPFilter(epsilon, delta, rate float64) (*ctcdpFilter, error) {
	if err := checkTarget(epsilon); err != nil {
		return nil, err
	}
	p, err := papers.NewCtCDP(epsilon, delta, rate, 1)
	return &ctcdpFilter{plan: p, meter: meter{budget: p.Total}}, err
}

// Ask is that of a Budget; the constraints must hold as well.
func (f *ctcdpFilter) Ask(e Event) error {
	s, err := ctcdp(e)
	if err != nil {
		return err
	}
	if e.Rate != f.plan.SamplingRate {
		return fmt.Errorf("rate %v: this budget is spent at rate %v", e.Rate, f.plan.SamplingRate)
	}
	least, err := papers.CtCDPEpsilon([]papers.Steps{{Rho: s.Rho, Count: 1}}, e.Rate, f.plan.Delta)
	if err != nil {
		return papers.Refuse("%v", err)
	}
	if least > f.plan.Epsilon {
		return papers.Refuse("a step of ρ = %.6g needs epsilon %.6g by the constraints of ctCDP, which is above %v", s.Rho, least, f.plan.Epsilon)
	}
	total := math.Nextafter(f.spent+float64(e.Count)*papers.AmplifiedCost(e.Rate, s.Rho), math.Inf(1))
	if !(total <= f.budget) {
		return papers.Refuse("a release would bring ρ to %.6g, of %.6g that epsilon %v at delta %v allows", total, f.budget, f.plan.Epsilon, f.plan.Delta)
	}
	f.spent = total
	return nil
}

// SoFar leaves out the constraints.
func (f *ctcdpFilter) SoFar() float64 {
	return f.spent + 2*math.Sqrt(-f.spent*math.Log(f.plan.Delta))
}
