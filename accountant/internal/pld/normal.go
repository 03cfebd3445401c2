package pld

import "math"

func tail(z float64) float64 { return math.Erfc(math.Abs(z)/math.Sqrt2) / 2 }

func upper(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// A normalTail is Φ(−|z|) at one z, with a bound on its error: half an ulp
// and a little from erfc, z²·ulp from the rounding of its argument.
type normalTail struct{ z, value, err float64 }

func normalTailAt(z float64) normalTail {
	v := tail(z)
	return normalTail{z, v, ulp * (4 + 2*min(z*z, 1e4)) * v}
}

// between is the mass of N(0,1) on [a.z, b.z], and a bound on its error. It
// subtracts on the side on which both tails are small.
func between(a, b normalTail) (mass, err float64) {
	switch {
	case a.z >= 0:
		mass = a.value - b.value
	case b.z <= 0:
		mass = b.value - a.value
	default:
		mass, err = 1-a.value-b.value, 2*ulp
	}
	return max(mass, 0), err + a.err + b.err + ulp*mass
}

// mills is the Mills ratio Φ(−t)/φ(t).
func mills(t float64) float64 {
	if t < 8 {
		return math.Sqrt(math.Pi/2) * math.Exp(t*t/2) * math.Erfc(t/math.Sqrt2)
	}
	// Laplace's continued fraction 1/(t+1/(t+2/(t+…))), which has converged
	// to double precision for t ≥ 8 at this depth.
	f := t
	for k := 40; k > 0; k-- {
		f = t + float64(k)/f
	}
	return 1 / f
}

// gaussianDelta is the δ at ε of N(μ,1) against N(0,1), as a logarithm:
// Φ(μ/2−ε/μ) − e^ε·Φ(−μ/2−ε/μ) (Balle and Wang 2018, theorem 8).
func gaussianDelta(mu, epsilon float64) float64 {
	a, b := epsilon/mu-mu/2, epsilon/mu+mu/2
	logDensity := func(t float64) float64 { return -t*t/2 - 0.918938533204672741780329736406 }
	switch {
	case mu < 0.02:
		// e^ε·φ(b) = φ(a), and R' = tR−1 for the Mills ratio R, so that
		// δ = φ(a)·∫ₐᵇ(1−tR(t))dt: no difference of near numbers is left.
		// Three Gauss nodes are exact to μ⁶ here.
		sum := 0.0
		for i, x := range [3]float64{-0.774596669241483377, 0, 0.774596669241483377} {
			t := (a + b + x*mu) / 2
			sum += [3]float64{5. / 18, 8. / 18, 5. / 18}[i] * millsSlope(t)
		}
		return logDensity(a) + math.Log(mu*sum)
	case b < -8: // where the Mills ratio grows beyond float64
		return math.Log(upper(a) - math.Exp(epsilon)*upper(b))
	case a < 0:
		return math.Log(tail(a)*-1 + 1 - math.Exp(logDensity(a))*mills(b))
	default:
		return logDensity(a) + math.Log(mills(a)-mills(b))
	}
}

// millsSlope is 1−t·R(t).
func millsSlope(t float64) float64 {
	if t < 8 {
		return 1 - t*mills(t)
	}
	// From R = 1/(t+1/g): 1−tR = 1/(1+t·g).
	g := t
	for k := 40; k > 1; k-- {
		g = t + float64(k)/g
	}
	return 1 / (1 + t*g)
}

// gaussianEpsilon is the least ε ≥ 0 at which gaussianDelta is at most ln δ.
func gaussianEpsilon(mu, delta float64) float64 {
	want := math.Log(delta)
	if gaussianDelta(mu, 0) <= want {
		return 0
	}
	low, high := 0.0, mu
	for gaussianDelta(mu, high) > want {
		low, high = high, 2*high
	}
	for range 200 {
		mid := (low + high) / 2
		if mid == low || mid == high {
			break
		}
		if gaussianDelta(mu, mid) > want {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// analytic is how far, relative, a closed form is trusted.
const analytic = 2e-11

func widen(x float64) Interval { return Interval{x * (1 - analytic), x * (1 + analytic)} }
