package bench

import (
	"math/rand/v2"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/timing"
	"github.com/privgrad/privgrad/internal/views"
)

// workload is a network on a device with rows to train on.
type workload struct {
	set      *datasets.Set
	program  *ir.Program
	params   []float32 // initial
	schedule *ir.Schedule
	device   device.Device
	options  device.Options
	data     device.Data
	noise    *stream.Stream
	words    *views.Words // nil: records have one view
	position uint64       // of the noise: engines draw from one stream
}

// Settings of every timed step.
const (
	stepRate  = 0.05
	turnSteps = 3 // of a kind that are timed before the other's turn
)

func settings() dpoptim.Settings {
	return dpoptim.Settings{LR: new(stepRate), LRSchedule: dpoptim.Constant, Clip: 1, Accountant: accountant.PLD}
}

func (w *workload) close() {
	if w.data != nil {
		w.data.Close()
	}
	w.device.Close()
}

// stepper is a method at work on a workload.
type stepper struct {
	*engine.Engine
	supply *supply
}

// stepper has a method make steps of exactly so many rows, with noise of a multiplier.
func (w *workload) stepper(m dpoptim.Method, s dpoptim.Settings, batch int, multiplier float64) (*stepper, error) {
	facts := dpoptim.Facts{
		Params: w.program.NumParams(), Outputs: w.program.Outputs(), Steps: timing.Scheduled,
		SamplingRate: 1, ExpectedBatch: float64(batch), Clip: s.Clip,
		Rate: dpoptim.Rate{Peak: *s.LR, Shape: s.LRSchedule, Steps: timing.Scheduled}, Planned: multiplier,
	}
	declared, err := m.Declare(s, facts)
	if err != nil {
		return nil, err
	}
	supply := newSupply(w, batch)
	e, err := engine.Open(engine.Config{
		Method: m, Declaration: declared, Facts: facts,
		Device: w.device, Schedule: w.schedule, Options: w.options, Data: w.data, Noise: w.noise, Rows: batch, Supply: supply, Views: w.words,
	})
	if err != nil {
		return nil, err
	}
	if err := e.SetParams(w.params); err != nil {
		e.Close()
		return nil, err
	}
	return &stepper{e, supply}, nil
}

// step makes a step, and says how long it took. Drawing rows is not timed.
func (s *stepper) step() (time.Duration, error) { return s.several(1) }

// several makes steps without a wait between them, and says how long they took, with the drawing of rows for all but
// the first, which a GPU does not wait for.
func (s *stepper) several(steps int) (time.Duration, error) {
	s.supply.draw()
	began := time.Now()
	for i := range steps {
		if i > 0 {
			s.supply.draw()
		}
		if _, err := s.Steps.Step(); err != nil {
			return 0, err
		}
	}
	err := s.Wait()
	return time.Since(began), err
}

// Prepared are training steps that wait to be made. Step times them; a model of a GPU counts what they do.
type Prepared struct {
	*workload
	Program   *ir.Program
	Schedule  *ir.Schedule
	Precision device.Precision // of matrix products
	steps     *stepper
}

// Prepare opens the device and settles how a step is done. Of the options it fills in what was left open.
func Prepare(o *StepOptions) (*Prepared, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	w, err := o.open()
	if err != nil {
		return nil, err
	}
	steps, err := o.sgd(w)
	if err != nil {
		w.close()
		return nil, err
	}
	return &Prepared{w, w.program, w.schedule, w.options.Precision, steps}, nil
}

// Make makes steps without a wait between them.
func (p *Prepared) Make(steps int) error {
	_, err := p.steps.several(steps)
	return err
}

// Times makes a step, and gives what each step of the schedule took, if the device has a clock for that.
func (p *Prepared) Times() ([]time.Duration, error) {
	spent := p.steps.Profile()
	err := p.Make(1)
	if err != nil || spent == nil {
		return nil, err
	}
	return spent(), nil
}

func (p *Prepared) Close() {
	p.steps.Close()
	p.close()
}

// Together is how many steps of a GPU are timed between two waits: they share graphs, which a wait would cut.
const Together = 4 * cuda.Together

// together is how many steps are to be timed together.
func (w *workload) together() int {
	if _, ok := w.device.(*cuda.Device); ok {
		return Together
	}
	return 1
}

// supply hands out batches of random rows that were drawn before.
type supply struct {
	engine.Given
	workload  *workload
	random    *rand.Rand
	available int32
	batches   [2][]int32 // the most that a step asks for
	asked     int
}

func newSupply(w *workload, batch int) *supply {
	s := &supply{workload: w, random: rand.New(rand.NewPCG(1, 2)), available: int32(w.set.Train.Len())}
	for i := range s.batches {
		s.batches[i] = make([]int32, batch)
	}
	return s
}

func (s *supply) draw() {
	for _, rows := range s.batches {
		for i := range rows {
			rows[i] = s.random.Int32N(s.available)
		}
	}
	s.Done++
	s.asked = 0
}

// Batch gives the next of them, and a noise position that no engine has had.
func (s *supply) Batch(_ dpoptim.Question, skip bool, dst []int32) ([]int32, uint64) {
	s.workload.position++
	if !skip {
		dst = append(dst, s.batches[s.asked%len(s.batches)]...)
		s.asked++
	}
	return dst, s.workload.position
}

// Subject is what steps of two kinds were timed on.
type Subject struct {
	Device     string `json:"device"`
	Model      string `json:"model"`
	Activation string `json:"activation"`
	Data       string `json:"data"`
	Batch      int    `json:"batch"`
	Threads    int    `json:"threads"`
}

// Turns are DP-SGD's steps beside those of another method.
type Turns struct {
	Steps            int     `json:"steps_timed"` // of each kind
	StepSeconds      float64 `json:"step_seconds_median"`
	DPSGDStepSeconds float64 `json:"dpsgd_step_seconds_median"`
	Ratio            float64 `json:"ratio"`
	Limit            float64 `json:"limit"` // the ratio that this project holds itself to
}

// beside times DP-SGD steps and, in turns with them, those of another method.
func (o *StepOptions) beside(of *Subject, t *Turns, limit float64, warm int, other func(*workload) (*stepper, error)) error {
	if err := timing.CheckSeconds(o.Seconds); err != nil {
		return err
	}
	w, err := o.open()
	if err != nil {
		return err
	}
	defer w.close()
	alone, err := o.sgd(w)
	if err != nil {
		return err
	}
	defer alone.Close()
	beside, err := other(w)
	if err != nil {
		return err
	}
	defer beside.Close()
	times, err := inTurns(alone, beside, warm, o.Seconds)
	if err != nil {
		return err
	}
	info := w.device.Info()
	*of = Subject{info.Name, o.Model, o.Activation, w.set.Name, o.Batch, info.Threads}
	*t = Turns{Steps: len(times[0]), StepSeconds: timing.Median(times[1]), DPSGDStepSeconds: timing.Median(times[0]), Limit: limit}
	t.Ratio = t.StepSeconds / t.DPSGDStepSeconds
	return nil
}

// inTurns times steps of two kinds for some seconds, after turns that are not timed and a
// tenth of the time.
func inTurns(one, other *stepper, warm int, seconds float64) (times [2][]float64, err error) {
	budget := time.Duration(seconds * float64(time.Second))
	start := time.Now()
	for turn := 0; len(times[0]) == 0 || time.Since(start) < budget; turn++ {
		for kind, s := range []*stepper{one, other} {
			for i := range turnSteps + 1 {
				took, err := s.step()
				if err != nil {
					return times, err
				}
				// The first step of a turn finds the other kind's values in the caches, which no run does.
				if i > 0 && turn >= warm && time.Since(start) > budget/10 {
					times[kind] = append(times[kind], took.Seconds())
				}
			}
		}
	}
	return times, nil
}
