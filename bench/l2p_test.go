package bench

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestL2P(t *testing.T) {
	o := options()
	o.Model, o.Mode = "mlp-small", ""
	r, err := L2P(o)
	check(t, err)
	if r.Model != "mlp-small" || r.Batch != 20 || r.Parameters != 15910 || r.Layers != 2 || r.Hidden != 20 || r.Limit != 3.5 ||
		r.Steps < 1 || !(r.DPSGDStepSeconds > 0) || r.Ratio != r.StepSeconds/r.DPSGDStepSeconds {
		t.Errorf("%+v", r)
	}
	b, err := json.Marshal(r)
	check(t, err)
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
	check(t, err)
	defer w.close()
	e, err := o.learned(w)
	check(t, err)
	defer e.Close()
	if s := e.Steps.State(); len(s) != 1 {
		t.Fatalf("the engine has %d vectors of state, want that of the LSTM", len(s))
	}
	before, after := make([]float32, w.program.NumParams()), make([]float32, w.program.NumParams())
	for _, step := range []func() error{
		func() error { return e.ReadParams(before) }, func() error { _, err := e.step(); return err }, func() error { return e.ReadParams(after) },
	} {
		check(t, step())
	}
	for i := range after {
		if d := after[i] - before[i]; d == 0 || d > 1e-3 || d < -1e-3 {
			t.Fatalf("a step of at most 1e-4 times an output of order 1 moved parameter %d from %v to %v", i, before[i], after[i])
		}
	}
}
