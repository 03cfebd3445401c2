package bench

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/train"
)

func options() StepOptions {
	return StepOptions{Model: "mlp-fmnist", Batch: 20, Mode: "private", Strategy: "auto", Activation: "relu", Device: "cpu", Threads: 1, Seconds: 0.05}
}

func TestStep(t *testing.T) {
	for _, mode := range []string{"private", "plain"} {
		for _, model := range []string{"mlp-fmnist", "logistic"} {
			o := options()
			o.Mode, o.Model = mode, model
			r, err := Step(o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Batch != 20 || r.Steps < 1 || !(r.StepSeconds > 0) || r.Parameters < 785 || (r.Strategy != nil) != (mode == "private") {
				t.Errorf("%s %s: %+v", mode, model, r)
			}
			if got := r.ExamplesPerSecond * r.StepSeconds; got < 19.99 || got > 20.01 {
				t.Errorf("%v examples a second at %v s a step", r.ExamplesPerSecond, r.StepSeconds)
			}
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"device", "model", "mode", "strategy", "batch", "threads", "step_seconds_median", "examples_per_second", "peak_rss_bytes", "parameters", "flops_per_example"} {
				if !strings.Contains(string(b), `"`+key+`"`) {
					t.Errorf("no key %s in %s", key, b)
				}
			}
		}
	}
}

func TestStepRefuses(t *testing.T) {
	for want, change := range map[string]func(*StepOptions){
		"batch 0":            func(o *StepOptions) { o.Batch = 0 },
		`mode "fast"`:        func(o *StepOptions) { o.Mode = "fast" },
		"seconds 0":          func(o *StepOptions) { o.Seconds = 0 },
		"unknown strategy":   func(o *StepOptions) { o.Strategy = "x" },
		`"vgg"`:              func(o *StepOptions) { o.Model = "vgg" },
		`unknown device "x"`: func(o *StepOptions) { o.Device = "x" },
	} {
		o := options()
		change(&o)
		_, err := Step(o)
		var u *train.UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
