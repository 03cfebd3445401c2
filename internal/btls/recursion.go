package btls

import "math"

// tail is one query of the recursion
//
//	V_k = sup_t [H(t)^α·H(t+δ)^{1−α} + (1−H(t))·V_{k−1}],  V_0 = 1,
//
// with H the upper tail of the standard normal distribution and δ > 0.
//
// With h = H(t) and A(h) = H(t)^α·H(t+δ)^{1−α} it reads V_k = V_{k−1} + G(V_{k−1}),
// G(V) = sup_h [A(h) − hV]. Let m = φ/H be the hazard rate, m̃ that at t+δ,
// u = m̃/m > 1, ρ = H(t)/H(t+δ) and y = (α−1)(u−1). Then
//
//	B := dA/dh = ρ^{α−1}(1−y),    A − hB = y·H·ρ^{α−1}.
//
// Certificate (docs/proofs/line-search.md, the supremum). If 0 ≤ B(t) ≤ V then
// G(V) ≤ A(h) − h·B(t) at h = H(t). So any t serves, whatever search it came from,
// and the best has B(t) = V. Where that t cannot be told from the one with B = 0,
// because V is tiny beside ρ^{α−1}, so is hV beside A, and the largest A serves:
// G(V) ≤ max A, which lies where B = 0.
type tail struct {
	alpha, delta float64
	logPeak      float64 // at least ln max A
	small        float64 // a ln V below which G(V) is max A to rounding
}

func newTail(alpha, delta float64) tail {
	q := tail{alpha, delta, math.Inf(1), math.Inf(-1)}
	// B = 0 lies between a t where y ≥ 1 and one where y < 1. Between them
	// H(t)^α·H(t+δ)^{1−α} is at most the product of either factor's largest.
	low, _ := boundary(func(t float64) bool { y, round := q.y(t); return !(y-round >= 1) })
	_, high := boundary(func(t float64) bool { y, round := q.y(t); return y+round < 1 })
	if math.IsInf(low, 0) || math.IsInf(high, 0) {
		return q
	}
	// ln H = −t²/2 − ln √(2π) + ln M, and the squares are taken together.
	m, n, gap := mills(low), mills(high+delta), high+delta-low
	move := gap * (low + gap/2)
	logScale := (alpha - 1) * (move + math.Log(m/n)) // of ρ^{α−1}
	peak := logNormal(low) + math.Log(m) + logScale
	q.logPeak = peak + rounding(low) + 1e-15*(low*low+math.Abs(peak)) +
		(alpha-1)*(2*rounding(low)+2e-15*(gap*(math.Abs(low)+gap)))
	q.small = logScale - 40
	return q
}

// boundary is a pair of close points, before with !is and after with is, for a
// property of all large t and of no small t; ±Inf where it sees none.
func boundary(is func(t float64) bool) (before, after float64) {
	before, after = math.Inf(-1), math.Inf(1)
	at, stride := 0.0, 1.0
	for range 200 {
		if is(at) {
			after = at
		} else {
			before = at
		}
		switch {
		case math.IsInf(after, 1):
			at = before + stride
			stride *= 2
		case math.IsInf(before, -1):
			at = after - stride
			stride *= 2
		default:
			at = before + (after-before)/2
			if after-before <= 1e-15*(1+math.Abs(at)) {
				return before, after
			}
		}
	}
	return before, after
}

// rounding bounds the error of a Mills ratio at t or beyond, relative to itself.
// Up to 6 it is the argument of erfc, within 2⁻⁵² of itself, that t²+1 amplifies,
// and the one of exp; where these overflow no bound is needed, as y ≥ 1 by far.
// In the continued fraction a level passes on less than half of what it gets.
func rounding(t float64) float64 {
	if t > 6 {
		return 2e-15
	}
	return 4e-14 + 1e-15*t*t
}

// y is (α−1)(u−1) at t and a bound of its error.
func (q tail) y(t float64) (y, round float64) {
	u := mills(t) / mills(t+q.delta)
	a := q.alpha - 1
	return a * (u - 1), 3 * a * u * rounding(t)
}

// point is an upper bound of ln B and of ln(A−hB) at t, and the slope of ln B
// without claim. ok says that B ≥ 0 is certain there.
func (q tail) point(t float64) (logB, logGain, slope float64, ok bool) {
	a, round := q.alpha-1, rounding(t)
	m, n := mills(t), mills(t+q.delta)
	u := m / n
	y, roundY := a*(u-1), 3*a*u*round
	if !(y+roundY < 1) {
		return math.Inf(-1), 0, 0, false
	}
	logRho := q.delta*(t+q.delta/2) + math.Log(u)
	logRho += 3*round + 1e-15*(q.delta*(math.Abs(t)+q.delta)+math.Abs(logRho))
	logB = a*logRho + math.Log1p(-math.Max(y-roundY, 0))
	logB += 1e-15 * (a*logRho + math.Abs(logB))
	logH := logNormal(t) + math.Log(m)
	logY := math.Log(y + roundY)
	logGain = logY + logH + a*logRho
	logGain += round + 1e-15*(t*t+math.Abs(logH)+a*math.Abs(logRho)+math.Abs(logY))
	slope = a * (u*q.delta - q.alpha*(u-1)*(u-1)/m) / (1 - y)
	return logB, logGain, slope, true
}

// logGain is an upper bound of ln G(V) for V = e^logV ≥ 1. It looks for the t
// of the certificate from *t on, and leaves it there.
func (q tail) logGain(logV float64, t *float64) float64 {
	if logV < q.small {
		return q.logPeak
	}
	// A t with ln B this far below ln V adds that share of hV to G.
	tolerance := 1e-11*math.Min(1, q.alpha-1) + 1e-13*logV
	gain := q.logPeak
	low, high := math.Inf(-1), math.Inf(1)
	at, stride := *t, 1.0
	for range 200 {
		logB, g, slope, ok := q.point(at)
		if logB > logV {
			high = at
		} else {
			low = at // also where B < 0
			if ok {
				gain, *t = math.Min(gain, g), at
			}
			if ok && logV-logB <= tolerance {
				break
			}
		}
		next := at + (logV-tolerance/2-logB)/slope // Newton
		if !(ok && next > low && next < high) {
			switch {
			case math.IsInf(high, 1):
				next = low + stride
				stride *= 2
			case math.IsInf(low, -1):
				next = high - stride
				stride *= 2
			default:
				next = low + (high-low)/2
			}
		}
		if next == low || next == high {
			break
		}
		at = next
	}
	return gain
}

// chunk is the share of the steps so far that are bounded together.
const chunk = 100

// logV is an upper bound of ln V_K, in some chunk·ln K evaluations; +Inf where
// rounding leaves none.
//
// G is a supremum of lines and so convex: on [V_a, V_b] it lies under its
// chord. From V_a, n steps end at or below V_b = V_a + n·G(V_a) as G falls, and
// V + chord(V) grows with V, since the chord falls by G(V_a)−G(V_b) ≤ G(V_a)
// over n·G(V_a). So n steps of the chord are above n steps of G, and they are a
// geometric sum: n steps add G(V_a)·Σ_{j<n} (1−c)^j, c = (1−G(V_b)/G(V_a))/n.
func (q tail) logV(trials int) float64 {
	logW := math.Inf(-1) // of V−1, which may be tiny
	t := 0.0
	for k := 0; k < trials; {
		gain := q.logGain(log1pExp(logW), &t)
		n := min(max(1, k/chunk), trials-k)
		steps := float64(n)
		if n > 1 {
			ahead := t
			after := q.logGain(log1pExp(logAdd(logW, gain+math.Log(steps))), &ahead)
			// G falls; what the two searches missed is no reason to grow.
			if c := -math.Expm1(math.Min(after-gain, 0)) / steps; c > 0 {
				steps = -math.Expm1(steps*math.Log1p(-c)) / c
			}
		}
		logW = logAdd(logW, gain+math.Log(steps))
		logW += 1e-15 * (4 + math.Abs(gain) + math.Abs(logW))
		k += n
	}
	return log1pExp(logW)
}

// logNormal is the logarithm of the standard normal density.
func logNormal(t float64) float64 { return -t*t/2 - 0.918938533204672741780329736406 }

// mills is H(t)/φ(t), the inverse of the hazard rate.
func mills(t float64) float64 {
	if t <= 6 {
		return math.Sqrt(math.Pi/2) * math.Erfc(t/math.Sqrt2) * math.Exp(t*t/2)
	}
	// Laplace's continued fraction 1/(t+1/(t+2/(t+…))), whose convergents
	// close in from both sides; at 6 the thirtieth is exact to rounding.
	d := t
	for i := 30; i >= 1; i-- {
		d = t + float64(i)/d
	}
	return 1 / d
}

// log1pExp is ln(1+eˣ).
func log1pExp(x float64) float64 {
	if x > 36 {
		return x + math.Exp(-x)
	}
	return math.Log1p(math.Exp(x))
}

// logAdd is ln(eˣ+eʸ).
func logAdd(x, y float64) float64 {
	if x < y {
		x, y = y, x
	}
	if math.IsInf(x, -1) {
		return x
	}
	return x + math.Log1p(math.Exp(y-x))
}
