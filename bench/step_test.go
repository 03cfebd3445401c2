package bench

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/internal/cuda/model"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/train"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func options() StepOptions {
	return StepOptions{Model: "mlp-fmnist", Batch: 20, Mode: "private", Strategy: "auto", Activation: "relu", Device: "cpu", Threads: 1, Seconds: 0.01}
}

// Steps of a GPU are timed together, without waits that would cut their graphs.
func TestStepsOfAGPU(t *testing.T) {
	o := options()
	_, driver := model.New(model.Find("h100"))
	o.Model, o.Batch, o.On = "logistic", 2, func() (device.Device, error) { return cuda.Open(driver, 0) }
	p, err := Prepare(&o)
	check(t, err)
	defer p.Close()
	check(t, p.Make(Together))
	before := driver.Calls("cuGraphLaunch")
	check(t, p.Make(Together))
	if n := driver.Calls("cuGraphLaunch") - before; n != Together/cuda.Together {
		t.Errorf("%d graphs for %d steps", n, Together)
	}
	r, err := Step(o)
	check(t, err)
	if r.Steps < 1 || !(r.StepSeconds > 0) || r.Waited == nil || !(*r.Waited > 0) {
		t.Errorf("%d steps were timed, of %v s, or %v s with a wait each", r.Steps, r.StepSeconds, deref(r.Waited))
	}
	for took, want := range map[time.Duration]int{time.Microsecond: 32, 31 * time.Millisecond: 32, 100 * time.Millisecond: 10, 2 * time.Second: 1} {
		if n := within(1, took, 32); n != want {
			t.Errorf("%d steps of %v are timed together in a second, want %d", n, took, want)
		}
	}
}

func TestStep(t *testing.T) {
	for _, mode := range []string{"private", "plain"} {
		for _, model := range []string{"mlp-fmnist", "logistic"} {
			o := options()
			o.Mode, o.Model = mode, model
			r, err := Step(o)
			check(t, err)
			if r.Batch != 20 || r.Steps < 1 || !(r.StepSeconds > 0) || r.Parameters < 785 || (r.Strategy != nil) != (mode == "private") {
				t.Errorf("%s %s: %+v", mode, model, r)
			}
			if got := r.ExamplesPerSecond * r.StepSeconds; got < 19.99 || got > 20.01 {
				t.Errorf("%v examples a second at %v s a step", r.ExamplesPerSecond, r.StepSeconds)
			}
			b, err := json.Marshal(r)
			check(t, err)
			for _, key := range []string{"device", "model", "mode", "strategy", "batch", "threads", "step_seconds_median", "examples_per_second", "peak_rss_bytes", "parameters", "flops_per_example"} {
				if !strings.Contains(string(b), `"`+key+`"`) {
					t.Errorf("no key %s in %s", key, b)
				}
			}
		}
	}
}

// A step with exact noise keeps every gradient, and says so.
func TestExactStep(t *testing.T) {
	for strategy, want := range map[string]string{"auto": "materialise", "materialise": "materialise", "microbatch": "microbatch"} {
		o := options()
		o.Noise, o.Strategy = "exact", strategy
		r, err := Step(o)
		check(t, err)
		if r.Noise != "exact" || r.Strategy == nil || *r.Strategy != want || !(r.StepSeconds > 0) {
			t.Errorf("%s: %+v", strategy, r)
		}
	}
}

func TestStepRefuses(t *testing.T) {
	for want, change := range map[string]func(*StepOptions){
		"batch 0":            func(o *StepOptions) { o.Batch = 0 },
		`mode "fast"`:        func(o *StepOptions) { o.Mode = "fast" },
		`noise "seeded"`:     func(o *StepOptions) { o.Noise = "seeded" },
		"adds no noise":      func(o *StepOptions) { o.Noise, o.Mode = "exact", "plain" },
		"full gradient":      func(o *StepOptions) { o.Noise, o.Strategy = "exact", "ghost" },
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

func TestExplain(t *testing.T) {
	o := options()
	o.Model, o.Strategy, o.Explain = "cnn-mnist", "auto,conv2=gram", true
	r, err := Step(o)
	check(t, err)
	var got []string
	for _, l := range r.Layers {
		got = append(got, l.Name+" "+l.Choice)
		if !(l.Measured > 0 && l.Forward > 0 && l.Estimated > 0) || (l.Backward > 0) != (l.Name != "conv1") || l.FLOPs < 1 || len(l.Alternatives) < 2 {
			t.Errorf("a layer is %+v", l)
		}
	}
	if want := "conv1 store, conv2 gram, fc1 ghost, fc2 ghost, fc3 ghost"; strings.Join(got, ", ") != want {
		t.Errorf("the layers are %v, want %s", got, want)
	}
	// 16 filters of 6·5·5 taps at 8·8 positions: the gradient and half of two Gram matrices.
	if l := r.Layers[1]; l.FLOPs != 2*16*150*64+64*65*(150+16) {
		t.Errorf("conv2 takes %d operations", l.FLOPs)
	}
	o.Device = "reference"
	if _, err := Step(o); err == nil || !strings.Contains(err.Error(), "cannot time single layers") {
		t.Errorf("the reference explains with %v", err)
	}
	o.Mode = "plain"
	if _, err := Step(o); err == nil || !strings.Contains(err.Error(), "no strategy to explain") {
		t.Errorf("plain mode explains with %v", err)
	}
}
