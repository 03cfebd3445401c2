package bench

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/train"
)

func TestLineSearch(t *testing.T) {
	for _, model := range []string{"mlp-fmnist", "logistic"} {
		o := LineSearchOptions{StepOptions: options(), Tried: 3}
		o.Model, o.Mode = model, ""
		r, err := LineSearch(o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Model != model || r.Batch != 20 || r.Tried != 3 || r.Steps < 1 || !(r.DPSGDStepSeconds > 0) || r.Ratio != r.StepSeconds/r.DPSGDStepSeconds {
			t.Errorf("%s: %+v", model, r)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"device", "model", "batch", "threads", "tried", "step_seconds_median", "dpsgd_step_seconds_median", "ratio"} {
			if !strings.Contains(string(b), `"`+key+`"`) {
				t.Errorf("no key %s in %s", key, b)
			}
		}
	}
}

func TestLineSearchRefuses(t *testing.T) {
	for want, change := range map[string]func(*LineSearchOptions){
		"batch 0":   func(o *LineSearchOptions) { o.Batch = 0 },
		"seconds 0": func(o *LineSearchOptions) { o.Seconds = 0 },
		"tried 1":   func(o *LineSearchOptions) { o.Tried = 1 },
		"tried 33":  func(o *LineSearchOptions) { o.Tried = 33 },
		`"vgg"`:     func(o *LineSearchOptions) { o.Model = "vgg" },
	} {
		o := LineSearchOptions{StepOptions: options(), Tried: 3}
		change(&o)
		_, err := LineSearch(o)
		var u *train.UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
