package accountant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A glm is one record of one feature: the slope and the curvature of its loss at w.
type glm func(w float64) (slope, curvature float64)

func logisticRecord(x float64) glm {
	return func(w float64) (float64, float64) {
		p := 1 / (1 + math.Exp(x*w))
		return -x * p, x * x * p * (1 - p)
	}
}

// hinged is a huber-svm of width h about 1 (curvature x²/(2h)); a sign of x is that of its label.
func hinged(x, h float64) glm {
	return func(w float64) (float64, float64) {
		switch m := x * w; {
		case m > 1+h:
			return 0, 0
		case m < 1-h:
			return -x, 0
		default:
			return -x * (1 + h - m) / (2 * h), x * x / (2 * h)
		}
	}
}

// regression is Huber's loss of the target y.
func regression(x, y float64) glm {
	return func(w float64) (float64, float64) {
		if r := x*w - y; math.Abs(r) < 1 {
			return x * r, x * x
		} else {
			return math.Copysign(x, x*r), 0
		}
	}
}

// density is that of the minimum at w, by change of variables.
func density(records []glm, lambda, sigma, w float64) float64 {
	b, j := -lambda*w, lambda
	for _, r := range records {
		slope, curvature := r(w)
		b -= slope
		j += curvature
	}
	return math.Exp(-b*b/(2*sigma*sigma)) / (sigma * math.Sqrt(2*math.Pi)) * j
}

// densities are those on two data sets, times the weights of the trapezoidal rule.
type densities struct{ p, q, weight []float64 }

func minima(first, second []glm, lambda, sigma float64) (d densities) {
	// In u, w = sinh(u)/10: losses bend at w of about 1, and the noise may be far wider.
	const steps = 8000
	end := math.Asinh(10 * (11*sigma + 6) / lambda) // no data set here has a slope above 6
	for i := range steps + 1 {
		u := end * (2*float64(i)/steps - 1)
		w := math.Sinh(u) / 10
		d.p = append(d.p, density(first, lambda, sigma, w))
		d.q = append(d.q, density(second, lambda, sigma, w))
		d.weight = append(d.weight, math.Cosh(u)/10*2*end/steps)
	}
	return d
}

func (d densities) hockeyStick(epsilon float64) (sum float64) {
	for i, weight := range d.weight {
		sum += weight * max(0, d.p[i]-math.Exp(epsilon)*d.q[i])
	}
	return sum
}

func (d densities) renyi(order float64) float64 {
	sum := 0.0
	for i, weight := range d.weight {
		if d.p[i] > 0 {
			sum += weight * math.Exp(order*math.Log(d.p[i])-(order-1)*math.Log(d.q[i]))
		}
	}
	return math.Log(sum) / (order - 1)
}

// On random data sets of one feature, whose minimum has a known density, no accountant claims less than the true
// divergence, in either direction and under both relations.
func TestObjectivePerturbationHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 11))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, random.Float64()) }
	closest := 0.0
	for i := range 30 {
		lambda, sigma := between(0.02, 50), between(1.2, 8)
		width, two := between(0.05, 1), i%3 == 2
		beta := 0.25
		record := func() glm {
			x := 1 - 0.3*random.Float64()*random.Float64()
			if random.IntN(2) == 0 {
				x = -x
			}
			switch i % 3 {
			case 0:
				return logisticRecord(x)
			case 1:
				beta = 1 / (2 * width)
				return hinged(x, width)
			}
			beta = 1
			return regression(x, 4*random.Float64()-2)
		}
		var common []glm
		for range random.IntN(4) {
			common = append(common, record())
		}
		with := append(common[:len(common):len(common)], record())
		event := Event{Mechanisms: []Mechanism{ObjectivePerturbation{NoiseMultiplier: sigma, Curvature: beta / lambda, TwoSided: two}}, Count: 1}
		for _, n := range []Neighbouring{AddRemove, ReplaceOne} {
			other := common
			if n == ReplaceOne {
				other = append(common[:len(common):len(common)], record())
			}
			for _, d := range []densities{minima(with, other, lambda, sigma), minima(other, with, lambda, sigma)} {
				closest = max(closest, testObjectivePerturbation(t, d, event, n))
			}
		}
	}
	if closest < 0.5 {
		t.Errorf("the largest share of a claim that was found is %v: the search is too weak", closest)
	}
}

// testObjectivePerturbation compares claims with one pair, and gives the largest share of a δ that the pair has.
func testObjectivePerturbation(t *testing.T, d densities, event Event, n Neighbouring) (closest float64) {
	if one := 1 - d.hockeyStick(math.Inf(-1)); math.Abs(one) > 1e-3 {
		t.Fatalf("a density does not integrate to 1: %v are missing", one)
	}
	for _, epsilon := range []float64{0, 0.1, 0.4, 1, 2} {
		truth := d.hockeyStick(epsilon)
		for _, name := range []string{GDP, PLD, RDP} {
			r, err := Account([]Event{event}, Options{Accountant: name, Neighbouring: n, Epsilon: &epsilon})
			must(t, err)
			if truth > r.Delta*(1+1e-4)+1e-9 {
				t.Errorf("%s, %s, %v: δ(%v) is %v, claimed %v", name, n, event.Mechanisms[0], epsilon, truth, r.Delta)
			}
			if name == GDP && truth > 1e-7 {
				closest = max(closest, truth/r.Delta)
			}
		}
	}
	orders := []float64{1.5, 4, 16}
	c, err := NewCurve([]Event{event}, n, orders)
	must(t, err)
	for i, order := range orders {
		if truth := d.renyi(order); truth > c.RDP[i]+1e-4 {
			t.Errorf("%s, %v, order %v: the divergence is %v, claimed %v", n, event.Mechanisms[0], order, truth, c.RDP[i])
		}
	}
	return closest
}

// Records whose slopes stay at L tell as much as the Gaussian, and the claim is hardly more.
func TestObjectivePerturbationIsTight(t *testing.T) {
	const lambda, sigma = 100, 2. // the minimum lies within 0.3 of 0, where the hinge is straight
	for _, v := range []struct {
		n             Neighbouring
		first, second []glm
		epsilon       float64
	}{
		{AddRemove, []glm{hinged(1, 0.5)}, nil, 0.8},
		{ReplaceOne, []glm{hinged(1, 0.5)}, []glm{hinged(-1, 0.5)}, 2},
	} {
		truth := minima(v.first, v.second, lambda, sigma).hockeyStick(v.epsilon)
		r, err := Account([]Event{{Mechanisms: []Mechanism{ObjectivePerturbation{NoiseMultiplier: sigma, Curvature: 1. / lambda}}, Count: 1}},
			Options{Accountant: GDP, Neighbouring: v.n, Epsilon: &v.epsilon})
		must(t, err)
		if truth < 0.9*r.Delta || truth > r.Delta {
			t.Errorf("%s: δ is %v, claimed %v", v.n, truth, r.Delta)
		}
	}
}

// The curvature has to be paid for: where a record's slope changes quickly, it tells more than a
// Gaussian of the same L and σ.
func TestObjectivePerturbationNeedsCurvature(t *testing.T) {
	const lambda, sigma = 1., 4.
	epsilon := 0.5
	truth := minima([]glm{hinged(1, 0.5)}, nil, lambda, sigma).hockeyStick(epsilon)
	gaussian, err := Account([]Event{{Mechanisms: []Mechanism{Gaussian{sigma}}, Count: 1}}, Options{Accountant: GDP, Neighbouring: AddRemove, Epsilon: &epsilon})
	must(t, err)
	if truth < 1.1*gaussian.Delta {
		t.Errorf("δ is %v, of the Gaussian %v", truth, gaussian.Delta)
	}
}

// The noise at δ = 10⁻⁸ that the papers' form sets at (8·ln(2/δ) + 4ε)^½/ε, 123.8·L at ε = 0.1, is near that of the analytic
// Gaussian: the two differ by what the curvature costs.
func TestObjectivePerturbationNoise(t *testing.T) {
	for _, v := range []struct{ epsilon, published, most float64 }{{0.1, 123.8, 47}, {0.8, 15.6, 6.4}} {
		if published := math.Sqrt(8*math.Log(2e8)+4*v.epsilon) / v.epsilon; math.Abs(published-v.published) > 0.1 {
			t.Errorf("the published noise at ε %v is %v", v.epsilon, published)
		}
		for _, n := range []Neighbouring{AddRemove, ReplaceOne} {
			s := Schedule{Steps: 1, SamplingRate: 1, Neighbouring: n, Accountant: GDP, Delta: 1e-8}
			gaussian, _, err := s.Calibrate(v.epsilon)
			must(t, err)
			s.Price = func(s Schedule, sigma float64) (float64, error) {
				m := ObjectivePerturbation{NoiseMultiplier: sigma, Curvature: 0.001}
				r, err := Account([]Event{{Mechanisms: []Mechanism{m}, Count: 1}}, Options{Accountant: GDP, Neighbouring: n, Delta: s.Delta})
				return r.Epsilon, err
			}
			sigma, _, err := s.Calibrate(v.epsilon)
			must(t, err)
			if sigma <= gaussian || sigma > v.most*n.distance() {
				t.Errorf("%s, ε %v: σ/L is %v, of the analytic Gaussian %v", n, v.epsilon, sigma, gaussian)
			}
		}
	}
}

// Two records of different directions: the output's law is that of b + c(⟨u, ·⟩)·u in the plane of both, with c falling
// from L to 0, or to −L. No angle is worse than the opposite direction.
func TestObjectivePerturbationAngles(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 5))
	const side, end = 240, 8.0
	law := func(angle, l, kappa, from float64, two bool) []float64 {
		ux, uy := math.Cos(angle), math.Sin(angle)
		low := 0.0
		if two {
			low = -l
		}
		p := make([]float64, 0, side*side)
		for i := range side {
			x := end * (2*(float64(i)+0.5)/side - 1)
			for j := range side {
				y := end * (2*(float64(j)+0.5)/side - 1)
				fall := kappa * (ux*x + uy*y - from)
				c, slope := max(low, min(l, l-fall)), 0.0
				if c > low && c < l {
					slope = kappa
				}
				dx, dy := x-c*ux, y-c*uy
				p = append(p, math.Exp(-(dx*dx+dy*dy)/2)/(2*math.Pi)*(1+slope))
			}
		}
		return p
	}
	closest := 0.0
	for i := range 24 {
		l, kappa, two := 0.1*math.Pow(15, random.Float64()), 0.01*math.Pow(100, random.Float64()), i%2 == 1
		angle := math.Pi * random.Float64()
		if i%4 < 2 {
			angle = math.Pi
		}
		p := law(0, l, kappa, 8*random.Float64()-4, two)
		q := law(angle, l, kappa, 8*random.Float64()-4, two)
		for _, epsilon := range []float64{0.1, 0.5, 1, 2, 3} {
			truth, area := 0.0, math.Pow(2*end/side, 2)
			for k := range p {
				truth += area * max(0, p[k]-math.Exp(epsilon)*q[k])
			}
			m := ObjectivePerturbation{NoiseMultiplier: 1 / l, Curvature: kappa, TwoSided: two}
			r, err := Account([]Event{{Mechanisms: []Mechanism{m}, Count: 1}}, Options{Accountant: GDP, Neighbouring: ReplaceOne, Epsilon: &epsilon})
			must(t, err)
			if truth > r.Delta*1.01+1e-6 { // kinks cut through the cells
				t.Errorf("angle %v, %v: δ(%v) is %v, claimed %v", angle, m, epsilon, truth, r.Delta)
			}
			if truth > 1e-5 {
				closest = max(closest, truth/r.Delta)
			}
		}
	}
	if closest < 0.5 {
		t.Errorf("the largest share of a claim that was found is %v: the search is too weak", closest)
	}
}

// A loss of two sides is charged as two, or as four where a record is replaced.
func TestObjectivePerturbationSides(t *testing.T) {
	epsilon := 1.5
	for n, want := range map[Neighbouring]float64{AddRemove: 2, ReplaceOne: 4} {
		var delta [2]float64
		for i, two := range []bool{false, true} {
			m := ObjectivePerturbation{NoiseMultiplier: 4, Curvature: 0.01, TwoSided: two}
			r, err := Account([]Event{{Mechanisms: []Mechanism{m}, Count: 1}}, Options{Accountant: GDP, Neighbouring: n, Epsilon: &epsilon})
			must(t, err)
			delta[i] = r.Delta
		}
		if ratio := delta[1] / delta[0]; math.Abs(ratio-want) > 1e-9 {
			t.Errorf("%s: two sides cost %v times one side's δ, want %v", n, ratio, want)
		}
	}
}
