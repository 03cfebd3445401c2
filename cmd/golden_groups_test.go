package cmd

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
)

// What the page on groups says of the default run is what it costs.
func TestGoldenGroupsPage(t *testing.T) {
	p := planned(t, []string{"--epsilon", "3"})
	events := []accountant.Event{p.BatchEvent(accountant.Gaussian{NoiseMultiplier: p.Sigma})}
	events[0].Count = p.Steps
	cost := func(delta float64, records int) accountant.Result {
		r, err := accountant.Account(events, accountant.Options{Accountant: p.Config.Accountant, Neighbouring: accountant.Neighbouring(p.Config.Neighbouring), Delta: delta, Group: records})
		check(t, err)
		return r
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The default run is `privgrad train --epsilon 3`. It makes %d steps at rate q = %v, with noise of σ = %.6g\ntimes the clip norm. At δ = %v it costs:\n\n", p.Steps, p.SamplingRate, p.Sigma, *p.Config.Delta)
	b.WriteString("| records | ε, direct | ε, by the general conversion |\n|---|---|---|\n")
	for _, k := range []int{1, 2, 4, 8} {
		direct := cost(*p.Config.Delta, k)
		if k > 1 && direct.GroupMethod != accountant.GroupDirect {
			t.Errorf("%d records: %s", k, direct.GroupMethod)
		}
		fmt.Fprintf(&b, "| %d | %.2f | %.2f |\n", k, direct.Epsilon, converted(*p.Config.Delta, k, func(delta float64) float64 { return cost(delta, 1).Epsilon }))
	}
	page(t, "../proofs/groups.md", "groups", b.String())
}

// converted is the least kε for which δ·(e^{kε}−1)/(e^ε−1) is what was asked for, with ε of one record at δ.
func converted(delta float64, k int, epsilon func(delta float64) float64) float64 {
	low, high := -200.0, math.Log(delta)
	for high-low > 1e-3 {
		middle := (low + high) / 2
		if e := epsilon(math.Exp(middle)); middle+math.Log(math.Expm1(float64(k)*e)/math.Expm1(e)) > math.Log(delta) {
			high = middle
		} else {
			low = middle
		}
	}
	return float64(k) * epsilon(math.Exp(low))
}
