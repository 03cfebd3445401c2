package bench

import (
	"math"
	"math/rand/v2"

	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/timing"
)

// L2PResult is a DP-SGD step beside one whose update a learned projector makes.
type L2PResult struct {
	Subject
	Parameters int `json:"parameters"`
	Layers     int `json:"layers"`
	Hidden     int `json:"hidden"`
	Turns          // the limit is for cnn-mnist at a batch of 300
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
// The step's mode is private.
func L2P(o StepOptions) (*L2PResult, error) {
	o.Mode = "private"
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &L2PResult{Layers: l2pLayers, Hidden: l2pHidden}
	err := o.beside(&r.Subject, &r.Turns, l2pLimit, 1, func(w *workload) (*stepper, error) {
		r.Parameters = w.program.NumParams()
		return o.learned(w)
	})
	return r, err
}

// learned makes steps as a run with a projector does, of a small size.
func (o *StepOptions) learned(w *workload) (*stepper, error) {
	s := settings()
	s.LR = new(1e-4)
	return w.stepper(l2p.NewWith(randomProtector(), l2p.Settings{}), s, o.Batch, timing.Noised)
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
