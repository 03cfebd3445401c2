package bench

import (
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/dpoptim/l2p"
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
	alone, err := o.sgd(w)
	if err != nil {
		return nil, err
	}
	defer alone.Close()
	learned, err := o.learned(w)
	if err != nil {
		return nil, err
	}
	defer learned.Close()
	times, err := inTurns(alone, learned, 1, o.Seconds)
	if err != nil {
		return nil, err
	}
	info := w.device.Info()
	r := &L2PResult{
		Device: info.Name, Model: o.Model, Activation: o.Activation, Data: w.set.Name, Batch: o.Batch, Threads: info.Threads,
		Parameters: w.program.NumParams(), Layers: l2pLayers, Hidden: l2pHidden, Limit: l2pLimit,
		Steps: len(times[0]), StepSeconds: median(times[1]), DPSGDStepSeconds: median(times[0]),
	}
	r.Ratio = r.StepSeconds / r.DPSGDStepSeconds
	return r, nil
}

// learned makes steps as a run with a projector does, of a small size.
func (o *L2POptions) learned(w *workload) (*stepper, error) {
	s, rate := settings(), 1e-4
	s.LR = &rate
	return w.stepper(l2p.NewWith(randomProtector(), l2p.Settings{}), s, o.Batch, noised)
}

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
