package bench

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/train"
)

func TestL2P(t *testing.T) {
	o := options()
	o.Model, o.Mode = "mlp-small", ""
	r, err := L2P(o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Model != "mlp-small" || r.Batch != 20 || r.Parameters != 15910 || r.Layers != 2 || r.Hidden != 20 || r.Limit != 3.5 ||
		r.Steps < 1 || !(r.DPSGDStepSeconds > 0) || r.Ratio != r.StepSeconds/r.DPSGDStepSeconds {
		t.Errorf("%+v", r)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"device", "model", "batch", "threads", "parameters", "step_seconds_median", "dpsgd_step_seconds_median", "ratio", "limit"} {
		if !strings.Contains(string(b), `"`+key+`"`) {
			t.Errorf("no key %s in %s", key, b)
		}
	}
}

// What is timed is an update that moves parameters, by no other optimizer than the projector.
func TestL2PLearns(t *testing.T) {
	o := options()
	o.Model, o.Mode = "logistic", "private"
	w, err := o.open()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	e, err := o.learned(w)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if s := e.Steps.State(); len(s) != 1 {
		t.Fatalf("the engine has %d vectors of state, want that of the LSTM", len(s))
	}
	before, after := make([]float32, w.program.NumParams()), make([]float32, w.program.NumParams())
	for _, step := range []func() error{
		func() error { return e.ReadParams(before) }, func() error { _, err := e.step(); return err }, func() error { return e.ReadParams(after) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range after {
		if d := after[i] - before[i]; d == 0 || d > 1e-3 || d < -1e-3 {
			t.Fatalf("a step of at most 1e-4 times an output of order 1 moved parameter %d from %v to %v", i, before[i], after[i])
		}
	}
}

func TestL2PRefuses(t *testing.T) {
	for want, change := range map[string]func(*StepOptions){
		"batch 0":   func(o *StepOptions) { o.Batch = 0 },
		"seconds 0": func(o *StepOptions) { o.Seconds = 0 },
		`"vgg"`:     func(o *StepOptions) { o.Model = "vgg" },
	} {
		o := options()
		change(&o)
		_, err := L2P(o)
		var u *train.UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
