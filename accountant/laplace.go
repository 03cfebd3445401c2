package accountant

import "math"

// Laplace adds Laplace noise to a number; it is (1/Scale, 0)-private under
// add-remove.
type Laplace struct {
	Scale float64 `json:"scale"` // b over the most that one record moves the number
}

var _ = register(Laplace{})

func (Laplace) Name() string { return "laplace" }

func (l Laplace) validate() error { return positive("scale", l.Scale) }

func (l Laplace) bound(distance float64) (bound, error) {
	epsilon := distance / l.Scale
	return bound{laplace: epsilon, pure: epsilon}, nil
}

// rdpLaplace is the Rényi divergence between Laplace distributions of scale
// 1/ε at distance 1 (Mironov 2017, table II):
// ln(α/(2α−1)·e^{(α−1)ε} + (α−1)/(2α−1)·e^{−αε})/(α−1).
func rdpLaplace(epsilon, order float64) float64 {
	up, down := (order-1)*epsilon, order*epsilon
	if up > 30 {
		return epsilon + (math.Log(order/(2*order-1))+math.Log1p((order-1)/order*math.Exp(-up-down)))/(order-1)
	}
	// The sum less 1: its terms of first order cancel, so they are left out.
	return math.Log1p((order*expm2(up)+(order-1)*expm2(-down))/(2*order-1)) / (order - 1)
}

// expm2 is eˣ−1−x.
func expm2(x float64) float64 {
	if math.Abs(x) > 0.5 {
		return math.Expm1(x) - x
	}
	term, sum := x*x/2, 0.0
	for k := 3.0; k < 18; k++ {
		sum += term
		term *= x / k
	}
	return sum
}
