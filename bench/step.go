// Package bench measures how fast this machine trains: steps, line searches, matrix products,
// noise, sampling and accounting. Package compare sets steps beside those of other programs, and
// scale shows how time and memory grow. `privgrad bench step` is the easiest way to start. Figures hold for the machine and the moment: compare only figures
// that were measured side by side.
package bench

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/sgd"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/timing"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/views"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// Noise of a private step.
const (
	SecureNoise = dpoptim.Secure
	ExactNoise  = dpoptim.Exact
)

// StepOptions says what training step to time.
type StepOptions struct {
	Model      string
	Batch      int    // exactly this many rows in every step
	Mode       string // "private" or "plain"
	Views      int    // of a record, by all maps of images; 0 or 1: the record as it is
	Strategy   string // of a private step
	Noise      string // of a private step: SecureNoise or ExactNoise; "" is the first
	Activation string
	Device     string
	GEMM       string // devices.GEMMOwn or devices.GEMMCuBLAS; "" is the first
	Precision  string // of matrix products; "" is float32
	Threads    int
	Seconds    float64 // to measure for, after warming up
	Explain    bool    // list what each layer does and what that takes
	// Images gives rows to train on, shaped (C, H, W); nil makes synthetic ones.
	Images func(shape [3]int) (*datasets.Set, error)
	// Input makes synthetic rows of this shape in half precision, as a front end gives them,
	// for a model that takes any; zero: the model's own.
	Input [3]int

	// On opens a device that is a model, in place of Device. Its steps draw the same noise every time.
	On func() (device.Device, error)
}

// StepResult is one timed kind of step.
type StepResult struct {
	Device       string  `json:"device"`
	DeviceReason string  `json:"device_reason,omitempty"` // why it is the CPU, and not the GPU that seems to be there
	Precision    string  `json:"precision"`
	Model        string  `json:"model"`
	Mode         string  `json:"mode"`
	Strategy     *string `json:"strategy"`
	Noise        string  `json:"noise,omitempty"` // "exact"; others are secure or have none
	Activation   string  `json:"activation"`
	GEMM         string  `json:"gemm"`
	Data         string  `json:"data"`
	Batch        int     `json:"batch"`
	Views        int     `json:"views,omitempty"`
	Threads      int     `json:"threads"`
	Steps        int     `json:"steps_timed"`
	StepSeconds  float64 `json:"step_seconds_median"`
	// Waited is with a wait after each step, where StepSeconds has several between two waits, as on a GPU; else nil.
	Waited            *float64 `json:"step_seconds_waited_median,omitempty"`
	ExamplesPerSecond float64  `json:"examples_per_second"`
	PeakRSS           int64    `json:"peak_rss_bytes"`
	PeakDevice        *int64   `json:"peak_device_bytes,omitempty"` // the most memory taken on a GPU
	Parameters        int      `json:"parameters"`
	FLOPsPerExample   int64    `json:"flops_per_example"`
	Together          int      `json:"physical_batch"`
	Layers            []Layer  `json:"layers,omitempty"`
}

// Step times whole steps: gather, forward, backward, clip, secure or exact noise
// and update; in plain mode the mean gradient and SGD.
func Step(o StepOptions) (*StepResult, error) {
	if err := timing.CheckSeconds(o.Seconds); err != nil {
		return nil, err
	}
	s, err := Prepare(&o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	together, err := o.together(s)
	if err != nil {
		return nil, err
	}
	times, err := o.measure(s.steps, together, o.Seconds)
	if err != nil {
		return nil, err
	}
	var waited *float64
	if s.together() > 1 {
		each, err := o.measure(s.steps, 1, o.Seconds/2)
		if err != nil {
			return nil, err
		}
		waited = new(timing.Median(each))
	}
	info, seconds := s.device.Info(), timing.Median(times)
	r := &StepResult{
		Together: s.Schedule.Chunk,
		Device:   info.Name, DeviceReason: info.Instead, Precision: s.Precision.String(), Model: o.Model, Mode: o.Mode, Activation: o.Activation, GEMM: o.GEMM, Data: s.set.Name,
		Batch: o.Batch, Views: o.Views, Threads: info.Threads, Steps: together * len(times),
		StepSeconds: seconds, Waited: waited, ExamplesPerSecond: float64(o.Batch) / seconds, PeakRSS: devices.PeakRSS(),
		Parameters: s.Program.NumParams(), FLOPsPerExample: int64(s.Schedule.Views()) * s.Program.StepFLOPs(),
	}
	if g, ok := s.device.(*cuda.Device); ok {
		r.PeakDevice = new(g.PeakMemory())
	}
	if o.Mode == "private" {
		strategy := string(perexample.Canonical(perexample.Strategy(o.Strategy)))
		r.Strategy = &strategy
	}
	if o.exact() {
		r.Noise = o.Noise
	}
	if o.Explain {
		r.Layers, err = o.explain(s.Schedule, info, s.steps.Profile(), func() error {
			_, err := s.steps.step()
			return err
		})
	}
	return r, err
}

func (o *StepOptions) check() error {
	if err := timing.CheckBatch(o.Batch); err != nil {
		return err
	}
	switch {
	case o.Mode != "private" && o.Mode != "plain":
		return usage.Unknown("mode", o.Mode, []string{"private", "plain"})
	case o.Views < 0:
		return usage.Errorf("views %d: give 1 or more", o.Views)
	case o.Noise != "" && o.Noise != SecureNoise && o.Noise != ExactNoise:
		return usage.Unknown("noise", o.Noise, []string{SecureNoise, ExactNoise})
	case o.Noise == ExactNoise && o.Mode == "plain":
		return usage.Errorf("--noise exact has no effect in mode plain, which adds no noise; use mode private")
	case o.exact() && !slices.Contains(wholeGradients, perexample.Canonical(perexample.Strategy(o.Strategy))):
		return usage.Errorf("--strategy %s does not work with --noise exact, which needs each record's full gradient; use --strategy materialise or microbatch", o.Strategy)
	case o.Input != [3]int{} && min(o.Input[0], o.Input[1], o.Input[2]) < 1:
		return usage.Errorf("input %v: channels, height and width must be 1 or more", o.Input)
	case o.Explain && o.Mode == "plain":
		return usage.Errorf("explain: a plain step has no strategy to explain; use mode private")
	}
	return nil
}

// wholeGradients are the strategies that exact noise works with; auto means the second.
var wholeGradients = []perexample.Strategy{perexample.Auto, perexample.Materialise, perexample.Microbatch}

// exact says that sums are of integers.
func (o *StepOptions) exact() bool { return o.Mode == "private" && o.Noise == ExactNoise }

func (o *StepOptions) open() (*workload, error) {
	model, err := plan.Model(o.Model)
	if err != nil {
		return nil, err
	}
	w := &workload{options: device.Options{Capacity: o.Batch, Exact: o.exact()}}
	if o.Precision != "" {
		if w.options.Precision, err = device.ParsePrecision(o.Precision); err != nil {
			return nil, usage.Wrap(err)
		}
	}
	if o.Input != [3]int{} {
		model.Input, model.Classes, o.Images = o.Input, 10, nil
	}
	if w.set, err = o.images(model); err != nil {
		return nil, err
	}
	network, err := plan.BuildNetwork(o.Model, nn.Options{Input: model.Input, Classes: w.set.Classes, Activation: o.Activation, Seed: 1})
	if err != nil {
		return nil, err
	}
	w.program, w.params = network.Program, network.Params()
	if o.On != nil {
		w.device, err = o.On()
	} else {
		w.device, err = devices.Open(o.Device, o.Threads)
	}
	if err != nil {
		return nil, err
	}
	if err := o.start(w); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// start settles how a step is done, and puts rows on the device.
func (o *StepOptions) start(w *workload) error {
	info, precision := w.device.Info(), w.options.Precision
	if precision != device.Float32 && !slices.Contains(info.Precisions, precision) {
		return usage.Errorf("precision %s: device %s multiplies in float32 or better; use --device cuda on a machine with an NVIDIA GPU", precision, info.Name)
	}
	o.GEMM = cmp.Or(o.GEMM, devices.GEMMOwn)
	if err := devices.CheckGEMM(w.device, o.GEMM, precision); err != nil {
		return err
	}
	w.options.CuBLAS = o.GEMM == devices.GEMMCuBLAS
	key := stream.Key{1} // for a model, whose figures are to be the same every time
	if o.On == nil {
		var err error
		if key, err = stream.NewKey(); err != nil {
			return err
		}
	}
	cipher := info.Cipher
	if o.exact() { // as in a run, where all devices draw the same
		cipher = stream.ChaCha20
	}
	var err error
	if w.noise, err = stream.New(cipher, key); err != nil {
		return err
	}
	if o.Views > 1 {
		key[len(key)-1]++ // another than the noise's, and as random
		if w.words, err = views.New(cipher, key, o.Views, 0); err != nil {
			return err
		}
	}
	if err := o.schedule(w); err != nil {
		return usage.Wrap(err)
	}
	rows, values, err := tables.Reader{Loss: w.program.Loss, Classes: w.set.Classes}.Table(w.set.Train)
	if err != nil {
		return err
	}
	if o.Input != [3]int{} {
		values = halves(w.set.Train.Features)
	}
	w.data, err = w.device.Load(rows, values)
	return err
}

// halves are bytes as numbers of about norm 63, as rows of features have.
func halves(bytes []uint8) device.Halves {
	h := make(device.Halves, len(bytes))
	for i, b := range bytes {
		h[i] = half.FromFloat32(float32(b)/128 - 1)
	}
	return h
}

func (o *StepOptions) schedule(w *workload) (err error) {
	options := perexample.Options{
		Strategy: perexample.Strategy(o.Strategy), Clipping: ir.Flat,
		Costs: w.device.Info().Costs, Memory: devices.DefaultMemory(w.device.Info()), Batch: float64(o.Batch), Rows: o.Batch, MaxBatch: o.Batch,
	}
	if o.Views > 1 {
		options.Views, options.Augment = o.Views, ir.Augment(ir.Augmentations())
	}
	if o.exact() { // as internal/plan does it
		options.Costs.Passes = false
		if options.Strategy == perexample.Auto {
			options.Strategy = perexample.Materialise
			o.Strategy = string(options.Strategy)
		}
	}
	if o.Mode == "plain" {
		w.schedule, err = perexample.Unclipped(w.program, options)
	} else {
		w.schedule, err = perexample.Private(w.program, options)
	}
	if err == nil && w.schedule.Chunk == 0 {
		w.schedule.Chunk = min(perexample.Together(w.schedule, options), o.Batch)
	}
	return err
}

func (o *StepOptions) sgd(w *workload) (*stepper, error) {
	if o.Mode == "plain" {
		return w.stepper(sgd.New(sgd.PlainSGD, sgd.Settings{}), settings(), o.Batch, 0)
	}
	return w.stepper(sgd.New(sgd.DPSGD, sgd.Settings{}), settings(), o.Batch, timing.Noised)
}

// together is how many steps to time between two waits: fewer of those that take long, to which a wait adds nothing.
func (o *StepOptions) together(s *Prepared) (int, error) {
	most := s.together()
	if most == 1 {
		return 1, nil
	}
	var took time.Duration
	for range 2 { // the first step warms up
		var err error
		if took, err = s.steps.step(); err != nil {
			return 0, err
		}
	}
	return within(o.Seconds, took, most), nil
}

// within is how many steps fit into some seconds, at most so many, and one at least.
func within(seconds float64, took time.Duration, most int) int {
	return max(1, min(most, int(seconds/took.Seconds())))
}

// measure times steps for some seconds, so many together between two waits, after a warm-up of a tenth of the time.
func (o *StepOptions) measure(s *stepper, together int, seconds float64) (times []float64, err error) {
	budget := time.Duration(seconds * float64(time.Second))
	start := time.Now()
	for t := 1; ; t++ {
		took, err := s.several(together)
		if err != nil {
			return nil, err
		}
		if t > 2 && time.Since(start) > budget/10 {
			times = append(times, took.Seconds()/float64(together))
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

// Layer is what a strategy does with one layer of a step, and what it takes.
// FLOPs, bytes and seconds are those of the parameters' gradients, of their
// norms and of the clipped sum; forward and backward seconds come beside.
type Layer struct {
	Name string `json:"layer"`
	Alternative
	Measured     float64       `json:"seconds_measured"` // a step
	Forward      float64       `json:"forward_seconds"`
	Backward     float64       `json:"backward_seconds"`
	Alternatives []Alternative `json:"alternatives"`
}

// Alternative is what a layer could do.
type Alternative struct {
	Choice    string  `json:"choice"`
	FLOPs     int64   `json:"flops_per_example"`
	Bytes     int64   `json:"bytes_per_example"`
	Estimated float64 `json:"seconds_estimated"` // a step, by nominal speeds
}

// explain runs more steps for half of the time, with a clock at every step of
// the schedule.
func (o *StepOptions) explain(s *ir.Schedule, info device.Info, spent func() []time.Duration, step func() error) ([]Layer, error) {
	if spent == nil {
		return nil, fmt.Errorf("device %s cannot time single layers", info.Name)
	}
	steps := 0
	for start := time.Now(); steps == 0 || time.Since(start).Seconds() < o.Seconds/2; steps++ {
		if err := step(); err != nil {
			return nil, err
		}
	}
	times := spent()
	if len(times) != len(s.Steps) {
		return nil, fmt.Errorf("device %s cannot time single layers", info.Name)
	}
	price := func(a perexample.Alternative) Alternative {
		return Alternative{string(a.Choice), a.FLOPs, a.Bytes, a.Seconds * float64(o.Batch) / float64(info.Threads)}
	}
	var layers []Layer
	for _, l := range perexample.Explain(s, info.Costs) {
		layer := Layer{Name: l.Name, Alternative: price(l.Chosen())}
		for _, a := range l.Alternatives {
			layer.Alternatives = append(layer.Alternatives, price(a))
		}
		for i, st := range s.Steps {
			if st.Op != l.Op {
				continue
			}
			seconds := times[i].Seconds() / float64(steps) / float64(info.Threads)
			switch st.Kind {
			case ir.Forward:
				layer.Forward += seconds
			case ir.InputGrad:
				layer.Backward += seconds
			default:
				layer.Measured += seconds
			}
		}
		layers = append(layers, layer)
	}
	return layers, nil
}
