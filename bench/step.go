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
}

// mostRows bounds a batch to what a step can take in a sensible time.
const mostRows = 1 << 20

// Step times whole steps: gather, forward, backward, clip, secure noise and
// update; in plain mode the mean gradient and SGD.
func Step(o StepOptions) (*StepResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	w, err := o.open()
	if err != nil {
		return nil, err
	}
	defer w.close()
	times, err := o.measure(w.engine, len(w.set.Train.Labels))
	if err != nil {
		return nil, err
	}
	slices.Sort(times)
	median := times[len(times)/2].Seconds()
	info := w.device.Info()
	r := &StepResult{
		Device: info.Name, Model: o.Model, Mode: o.Mode, Activation: o.Activation, Data: w.set.Name,
		Batch: o.Batch, Threads: info.Threads, Steps: len(times),
		StepSeconds: median, ExamplesPerSecond: float64(o.Batch) / median, PeakRSS: train.PeakRSS(),
		Parameters: w.program.NumParams(), FLOPsPerExample: w.program.StepFLOPs(),
	}
	if o.Mode == "private" {
		r.Strategy = &o.Strategy
	}
	return r, nil
}

func (o *StepOptions) check() error {
	switch {
	case o.Batch < 1 || o.Batch > mostRows:
		return &train.UsageError{Err: fmt.Errorf("batch %d: must be in [1, %d]", o.Batch, mostRows)}
	case o.Mode != "private" && o.Mode != "plain":
		return &train.UsageError{Err: fmt.Errorf("mode %q: choose private or plain", o.Mode)}
	case !(o.Seconds > 0) || o.Seconds > 3600:
		return &train.UsageError{Err: fmt.Errorf("seconds %v: must be above 0 and at most 3600", o.Seconds)}
	}
	return nil
}

// workload is a network on a device with rows to train on.
type workload struct {
	set     *datasets.Set
	program *plan.Program
	device  device.Device
	data    device.Data
	engine  *train.Engine
	noise   *stream.Stream
}

// open prepares what the options describe, with SGD at stepRate.
func (o *StepOptions) open() (*workload, error) {
	model, err := train.Model(o.Model)
	if err != nil {
		return nil, err
	}
	w := &workload{}
	if w.set, err = o.images(model); err != nil {
		return nil, err
	}
	network, err := train.BuildNetwork(o.Model, model.Input, w.set.Classes, o.Activation, 1)
	if err != nil {
		return nil, err
	}
	w.program = network.Program
	if w.device, err = train.OpenDevice(o.Device, o.Threads); err != nil {
		return nil, err
	}
	if err := w.start(o, network.Params()); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// stepRate is the step size of every timed step.
const stepRate = 0.05

func (w *workload) start(o *StepOptions, params []float32) error {
	key, err := stream.NewKey()
	if err != nil {
		return err
	}
	if w.noise, err = stream.New(stream.AES256CTR, key); err != nil {
		return err
	}
	schedule, m, err := o.schedule(w.program, w.noise)
	if err != nil {
		return err
	}
	if w.data, err = train.Load(w.device, w.set.Train, w.program.Loss, w.set.Classes); err != nil {
		return err
	}
	w.engine, err = train.NewEngine(w.device, schedule, device.Options{Capacity: min(o.Batch, train.Capacity(schedule, float64(o.Batch), 0, 0))}, w.data, m, nil,
		func(n device.Net) (dpoptim.Optimizer, error) {
			return dpoptim.NewSGD(n, dpoptim.Config{Rate: stepRate, Normaliser: float64(o.Batch)})
		})
	if err != nil {
		return err
	}
	return w.engine.SetParams(params)
}

func (w *workload) close() {
	if w.engine != nil {
		w.engine.Close()
	}
	if w.data != nil {
		w.data.Close()
	}
	w.device.Close()
}

// schedule is the step's, with the mechanism that goes with it.
func (o *StepOptions) schedule(p *plan.Program, noise *stream.Stream) (*plan.Schedule, mechanism.Mechanism, error) {
	if o.Mode == "plain" {
		s, err := perexample.Plain(p)
		return s, mechanism.NewUnprotected(1, noise), err
	}
	s, err := perexample.Private(p, perexample.Strategy(o.Strategy), plan.Flat)
	if err != nil {
		return nil, nil, &train.UsageError{Err: err}
	}
	m, err := mechanism.NewGaussian(1, 1, noise, 0)
	return s, m, err
}

// measure times steps on random rows after a warm-up of a tenth of the time.
func (o *StepOptions) measure(e *train.Engine, available int) ([]time.Duration, error) {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]int32, o.Batch)
	var times []time.Duration
	budget := time.Duration(o.Seconds * float64(time.Second))
	start := time.Now()
	for t := 1; ; t++ {
		for i := range rows {
			rows[i] = random.Int32N(int32(available))
		}
		began := time.Now()
		if err := e.Step(rows, uint64(t), t); err != nil {
			return nil, err
		}
		if err := e.Wait(); err != nil {
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
