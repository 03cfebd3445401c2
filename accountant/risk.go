package accountant

import (
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant/internal/pld"
)

// A Risk bounds from above how well anyone can tell whether a given record was used, who sees
// all that was released, knows every other record and has any computing power that does not break the cipher
// of the noise. It is what ε means: both follow from one trade-off between the attack's two kinds of error.
type Risk struct {
	// Advantage is the largest difference of the true-positive and the false-positive rate at
	// any threshold, the total variation distance. Who guesses whether a record was used, where
	// either is as likely, is right with a probability of at most (1+Advantage)/2.
	Advantage float64 `json:"advantage"`
	// TPR is the true-positive rate by the false-positive rate, 0.001, 0.01 and 0.05: the share
	// of the records that are found out where that share of the others is suspected as well.
	TPR map[string]float64 `json:"tpr_at_fpr"`
}

// mostUseful is the ε above which a guarantee says next to nothing of any record.
const mostUseful = 20

// Doubt says that an ε is beyond use; empty: it is not.
func Doubt(epsilon float64) string {
	if !(epsilon > mostUseful) || math.IsInf(epsilon, 1) {
		return ""
	}
	return fmt.Sprintf("epsilon %.6g promises next to nothing: some outcomes may be e^%.6g times as likely with a record as without it; aim at 10 or less", epsilon, epsilon)
}

// falsePositiveRates are those of a Risk.
var falsePositiveRates = []float64{0.001, 0.01, 0.05}

// newRisk is that of an advantage, and of a true-positive rate at each false-positive rate.
func newRisk(advantage float64, tpr []float64) *Risk {
	r := &Risk{advantage, map[string]float64{}}
	for i, fpr := range falsePositiveRates {
		r.TPR[fmt.Sprint(fpr)] = tpr[i]
	}
	return r
}

// RiskOf is the risk of a list of events, nil where an accountant's figures are no guarantee
// or some release has no noise. It is never below the true one:
//
//   - pld and gdp take it from the certified curve δ(ε) of their pairs, at every ε in either
//     direction of the relation: the advantage is δ(0), the true-positive rate at α the
//     minimum of δ(ε)+α·e^ε (Dong, Roth and Su 2022, section 2; Kulynych et al. 2024);
//   - rdp and zcdp, which bound no such curve below ε = 0, from their (ε, δ) at many ε, each
//     by RiskAt;
//   - the others from their ε at o.Delta alone, by RiskAt, and so all for a group whose ε is converted.
func RiskOf(events []Event, o Options) (*Risk, error) {
	m, err := methodOf(o.Accountant)
	if err != nil {
		return nil, err
	}
	noNoise, err := check(events, o.Neighbouring)
	switch {
	case err != nil:
		return nil, err
	case m.why != "" || noNoise:
		return nil, nil
	case m.risk != nil && m.groupMethod(events, o) != GroupConverted:
		return risked.of(events, o, m.attack)
	}
	r, err := Account(events, o)
	if err != nil {
		return nil, err
	}
	return RiskAt(r.Epsilon, r.Delta), nil
}

// RiskAt is what (ε, δ) alone implies for attacks, whatever releases it came of (Kairouz, Oh and
// Viswanath 2015, theorem 2.1); nil where ε is infinite. A mechanism's own curve mostly implies
// much less.
func RiskAt(epsilon, delta float64) *Risk {
	if math.IsInf(epsilon, 1) {
		return nil
	}
	return riskBelow([]float64{epsilon}, func(float64) float64 { return delta })
}

// riskBelow is the least that points of a curve δ(ε) imply: without any, an attacker who is
// always right.
func riskBelow(epsilons []float64, delta func(epsilon float64) float64) *Risk {
	const up = 1 + 1e-14 // a few roundings
	advantage, tpr := 1.0, make([]float64, len(falsePositiveRates))
	for i := range tpr {
		tpr[i] = 1
	}
	for _, e := range epsilons {
		d := delta(e)
		advantage = min(advantage, up*(math.Tanh(e/2)+2*d/(1+math.Exp(e))))
		for i, fpr := range falsePositiveRates {
			tpr[i] = min(tpr[i], up*(d+math.Exp(e)*fpr), up*(1-math.Exp(-e)*(1-d-fpr)))
		}
	}
	return newRisk(advantage, tpr)
}

// riskGrid is 0 and ε from 1e-6 to 1e3, so dense that more would say nothing new.
func riskGrid() []float64 {
	const steps = 500
	grid := make([]float64, 1, steps+2)
	for i := range steps + 1 {
		grid = append(grid, math.Pow(10, -6+9*float64(i)/steps))
	}
	return grid
}

// riskOfPairs is that of releases that pairs dominate.
func riskOfPairs(steps []pld.Step, replaceOne bool) (*Risk, float64, error) {
	advantage, power, err := pld.Power(steps, replaceOne, falsePositiveRates)
	if err != nil {
		return nil, 0, err
	}
	tpr := make([]float64, len(power))
	for i := range power {
		tpr[i] = power[i].Upper
	}
	return newRisk(advantage.Upper, tpr), advantage.Upper - advantage.Lower, nil
}

// wideRisk is the relative width of an advantage above which Rényi's bound is asked, too.
const wideRisk = 1e-2

func pldRisk(events []Event, o Options) (*Risk, error) {
	steps, err := lossSteps(events, o.records())
	if err != nil {
		return nil, err
	}
	r, width, err := riskOfPairs(steps, o.Neighbouring == ReplaceOne)
	switch {
	case errors.Is(err, pld.ErrFine):
		r = riskBelow(nil, nil)
	case err != nil || width <= wideRisk*r.Advantage:
		return r, err
	}
	if renyi, err := rdpRisk(events, o); err == nil {
		r.Advantage = min(r.Advantage, renyi.Advantage)
		for fpr := range r.TPR {
			r.TPR[fpr] = min(r.TPR[fpr], renyi.TPR[fpr])
		}
	}
	return r, nil
}

func gdpRisk(events []Event, o Options) (*Risk, error) {
	step, err := gdp(events, o.distance())
	if err != nil {
		return nil, err
	}
	r, _, err := riskOfPairs(step, false)
	return r, err
}

func rdpRisk(events []Event, o Options) (*Risk, error) {
	c, err := o.curve(events, nil)
	if err != nil {
		return nil, err
	}
	return c.risk(), nil
}

// risk is what a curve says at many ε.
func (c Curve) risk() *Risk {
	return riskBelow(riskGrid(), func(epsilon float64) float64 {
		delta, _ := c.delta(epsilon)
		return delta
	})
}

func zcdpRisk(events []Event, o Options) (*Risk, error) {
	rho, err := zcdp(events, o.distance())
	if err != nil {
		return nil, err
	}
	return riskBelow(riskGrid(), func(epsilon float64) float64 { return zcdpDelta(rho, epsilon) }), nil
}
