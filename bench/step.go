// Package bench measures what the project claims to be fast at. Figures hold
// for the machine and the moment: compare only within one run.
package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
	"github.com/privgrad/privgrad/train"
)

// StepOptions says what training step to time.
type StepOptions struct {
	Model      string
	Batch      int    // exactly this many rows in every step
	Mode       string // "private" or "plain"
	Strategy   string // of a private step
	Activation string
	Device     string
	Threads    int
	Seconds    float64 // to measure for, after warming up
	Explain    bool    // list what each layer does and what that takes
	// Images gives rows to train on, shaped (C, H, W); nil makes synthetic ones.
	Images func(shape [3]int) (*datasets.Set, error)
}

// StepResult is one timed kind of step.
type StepResult struct {
	Device            string  `json:"device"`
	Model             string  `json:"model"`
	Mode              string  `json:"mode"`
	Strategy          *string `json:"strategy"`
	Activation        string  `json:"activation"`
	Data              string  `json:"data"`
	Batch             int     `json:"batch"`
	Threads           int     `json:"threads"`
	Steps             int     `json:"steps_timed"`
	StepSeconds       float64 `json:"step_seconds_median"`
	ExamplesPerSecond float64 `json:"examples_per_second"`
	PeakRSS           int64   `json:"peak_rss_bytes"`
	Parameters        int     `json:"parameters"`
	FLOPsPerExample   int64   `json:"flops_per_example"`
	Together          int     `json:"physical_batch"`
	Layers            []Layer `json:"layers,omitempty"`
}

// mostRows bounds a batch to what a step can take in a sensible time.
const mostRows = 1 << 20

// Step times whole steps: gather, forward, backward, clip, secure noise and
// update; in plain mode the mean gradient and SGD.
func Step(o StepOptions) (*StepResult, error) {
	switch {
	case o.Batch < 1 || o.Batch > mostRows:
		return nil, &train.UsageError{Err: fmt.Errorf("batch %d: must be in [1, %d]", o.Batch, mostRows)}
	case o.Mode != "private" && o.Mode != "plain":
		return nil, &train.UsageError{Err: fmt.Errorf("mode %q: choose private or plain", o.Mode)}
	case o.Explain && o.Mode == "plain":
		return nil, &train.UsageError{Err: fmt.Errorf("explain: a plain step has no strategy to explain; use mode private")}
	case !(o.Seconds > 0) || o.Seconds > 3600:
		return nil, &train.UsageError{Err: fmt.Errorf("seconds %v: must be above 0 and at most 3600", o.Seconds)}
	}
	model, err := train.Model(o.Model)
	if err != nil {
		return nil, err
	}
	set, err := o.images(model)
	if err != nil {
		return nil, err
	}
	network, err := train.BuildNetwork(o.Model, model.Input, set.Classes, o.Activation, 1)
	if err != nil {
		return nil, err
	}
	d, err := train.OpenDevice(o.Device, o.Threads)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	options := perexample.Options{
		Strategy: perexample.Strategy(o.Strategy), Clipping: plan.Flat,
		Costs: d.Info().Costs, Memory: train.DefaultMemory(), Batch: float64(o.Batch), MaxBatch: o.Batch,
	}
	schedule, m, err := o.schedule(network.Program, options)
	if err != nil {
		return nil, err
	}
	data, err := train.Load(d, set.Train, network.Program.Loss, set.Classes)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	if schedule.Chunk == 0 {
		schedule.Chunk = min(perexample.Together(schedule, options), o.Batch)
	}
	var net device.Net
	e, err := train.NewEngine(d, schedule, o.Batch, data, m,
		func(n device.Net) (dpoptim.Optimizer, error) {
			net = n
			return dpoptim.NewSGD(n, dpoptim.Config{Rate: 0.05, Normaliser: float64(o.Batch)})
		})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if err := e.SetParams(network.Params()); err != nil {
		return nil, err
	}
	step := o.stepper(e, len(set.Train.Labels))
	times, err := o.measure(step)
	if err != nil {
		return nil, err
	}
	slices.Sort(times)
	median := times[len(times)/2].Seconds()
	info := d.Info()
	r := &StepResult{
		Together: schedule.Chunk,
		Device:   info.Name, Model: o.Model, Mode: o.Mode, Activation: o.Activation, Data: set.Name,
		Batch: o.Batch, Threads: info.Threads, Steps: len(times),
		StepSeconds: median, ExamplesPerSecond: float64(o.Batch) / median, PeakRSS: train.PeakRSS(),
		Parameters: network.Program.NumParams(), FLOPsPerExample: network.Program.StepFLOPs(),
	}
	if o.Mode == "private" {
		r.Strategy = &o.Strategy
	}
	if o.Explain {
		r.Layers, err = o.explain(schedule, info, net, step)
	}
	return r, err
}

// schedule is the step's, with the mechanism that goes with it.
func (o *StepOptions) schedule(p *plan.Program, options perexample.Options) (*plan.Schedule, func(device.Net) (mechanism.Mechanism, error), error) {
	key, err := stream.NewKey()
	if err != nil {
		return nil, nil, err
	}
	noise, err := stream.New(stream.AES256CTR, key)
	if err != nil {
		return nil, nil, err
	}
	if o.Mode == "plain" {
		s, err := perexample.Plain(p)
		return s, func(device.Net) (mechanism.Mechanism, error) { return mechanism.NewUnprotected(1, noise), nil }, err
	}
	s, err := perexample.Private(p, options)
	if err != nil {
		return nil, nil, &train.UsageError{Err: err}
	}
	return s, func(n device.Net) (mechanism.Mechanism, error) {
		return mechanism.NewGaussian(1, 1, n.Rounding(o.Batch), noise, 0)
	}, nil
}

// stepper makes one step on random rows each time.
func (o *StepOptions) stepper(e *train.Engine, available int) func() error {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]int32, o.Batch)
	t := 0
	return func() error {
		for i := range rows {
			rows[i] = random.Int32N(int32(available))
		}
		t++
		if err := e.Step(rows, uint64(t), t); err != nil {
			return err
		}
		return e.Wait()
	}
}

// measure times steps after a warm-up of a tenth of the time.
func (o *StepOptions) measure(step func() error) ([]time.Duration, error) {
	var times []time.Duration
	budget := time.Duration(o.Seconds * float64(time.Second))
	start := time.Now()
	for t := 1; ; t++ {
		began := time.Now()
		if err := step(); err != nil {
			return nil, err
		}
		if took := time.Since(began); t > 2 && time.Since(start) > budget/10 {
			times = append(times, took)
		}
		if len(times) > 0 && time.Since(start) > budget {
			return times, nil
		}
	}
}

// images gives real rows where the caller has some of the shape.
func (o *StepOptions) images(model nn.Info) (*datasets.Set, error) {
	if o.Images != nil {
		set, err := o.Images(model.Input)
		if err == nil && set != nil && set.Classes > model.Classes {
			set, err = set.Keep([]int{0, 1}) // the model has one logit
		}
		if set != nil || err != nil {
			return set, err
		}
	}
	const rows = 2048
	shape := model.Input
	random := rand.New(rand.NewPCG(3, 4))
	set := &datasets.Set{Name: "synthetic", Classes: model.Classes}
	set.Train = datasets.Images{Shape: shape, Pixels: make([]uint8, rows*plan.Size(shape[:])), Labels: make([]uint8, rows)}
	for i := range set.Train.Pixels {
		set.Train.Pixels[i] = uint8(random.Uint32())
	}
	for i := range set.Train.Labels {
		set.Train.Labels[i] = uint8(random.IntN(model.Classes))
	}
	return set, nil
}
