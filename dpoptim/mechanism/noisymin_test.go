package mechanism

import (
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// Of two losses a and b the first is told with the probability that a Laplace
// number of scale Δ/ε, the difference of two exponential ones, is below b − a.
// Six standard errors: a correct mechanism is rejected with probability 4e-9 over
// both cases (fixed stream).
func TestNoisyMinDistribution(t *testing.T) {
	const runs, epsilon, bound = 200_000, 0.8, 2.0
	m, err := NewNoisyMin(epsilon, bound, testStream(t), 3)
	check(t, err)
	for i, gap := range []float64{1.3, -3} {
		told := 0
		for run := range runs {
			in := device.Inputs{Draw: uint64(i*runs + run + 1)}
			m.Set(&in)
			if first(t, m.minimum, &in, 5, 5+gap) == 0 {
				told++
			}
		}
		p := 0.5 * math.Exp(-math.Abs(gap)*epsilon/bound)
		if gap > 0 {
			p = 1 - p
		}
		if got := float64(told) / runs; math.Abs(got-p) > 6*math.Sqrt(p*(1-p)/runs) {
			t.Errorf("gap %v: the first is told in %v of the runs, want %v", gap, got, p)
		}
	}
}

// The bound moves the noise and leaves the price; without noise the least is
// told, the first of equals.
func TestNoisyMinNoise(t *testing.T) {
	m, err := NewNoisyMin(0.5, 1.5, testStream(t), 3)
	check(t, err)
	in := device.Inputs{First: 7}
	in.Biases[2] = 1
	m.Set(&in)
	if std, want := float64(in.Scalars[device.QueryStd]), 1.5/0.5; std < want || std > want*(1+2e-7) || in.Scalars[device.Clip] != 1.5 || in.First != 0 || in.Biases[2] != 0 {
		t.Errorf("noise of mean %v at clip %v, want %v", std, in.Scalars[device.Clip], want)
	}
	if e := m.Event(); e != accountant.Mechanism(accountant.Pure{Epsilon: 0.5}) {
		t.Errorf("it costs %v", e)
	}
	u := NewUnprotectedMin(1, testStream(t), 3)
	u.Set(&in)
	if i := first(t, u.minimum, &in, 3, 1, 2, 1); i != 1 || u.Event() != nil {
		t.Errorf("without noise %d is told, at the event %v", i, u.Event())
	}
	in.Biases = [device.MaxCandidates]float64{0, 1.5, 0.25, 1.25}
	if i := first(t, u.minimum, &in, 3, 1, 2, 1); i != 2 {
		t.Errorf("without noise, but with biases, %d is told", i)
	}
}

// first is what a device tells of a sum.
func first(t *testing.T, s interface {
	Decide(*device.Inputs, []float64) (int, error)
}, in *device.Inputs, sums ...float64) int {
	t.Helper()
	i, err := s.Decide(in, sums)
	check(t, err)
	return i
}

func TestNoisyMinRefuses(t *testing.T) {
	s := testStream(t)
	for _, test := range []struct {
		epsilon, bound float64
		stream         *stream.Stream
		want           string
	}{
		{0, 1, s, "epsilon 0"}, {math.Inf(1), 1, s, "epsilon +Inf"}, {1, 0, s, "bound 0"},
		{1, 1, nil, "noise stream"},
	} {
		if _, err := NewNoisyMin(test.epsilon, test.bound, test.stream, 0); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
