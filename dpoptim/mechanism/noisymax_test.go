package mechanism

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
)

// permuteAndFlip is the law of the index in closed form, by McKenna and Sheldon
// 2020, algorithm 1: in random order, accept i with probability e^{−ε(max−n_i)}.
func permuteAndFlip(counts []int, epsilon float64) []float64 {
	most := slices.Max(counts)
	law := make([]float64, len(counts))
	var rest func(left []int, reach float64)
	rest = func(left []int, reach float64) {
		for k, i := range left {
			p := reach / float64(len(left)) * math.Exp(-epsilon*float64(most-counts[i]))
			law[i] += p
			if q := reach/float64(len(left)) - p; q > 0 {
				rest(slices.Delete(slices.Clone(left), k, k+1), q)
			}
		}
	}
	all := make([]int, len(counts))
	for i := range all {
		all[i] = i
	}
	rest(all, 1)
	return law
}

// counted are records of which a class each has so many.
func counted(counts ...int) device.Counts {
	var labels []uint8
	for class, n := range counts {
		labels = append(labels, slices.Repeat([]uint8{uint8(class)}, n)...)
	}
	return device.CountLabels(labels, len(counts))
}

// Frequencies lie within 6.4 standard deviations of the closed form: a false
// alarm once in 10⁹. The seed is fixed.
func TestNoisyMaxLaw(t *testing.T) {
	const draws = 40000
	for _, c := range []struct {
		counts  []int
		epsilon float64
	}{
		{[]int{5, 5}, 1}, {[]int{3, 5}, 0.5}, {[]int{5, 3}, 0.5}, {[]int{0, 4, 2, 4}, 0.3}, {[]int{10, 0, 0}, 2}, {[]int{0}, 1},
	} {
		m, err := NewNoisyMax(c.epsilon, testStream(t), 3)
		check(t, err)
		seen := make([]float64, len(c.counts))
		for d := range uint64(draws) {
			i, err := m.Select(counted(c.counts...), d+1)
			check(t, err)
			seen[i]++
		}
		for i, p := range permuteAndFlip(c.counts, c.epsilon) {
			if d := math.Abs(seen[i] - draws*p); d > 6.4*math.Sqrt(draws*p*(1-p))+1e-6 {
				t.Errorf("counts %v, ε %v: index %d came %v times, want %v", c.counts, c.epsilon, i, seen[i], draws*p)
			}
		}
		if e := m.Event(); e != accountant.Mechanism(accountant.Pure{Epsilon: c.epsilon}) {
			t.Errorf("ε %v costs %v", c.epsilon, e)
		}
	}
}

// The law itself keeps its promise: adding a record moves no probability by more
// than e^ε, and replacing one by more than e^{2ε}.
func TestNoisyMaxIsPrivate(t *testing.T) {
	const epsilon = 0.7
	worst := func(a, b []int) float64 {
		p, q, most := permuteAndFlip(a, epsilon), permuteAndFlip(b, epsilon), 0.0
		for i := range p {
			most = max(most, math.Abs(math.Log(p[i]/q[i])))
		}
		return most
	}
	added, replaced := 0.0, 0.0
	for n := range 4 * 4 * 4 {
		a := []int{n % 4, n / 4 % 4, n / 16}
		for i := range a {
			b := slices.Clone(a)
			b[i]++
			added = max(added, worst(a, b))
			c := slices.Clone(b)
			if j := (i + 1) % 3; c[j] > 0 {
				c[j]--
				replaced = max(replaced, worst(a, c))
			}
		}
	}
	if added > epsilon*(1+1e-12) || added < 0.9*epsilon {
		t.Errorf("one record added costs %v, %v was claimed", added, epsilon)
	}
	if replaced > 2*epsilon*(1+1e-12) || replaced < epsilon {
		t.Errorf("one record replaced costs %v, %v was claimed", replaced, 2*epsilon)
	}
}

func TestNoisyMaxRefuses(t *testing.T) {
	for _, epsilon := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := NewNoisyMax(epsilon, testStream(t), 0); err == nil || !strings.Contains(err.Error(), "epsilon") {
			t.Errorf("epsilon %v: %v", epsilon, err)
		}
	}
	if _, err := NewNoisyMax(1, nil, 0); err == nil {
		t.Error("a noisy maximum without a stream was made")
	}
	m, err := NewNoisyMax(1, testStream(t), 0)
	check(t, err)
	if _, err := m.Select(counted(), 1); err == nil {
		t.Error("the maximum of no counts was told")
	}
	if _, err := m.Select(counted(1, 2), 5); err != nil {
		t.Error(err)
	}
	for _, draw := range []uint64{5, 4, 0} {
		if _, err := m.Select(counted(1, 2), draw); err == nil || !strings.Contains(err.Error(), "used before") {
			t.Errorf("position %d after 5: %v", draw, err)
		}
	}
}
