package train

import "testing"

// A run counts what its searches ask for: the base and the candidates up to the
// one that was taken, or a whole curve.
func TestEvaluationsAreCounted(t *testing.T) {
	for _, c := range []struct {
		name   string
		search Search
		losses int // of 24 steps with a search every third
	}{
		{"one candidate", Search{Form: searchLosses, Trials: ptr(1)}, 8 * 2},
		{"no candidate is good enough", Search{Form: searchDifferences, Trials: ptr(7), Margin: ptr(100.0)}, 8 * 8},
		{"the first is good enough", Search{Form: searchDifferences, Trials: ptr(7), Margin: ptr(-100.0)}, 8 * 2},
		{"a curve", Search{Form: searchCurve, Points: ptr(5)}, 8 * 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := small()
			config.Optimizer, config.Search = "dp-blsgd", &c.search
			c.search.Budget, c.search.Every = budgetFixed, ptr(3)
			r, _ := trained(t, config, made(1, 400), Options{})
			if r.GradientEvaluations == nil || *r.GradientEvaluations != 24 || r.ObjectiveEvaluations == nil || *r.ObjectiveEvaluations != c.losses {
				t.Errorf("%v gradients and %v losses, want 24 and %d", *r.GradientEvaluations, *r.ObjectiveEvaluations, c.losses)
			}
		})
	}
	if r, _ := trained(t, small(), made(1, 400), Options{}); r.GradientEvaluations != nil || r.ObjectiveEvaluations != nil {
		t.Error("dp-sgd counts a search's evaluations")
	}
}
