package mechanism

import (
	"math"
	"strings"
	"testing"
)

// softmax is the law of the index.
func softmax(utilities []int64, scale float64) []float64 {
	law, sum := make([]float64, len(utilities)), 0.0
	for i, u := range utilities {
		law[i] = math.Exp(float64(u) / scale)
		sum += law[i]
	}
	for i := range law {
		law[i] /= sum
	}
	return law
}

// χ² of frequencies against softmax. With so many degrees of freedom it is beyond the limit by chance with
// a probability below 1e-6 (Laurent and Massart 2000: k + 2√(kx) + 2x, x = 14). The seed is fixed.
func TestExponentialLaw(t *testing.T) {
	const draws = 10000
	for _, c := range []struct {
		utilities []int64
		epsilon   float64
	}{
		{[]int64{0, 0}, 1}, {[]int64{3, 5}, 0.5}, {[]int64{-4, 0, -2, 0, 1}, 2}, {[]int64{7, -7, 0}, 0.3}, {[]int64{9}, 1},
		{[]int64{-MostUtility, 1, -1 << 60, 0}, 1},
	} {
		const sensitivity = 2
		m, err := NewExponential(c.epsilon, sensitivity, testStream(t), 3)
		check(t, err)
		seen := make([]float64, len(c.utilities))
		for d := range uint64(draws) {
			i, err := m.Select(c.utilities, d+1)
			check(t, err)
			seen[i]++
		}
		chi, k := 0.0, float64(len(seen)-1)
		for i, p := range softmax(c.utilities, 2*sensitivity/c.epsilon) {
			if p < 1e-9 {
				if seen[i] > 0 {
					t.Errorf("%v: index %d came %v times", c.utilities, i, seen[i])
				}
				continue
			}
			chi += (seen[i] - draws*p) * (seen[i] - draws*p) / (draws * p)
		}
		if chi > k+2*math.Sqrt(14*k)+28 {
			t.Errorf("%v at ε %v: χ² = %v with %v degrees of freedom: %v", c.utilities, c.epsilon, chi, k, seen)
		}
	}
}

// ranges are the largest widths of the losses that one record's presence causes, of the exponential
// mechanism and of permute-and-flip, both calibrated to ε on utilities of sensitivity 1.
func ranges(epsilon float64) (exponential, flipped float64) {
	spread := func(p, q []float64) float64 {
		low, high := math.Inf(1), math.Inf(-1)
		for i := range p {
			l := math.Log(p[i] / q[i])
			low, high = min(low, l), max(high, l)
		}
		return high - low
	}
	for n := range 10 * 9 {
		a := []int{20, 20 + n%10}
		b, u, v := make([]int, 2), make([]int64, 2), make([]int64, 2)
		for i, move := 0, n/10; i < 2; i, move = i+1, move/3 {
			b[i] = a[i] + move%3 - 1
			u[i], v[i] = int64(a[i]), int64(b[i])
		}
		exponential = max(exponential, spread(softmax(u, 2/epsilon), softmax(v, 2/epsilon)))
		flipped = max(flipped, spread(permuteAndFlip(a, epsilon/2), permuteAndFlip(b, epsilon/2)))
	}
	return exponential, flipped
}

// The exponential mechanism attains its range and keeps to it. Permute-and-flip, which is as private at
// the same ε, does not keep to it: its price would be wrong.
func TestExponentialHasABoundedRange(t *testing.T) {
	e, f := ranges(1)
	if e > 1+1e-12 || e < 1-1e-12 {
		t.Errorf("the exponential mechanism at ε = 1 has range %v", e)
	}
	if math.Abs(f-1.66359) > 1e-5 { // utilities 0 and 1 against 1 and 0
		t.Errorf("permute-and-flip at ε = 1 has range %v", f)
	}
}

func TestExponentialRefuses(t *testing.T) {
	for _, epsilon := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := NewExponential(epsilon, 1, testStream(t), 0); err == nil || !strings.Contains(err.Error(), "epsilon") {
			t.Errorf("epsilon %v: %v", epsilon, err)
		}
	}
	for _, s := range []int64{0, MostUtility + 1} {
		if _, err := NewExponential(1, s, testStream(t), 0); err == nil || !strings.Contains(err.Error(), "sensitivity") {
			t.Errorf("sensitivity %d: %v", s, err)
		}
	}
	if _, err := NewExponential(1, 1, nil, 0); err == nil {
		t.Error("an exponential mechanism without a stream was made")
	}
	m, err := NewExponential(1, 1, testStream(t), 0)
	check(t, err)
	if _, err := m.Select(nil, 1); err == nil {
		t.Error("a choice of no candidates")
	}
	if _, err := m.Select([]int64{1, 2}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Select([]int64{1, 2}, 1); err == nil || !strings.Contains(err.Error(), "was used before") {
		t.Errorf("a noise position twice: %v", err)
	}
}
