package tune

import (
	"bytes"
	"math"
	"testing"

	"github.com/privgrad/privgrad/accountant"
)

// probability of a number of trials, by the distribution's definition.
func probability(trials accountant.Trials, k int) float64 {
	x := float64(k)
	switch t := trials.(type) {
	case accountant.PoissonTrials:
		g, _ := math.Lgamma(x + 1)
		return math.Exp(x*math.Log(t.Mean) - t.Mean - g)
	case accountant.TruncatedNegativeBinomial:
		if k < 1 {
			return 0
		}
		if t.Eta == 0 {
			return math.Pow(1-t.Gamma, x) / (x * -math.Log(t.Gamma))
		}
		p := math.Pow(1-t.Gamma, x) / (math.Pow(t.Gamma, -t.Eta) - 1)
		for l := range k {
			p *= (float64(l) + t.Eta) / float64(l+1)
		}
		return p
	}
	return math.NaN()
}

// Pearson's statistic of 5,000 draws in cells that expect 20 or more. The limit is 6 deviations above its mean, by the cube-root
// approximation of Wilson and Hilferty: correct code fails each of the 6 distributions with a probability of about 1e-9.
func TestNumbersOfTrials(t *testing.T) {
	for _, text := range []string{"tnb:0,0.2", "tnb:1,0.2", "tnb:-0.5,0.2", "tnb:2.5,0.4", "poisson:0.5", "poisson:12"} {
		trials, err := accountant.ParseTrials(text)
		must(t, err)
		const draws, enough, most = 5000, 20, 500 // far above all means
		counts := map[int]int{}
		for range draws {
			k, err := drawNumber(trials, randomness)
			must(t, err)
			counts[k]++
		}
		statistic, cells := 0.0, -1.0
		expected, count, left := 0.0, 0, float64(draws)
		for k := 0; k < most; k++ {
			more := draws * probability(trials, k)
			expected, count, left = expected+more, count+counts[k], left-more
			if expected >= enough && left >= enough || k == most-1 { // the last cell has what is left
				statistic, cells = statistic+(float64(count)-expected)*(float64(count)-expected)/expected, cells+1
				expected, count = 0, 0
			}
		}
		limit := cells * math.Pow(1-2/(9*cells)+6*math.Sqrt(2/(9*cells)), 3)
		if statistic > limit || cells < 1 {
			t.Errorf("%s: χ² = %.1f with %v degrees of freedom, at most %.1f", text, statistic, cells, limit)
		}
	}
}

// The smallest uniform number gives the least number of trials, and the largest one an end.
func TestEndsOfDraws(t *testing.T) {
	for text, least := range map[string]int{"tnb:0,0.07": 1, "poisson:3": 0, "tnb:50,0.5": 1, "tnb:0,0.001": 1} {
		trials, err := accountant.ParseTrials(text)
		must(t, err)
		low, err := drawNumber(trials, bytes.NewReader(make([]byte, uniformBits/8)))
		must(t, err)
		high, err := drawNumber(trials, bytes.NewReader(bytes.Repeat([]byte{255}, uniformBits/8)))
		must(t, err)
		if low != least || high < int(5*trials.Expected()) {
			t.Errorf("%s: from %d to %d", text, low, high)
		}
	}
	if _, err := drawNumber(accountant.PoissonTrials{Mean: 3}, bytes.NewReader(nil)); err == nil {
		t.Error("a number is drawn without randomness")
	}
}

// Choices are uniform and independent of each other: 40,000 pairs of six choices. The limit is that of TestNumbersOfTrials, for 35
// degrees of freedom.
func TestChoicesAreUniform(t *testing.T) {
	const choices, pairs = 6, 40000
	var counts [choices][choices]int
	lots := map[uint64]bool{}
	n := 0
	for n < pairs {
		all, err := drawTrials(accountant.PoissonTrials{Mean: 50}, choices)
		must(t, err)
		for i := 0; i+1 < len(all) && n < pairs; i += 2 {
			counts[all[i].Choice][all[i+1].Choice]++
			lots[all[i].Lot] = true
			n++
		}
	}
	const expected, freedom = float64(pairs) / choices / choices, choices*choices - 1
	statistic := 0.0
	for _, row := range counts {
		for _, count := range row {
			statistic += (float64(count) - expected) * (float64(count) - expected) / expected
		}
	}
	limit := freedom * math.Pow(1-2/(9*float64(freedom))+6*math.Sqrt(2/(9*float64(freedom))), 3)
	if statistic > limit || len(lots) != pairs {
		t.Errorf("χ² = %.1f, at most %.1f; %d different lots of %d", statistic, limit, len(lots), pairs)
	}
}
