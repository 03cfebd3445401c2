package bench

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/train"
)

// L2POptions says what learned step to time beside DP-SGD's. The step's mode is private.
type L2POptions struct{ StepOptions }

// L2PResult is a DP-SGD step beside one whose update a learned projector makes.
type L2PResult struct {
	Device           string  `json:"device"`
	Model            string  `json:"model"`
	Activation       string  `json:"activation"`
	Data             string  `json:"data"`
	Batch            int     `json:"batch"`
	Threads          int     `json:"threads"`
	Parameters       int     `json:"parameters"`
	Layers           int     `json:"layers"`
	Hidden           int     `json:"hidden"`
	Steps            int     `json:"steps_timed"` // of each kind
	StepSeconds      float64 `json:"step_seconds_median"`
	DPSGDStepSeconds float64 `json:"dpsgd_step_seconds_median"`
	Ratio            float64 `json:"ratio"`
	Limit            float64 `json:"limit"` // the ratio that this project holds itself to for cnn-mnist at a batch of 300
}

// The projector of the paper's experiments, and what a step with it may cost.
const (
	l2pLayers = 2
	l2pHidden = 20
	l2pLimit  = 3.5
)

// L2P times DP-SGD steps and, in turns with them, steps of learned privacy
// protection: the same noised gradient, and an update by a projector of random
// weights, whose values change no time. Drawing batches is not timed, and no accountant.
func L2P(o L2POptions) (*L2PResult, error) {
	o.Mode = "private"
	if err := o.check(); err != nil {
		return nil, err
	}
	w, err := o.open()
	if err != nil {
		return nil, err
	}
	defer w.close()
	learned, err := o.learned(w)
	if err != nil {
		return nil, err
	}
	defer learned.Close()

	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]int32, o.Batch)
	position := 0 // both engines draw from one stream
	step := func(e *train.Engine) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			position++
			for i := range rows {
				rows[i] = random.Int32N(int32(len(w.set.Train.Labels)))
			}
			began := time.Now()
			if err := e.Step(rows, uint64(position), position); err != nil {
				return 0, err
			}
			err := e.Wait()
			return time.Since(began), err
		}
	}
	alone, with, err := inTurns(o.Seconds, 1, step(w.engine), step(learned))
	if err != nil {
		return nil, err
	}
	info := w.device.Info()
	r := &L2PResult{
		Device: info.Name, Model: o.Model, Activation: o.Activation, Data: w.set.Name, Batch: o.Batch, Threads: info.Threads,
		Parameters: w.program.NumParams(), Layers: l2pLayers, Hidden: l2pHidden, Limit: l2pLimit,
		Steps: len(alone), StepSeconds: median(with), DPSGDStepSeconds: median(alone),
	}
	r.Ratio = r.StepSeconds / r.DPSGDStepSeconds
	return r, nil
}

// learned is an engine as a run with a projector has it, on the workload's device, data and noise.
func (o *L2POptions) learned(w *workload) (*train.Engine, error) {
	const multiplier = 1
	options := device.Options{Capacity: o.Batch}
	e, err := train.NewEngine(w.device, w.schedule, options, w.data,
		func(n device.Net) (mechanism.Mechanism, error) {
			return mechanism.NewGaussian(multiplier, 1, n.Rounding(o.Batch), w.program.NumParams(), w.noise, 0)
		}, nil,
		func(n device.Net) (dpoptim.Optimizer, error) {
			setting := l2p.Setting{Steps: mostTimed, Params: w.program.NumParams(), Clip: 1, Batch: float64(o.Batch), Planned: multiplier}
			p, err := l2p.NewProjector(n, randomProtector(), setting, 1e-4, 0)
			if err == nil {
				p.Released = l2p.Released{Step: 1, Left: 1}
			}
			return p, err
		})
	if err != nil {
		return nil, err
	}
	params := make([]float32, w.program.NumParams())
	if err = w.engine.Params(params); err == nil {
		err = e.SetParams(params)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// mostTimed is T of the run that a timed step belongs to.
const mostTimed = 1000

// randomProtector has a projector that nobody trained, with weights as a fresh LSTM has them.
func randomProtector() *l2p.Protector {
	p := &l2p.Protector{Card: l2p.Card{
		Name:      "random",
		Projector: l2p.Part{Kind: l2p.Learned, Layers: l2pLayers, Hidden: l2pHidden},
		Scheduler: l2p.Part{Kind: l2p.Constant},
	}}
	random, most := rand.New(rand.NewPCG(5, 6)), 1/math.Sqrt(l2pHidden)
	p.Projector = make([]float32, p.Card.Projector.LSTM(l2p.ProjectorContext).Weights())
	for i := range p.Projector {
		p.Projector[i] = float32(most * (2*random.Float64() - 1))
	}
	return p
}
