package recipes

import (
	"fmt"
	"slices"
	"testing"
)

// The rule for heads gives settings that can be run for any number of records, values, classes and ε, and never smaller steps for more ε.
func TestForHeadIsSane(t *testing.T) {
	for _, classes := range []int{2, 10, 1000} {
		for _, features := range []int{1, 64, 1280, 100000} {
			for _, records := range []int{50, 5000, 50000, 10000000} {
				last, far := 0.0, 0.0
				for _, epsilon := range []float64{0.01, 0.3, 1, 3, 8, 100} {
					table := Table{Records: records, Features: features, Classes: classes}
					r := ForHead(table, epsilon)
					where := fmt.Sprintf("%+v at epsilon %g: %+v", table, epsilon, r.Settings)
					for key, value := range r.Keys() {
						if x, ok := value.(float64); ok && !(x > 0 && x < 1e6) {
							t.Errorf("%s is %v of %s", key, x, where)
						}
					}
					// Rows of norm 1 beside an intercept: the loss curves by at most 1/2·(1 + 1) along any direction, and momentum swings
					// where the rate times that is above 2(1 + momentum).
					if r.LR < last || r.LR >= 2*(1+r.Momentum) {
						t.Errorf("rate %g after %g: %s", r.LR, last, where)
					}
					last = r.LR
					steps := r.Epochs / r.SamplingRate // of three digits each
					if r.SamplingRate > 1 || steps < .99*headSteps || steps > 1.01*headMost || r.LR < headMostLR && steps > 1.01*headSteps {
						t.Errorf("sampling rate %g and %g epochs: %s", r.SamplingRate, r.Epochs, where)
					}
					if all := r.LR * steps; all < .99*far {
						t.Errorf("all steps come %g far, after %g: %s", all, far, where)
					} else {
						far = all
					}
				}
			}
		}
	}
}

// A configuration that holds the recipe's settings knows it again, and its keys are those that it fills in.
func TestHeadIsKnownAgain(t *testing.T) {
	r := ForHead(Table{Records: 50000, Features: 1280, Classes: 10}, 1)
	if Of(r.From()) != Head || !slices.Contains(Names(), Head) {
		t.Errorf("%q is taken for %s", r.From(), Of(r.From()))
	}
	keys := Keys(Head)
	if len(keys) != len(r.Keys()) {
		t.Errorf("keys %v", keys)
	}
	for _, key := range keys {
		if r.Keys()[key] == nil {
			t.Errorf("it lacks %s", key)
		}
	}
	if r.Keys()["feature_norm"] != 1.0 || slices.Contains(keys, "features") || slices.Contains(keys, "views") {
		t.Errorf("keys %v", r.Keys())
	}
}
