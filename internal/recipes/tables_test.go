package recipes

import (
	"fmt"
	"math"
	"testing"
)

func TestForTableIsSane(t *testing.T) {
	for _, classes := range []int{0, 2, 10} {
		for _, features := range []int{1, 10, 100, 1000, 100000} {
			for _, records := range []int{50, 500, 5000, 100000, 10000000} {
				last := 0.0
				for _, epsilon := range []float64{0.01, 0.1, 0.3, 1, 3, 8, 30, 100} {
					table := Table{Records: records, Features: features, Classes: classes}
					r := ForTable(table, epsilon)
					where := fmt.Sprintf("%+v at epsilon %g: %+v", table, epsilon, r.Settings)
					for key, value := range r.Keys() {
						if x, ok := value.(float64); ok && !(x > 0 && x < 1e4) {
							t.Errorf("%s is %v of %s", key, x, where)
						}
					}
					switch steps := r.Epochs / r.SamplingRate; {
					case r.LR < last:
						t.Errorf("a smaller rate than at a smaller epsilon: %s", where)
					case r.LR > 4 || r.Momentum >= 1:
						t.Errorf("steps may be too large: %s", where)
					case r.SamplingRate > 1 || r.SamplingRate*float64(records) < min(float64(records), 1000):
						t.Errorf("batches are too large or too small: %s", where)
					case math.Abs(steps-tableSteps) > 1:
						t.Errorf("%g steps: %s", steps, where)
					case r.Epochs*float64(records)*float64(features) > 1e10 && r.SamplingRate*float64(records) > 1100:
						t.Errorf("it takes too long: %s", where)
					case (r.Model == "huber-regression") != (classes == 0):
						t.Errorf("another model: %s", where)
					}
					last = r.LR
				}
			}
		}
	}
}

// A table's recipe names nothing of a front end, and where it was chosen.
func TestKeysOfTables(t *testing.T) {
	r := ForTable(Table{Records: 569, Features: 30, Classes: 2}, 3)
	keys := r.Keys()
	for _, key := range []string{"features", "whiten", "mirror", "deskew"} {
		if _, ok := keys[key]; ok {
			t.Errorf("%s is set", key)
		}
	}
	if keys["feature_norm"] != 4.0 || keys["model"] != "logistic" {
		t.Errorf("keys: %v", keys)
	}
	if want := "held-out training records of Adult, credit card and wine (public benchmark data)"; r.From() != want {
		t.Errorf("chosen on %q", r.From())
	}
	image, err := Find(Best, "mnist", [3]int{1, 28, 28}, 1)
	if _, ok := image.Keys()["feature_norm"]; err != nil || ok || image.Keys()["features"] != "scatter" {
		t.Errorf("keys of images: %v, %v", image.Keys(), err)
	}
}
