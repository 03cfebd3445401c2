package accountant

import "math"

// BoundedRange is a release whose privacy losses, over all of its outputs, lie in an interval
// of length ε under add-remove: the exponential mechanism exp(ε·u/2Δ), where one record moves
// each utility u by at most Δ, up or down (Durfee and Rogers 2019). The interval may lie
// anywhere in [−ε, ε]. Replacing a record is removing one and adding another, and has range 2ε.
type BoundedRange struct {
	Epsilon float64 `json:"epsilon"`
}

var _ = register(BoundedRange{})

func (BoundedRange) Name() string { return "bounded-range" }

func (r BoundedRange) validate() error { return positive("epsilon", r.Epsilon) }

func (r BoundedRange) bound(distance float64) (bound, error) {
	epsilon := distance * r.Epsilon
	return bound{ranged: epsilon, pure: epsilon}, nil
}

// rdpRanged is the largest Rényi divergence of a release of range ε. Given the interval
// [t−ε, t], the worst has its ends as losses, of mean E[e^loss] 1 under the other data; with
// λ = α−1 and d = e^{−λε} the largest E[e^{λ·loss}] is at e^t = λ/(λ+1)·(e^ε−d)/(1−d), where it
// is e^{λt}·(e^ε−d)/((λ+1)(e^ε−1)). It is never above αε²/8 (Cesar and Rogers 2021).
func rdpRanged(epsilon, order float64) float64 {
	most, l := order*epsilon*epsilon/8, order-1
	if l*epsilon < 1e-3 || epsilon > 600 {
		return math.Min(most, epsilon)
	}
	less := -math.Expm1(-l * epsilon) // 1−d
	both := math.Expm1(epsilon) + less
	t := math.Log(l/order) + math.Log(both/less)
	r := (l*t + math.Log(both/(order*math.Expm1(epsilon)))) / l
	return math.Min(most, r*(1+1e-9))
}
