package bench

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/train"
)

func searchOptions() LineSearchOptions {
	o := LineSearchOptions{StepOptions: options(), Form: "differences", Batches: "fresh", Tried: 4}
	o.Mode = ""
	return o
}

func TestLineSearch(t *testing.T) {
	for _, test := range []struct {
		model, form, batches    string
		tried, evaluated, limit float64
	}{
		{"mlp-fmnist", "differences", "fresh", 4, 4, 1.15 * 2.85},
		{"logistic", "losses", "shared", 20, 20, 1.15 * 8.4},
		{"logistic", "losses", "fresh", 5, 8, 1.15 * 3.22},
		{"logistic", "curve", "fresh", 3, 3, 1.15 * 2.48},
	} {
		o := searchOptions()
		o.Model, o.Form, o.Batches, o.Tried = test.model, test.form, test.batches, int(test.tried)
		r, err := LineSearch(o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Model != test.model || r.Batch != 20 || r.Tried != int(test.tried) || r.Evaluated != int(test.evaluated) || math.Abs(r.Limit-test.limit) > 1e-12 ||
			r.Steps < 1 || !(r.DPSGDStepSeconds > 0) || r.Ratio != r.StepSeconds/r.DPSGDStepSeconds {
			t.Errorf("%+v: %+v", test, r)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"device", "model", "batch", "threads", "tried", "step_seconds_median", "dpsgd_step_seconds_median", "ratio", "limit", "form", "batches"} {
			if !strings.Contains(string(b), `"`+key+`"`) {
				t.Errorf("no key %s in %s", key, b)
			}
		}
	}
}

func TestLineSearchRefuses(t *testing.T) {
	for want, change := range map[string]func(*LineSearchOptions){
		"batch 0":         func(o *LineSearchOptions) { o.Batch = 0 },
		"seconds 0":       func(o *LineSearchOptions) { o.Seconds = 0 },
		"trials 0":        func(o *LineSearchOptions) { o.Tried = 0 },
		"trials 1001":     func(o *LineSearchOptions) { o.Tried = 1001 },
		"trials 33":       func(o *LineSearchOptions) { o.Tried, o.Form = 33, "curve" },
		`form "some"`:     func(o *LineSearchOptions) { o.Form = "some" },
		`batches "paper"`: func(o *LineSearchOptions) { o.Batches = "paper" },
		`"vgg"`:           func(o *LineSearchOptions) { o.Model = "vgg" },
	} {
		o := searchOptions()
		change(&o)
		_, err := LineSearch(o)
		var u *train.UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
