package accountant

import "math"

// Pure is any release of which no more is known than that it is (ε, 0)-private
// under add-remove, such as the exponential mechanism. Replacing a record is
// removing one and adding another, and costs 2ε.
type Pure struct {
	Epsilon float64 `json:"epsilon"`
}

var _ = register(Pure{})

func (Pure) Name() string { return "pure" }

func (p Pure) validate() error { return positive("epsilon", p.Epsilon) }

func (p Pure) bound(distance float64) (bound, error) { return bound{pure: distance * p.Epsilon}, nil }

// rdpPure is the Rényi divergence of randomised response, p = 1/(1+e^ε):
// ln((1−p)^α·p^{1−α} + p^α·(1−p)^{1−α})/(α−1) (Mironov 2017, proposition 5).
func rdpPure(epsilon, order float64) float64 {
	// (e^{αε} + e^{(1−α)ε})/(1+e^ε) − 1 = (e^{αε}−1)(1−e^{−(α−1)ε})/(1+e^ε)
	a, b := order*epsilon, (order-1)*epsilon
	if a > 30 {
		return (a + math.Log1p(math.Exp(-a-b)) - epsilon - math.Log1p(math.Exp(-epsilon))) / (order - 1)
	}
	return math.Log1p(math.Expm1(a)*-math.Expm1(-b)/(1+math.Exp(epsilon))) / (order - 1)
}
