package bench

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/train"
)

func TestLineSearch(t *testing.T) {
	for _, model := range []string{"mlp-fmnist", "logistic"} {
		o := options()
		o.Model, o.Mode = model, ""
		r, err := LineSearch(o)
		check(t, err)
		if r.Model != model || r.Batch != 20 || r.Tried != 8 || r.Evaluated != 8 || math.Abs(r.Limit-1.15*4.33) > 1e-12 ||
			r.Steps < 1 || !(r.DPSGDStepSeconds > 0) || r.Ratio != r.StepSeconds/r.DPSGDStepSeconds {
			t.Errorf("%s: %+v", model, r)
		}
		b, err := json.Marshal(r)
		check(t, err)
		for _, key := range []string{"device", "model", "batch", "threads", "tried", "step_seconds_median", "dpsgd_step_seconds_median", "ratio", "limit", "form", "batches"} {
			if !strings.Contains(string(b), `"`+key+`"`) {
				t.Errorf("no key %s in %s", key, b)
			}
		}
	}
}

func TestPairedStepsRefuse(t *testing.T) {
	for want, change := range map[string]func(*StepOptions){
		"batch 0":   func(o *StepOptions) { o.Batch = 0 },
		"seconds 0": func(o *StepOptions) { o.Seconds = 0 },
		`"vgg"`:     func(o *StepOptions) { o.Model = "vgg" },
	} {
		o := options()
		change(&o)
		_, err := LineSearch(o)
		_, other := L2P(o)
		for _, err := range []error{err, other} {
			var u *train.UsageError
			if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	}
}
