package recipes

import (
	"math"
	"slices"
	"testing"
)

// The recipe of a wide residual network makes the published steps, from its first ε on, and is known again by where it was chosen.
func TestWRN(t *testing.T) {
	for epsilon, steps := range map[float64]float64{1: 875, 3: 875, 7.99: 875, 8: 2500, 20: 2500} {
		r, err := Find(WRN, "cifar10", [3]int{3, 32, 32}, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		if got := math.Round(r.Epochs / r.SamplingRate); got != steps || math.Abs(r.SamplingRate*float64(r.Records)-4096) > 1e-9 {
			t.Errorf("ε = %g: %g steps of %g records", epsilon, got, r.SamplingRate*float64(r.Records))
		}
		if Of(r.From()) != WRN || r.Epsilon > epsilon {
			t.Errorf("%s is taken for recipe %s of ε = %g", r.From(), Of(r.From()), r.Epsilon)
		}
		keys := r.Keys()
		for _, key := range Keys(WRN) {
			if keys[key] == nil {
				t.Errorf("it lacks %s", key)
			}
		}
	}
	if _, err := Find(WRN, "cifar10", [3]int{3, 32, 32}, 0.9); err == nil {
		t.Error("there is a recipe below the first ε")
	}
	best, err := Find(Best, "cifar10", [3]int{3, 32, 32}, 3)
	if err != nil || Of(best.From()) != Best || Of("") != Best {
		t.Errorf("%s is taken for %s: %v", best.From(), Of(best.From()), err)
	}
	if slices.Contains(Keys(Best), "views") {
		t.Error("the best recipe has views")
	}
}
