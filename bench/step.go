// Package bench measures what the project claims to be fast at. Figures hold
// for the machine and the moment: compare only within one run.
package bench

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
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
	GEMM       string // train.GEMMOwn or train.GEMMCuBLAS; "" is the first
	Precision  string // of matrix products; "" is float32
	Threads    int
	Seconds    float64 // to measure for, after warming up
	Explain    bool    // list what each layer does and what that takes
	// Images gives rows to train on, shaped (C, H, W); nil makes synthetic ones.
	Images func(shape [3]int) (*datasets.Set, error)
}

// StepResult is one timed kind of step.
type StepResult struct {
	Device            string  `json:"device"`
	Precision         string  `json:"precision"`
	Model             string  `json:"model"`
	Mode              string  `json:"mode"`
	Strategy          *string `json:"strategy"`
	Activation        string  `json:"activation"`
	GEMM              string  `json:"gemm"`
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
	if err := o.check(); err != nil {
		return nil, err
	}
	w, err := o.open()
	if err != nil {
		return nil, err
	}
	defer w.close()
	step := o.stepper(w.engine, len(w.set.Train.Labels))
	times, err := o.measure(step)
	if err != nil {
		return nil, err
	}
	slices.Sort(times)
	median := times[len(times)/2].Seconds()
	info := w.device.Info()
	r := &StepResult{
		Together: w.schedule.Chunk,
		Device:   info.Name, Precision: w.precision.String(), Model: o.Model, Mode: o.Mode, Activation: o.Activation, GEMM: o.GEMM, Data: w.set.Name,
		Batch: o.Batch, Threads: info.Threads, Steps: len(times),
		StepSeconds: median, ExamplesPerSecond: float64(o.Batch) / median, PeakRSS: train.PeakRSS(),
		Parameters: w.program.NumParams(), FLOPsPerExample: w.program.StepFLOPs(),
	}
	if o.Mode == "private" {
		r.Strategy = &o.Strategy
	}
	if o.Explain {
		r.Layers, err = o.explain(w.schedule, info, w.net, step)
	}
	return r, err
}

func (o *StepOptions) check() error {
	switch {
	case o.Batch < 1 || o.Batch > mostRows:
		return usage.Errorf("batch %d: must be in [1, %d]", o.Batch, mostRows)
	case o.Mode != "private" && o.Mode != "plain":
		return usage.Errorf("mode %q: choose private or plain", o.Mode)
	case o.Explain && o.Mode == "plain":
		return usage.Errorf("explain: a plain step has no strategy to explain; use mode private")
	case !(o.Seconds > 0) || o.Seconds > 3600:
		return usage.Errorf("seconds %v: must be above 0 and at most 3600", o.Seconds)
	}
	return nil
}

// workload is a network on a device with rows to train on.
type workload struct {
	set      *datasets.Set
	program  *ir.Program
	schedule *ir.Schedule
	device   device.Device
	net      device.Net
	data     device.Data
	engine   *train.Engine
	noise    *stream.Stream

	precision device.Precision
}

// open prepares what the options describe, with SGD at stepRate.
func (o *StepOptions) open() (*workload, error) {
	model, err := train.Model(o.Model)
	if err != nil {
		return nil, err
	}
	w := &workload{}
	if o.Precision != "" {
		if w.precision, err = device.ParsePrecision(o.Precision); err != nil {
			return nil, usage.Wrap(err)
		}
	}
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
	if info := w.device.Info(); w.precision != device.Float32 && !slices.Contains(info.Precisions, w.precision) {
		w.close()
		return nil, usage.Errorf("precision %s: device %s multiplies in float32 or better; use --device cuda on a machine with an NVIDIA GPU", w.precision, info.Name)
	}
	o.GEMM = cmp.Or(o.GEMM, train.GEMMOwn)
	err = train.CheckGEMM(w.device, o.GEMM, w.precision)
	if err == nil {
		err = w.start(o, network.Params())
	}
	if err != nil {
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
	if w.noise, err = stream.New(w.device.Info().Cipher, key); err != nil {
		return err
	}
	m, err := o.schedule(w)
	if err != nil {
		return err
	}
	if w.data, err = train.Load(w.device, w.set.Train, w.program.Loss, w.set.Classes); err != nil {
		return err
	}
	options := device.Options{Capacity: o.Batch, CuBLAS: o.GEMM == train.GEMMCuBLAS, Precision: w.precision}
	w.engine, err = train.NewEngine(w.device, w.schedule, options, w.data, m, nil,
		func(n device.Net) (dpoptim.Optimizer, error) {
			w.net = n
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

// schedule decides on the step's, and gives the mechanism that goes with it.
func (o *StepOptions) schedule(w *workload) (func(device.Net) (mechanism.Mechanism, error), error) {
	options := perexample.Options{
		Strategy: perexample.Strategy(o.Strategy), Clipping: ir.Flat,
		Costs: w.device.Info().Costs, Memory: train.DefaultMemory(w.device.Info()), Batch: float64(o.Batch), MaxBatch: o.Batch,
	}
	var err error
	m := func(device.Net) (mechanism.Mechanism, error) { return mechanism.NewUnprotected(1, w.noise), nil }
	if o.Mode == "plain" {
		w.schedule, err = perexample.Plain(w.program)
	} else {
		w.schedule, err = perexample.Private(w.program, options)
		m = func(n device.Net) (mechanism.Mechanism, error) {
			return mechanism.NewGaussian(1, 1, n.Rounding(o.Batch), w.program.NumParams(), w.noise, 0)
		}
	}
	if err != nil {
		return nil, usage.Wrap(err)
	}
	if w.schedule.Chunk == 0 {
		w.schedule.Chunk = min(perexample.Together(w.schedule, options), o.Batch)
	}
	return m, nil
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
	set.Train = datasets.Split{Shape: shape, Features: make([]uint8, rows*ir.Size(shape[:])), Labels: make([]uint8, rows)}
	for i := range set.Train.Features {
		set.Train.Features[i] = uint8(random.Uint32())
	}
	for i := range set.Train.Labels {
		set.Train.Labels[i] = uint8(random.IntN(model.Classes))
	}
	return set, nil
}
