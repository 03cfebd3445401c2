// Package privgene fits linear models by choosing one move after the other with the exponential
// mechanism: PrivGene (Zhang, Xiao, Yang, Zhang and Winslett 2013), in the form that Chen and Lee
// 2020 compare with. A round moves one parameter by the step s, up or down, as the mechanism
// prefers by how much the losses of all records fall.
//
// Defaults are those of its authors' program: from parameters of 0, s = 0.5, which each round
// multiplies by 0.95, and max(1, round(Nε/800)) rounds. Where they charge ε²/2, a round here is
// priced by its bounded range.
package privgene

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

const Name = "privgene"

const (
	defaultStep  = 0.5
	defaultDecay = 0.95
	perRound     = 800 // records times ε that a round is worth
	largeStep    = 100 // the features of a table are at most 1
)

// Settings are the method's own.
type Settings struct {
	Decay *float64 `yaml:"step_decay,omitempty"` // of the step, from round to round; nil: 0.95
}

func (Settings) Kinds() []dpoptim.Kind {
	return []dpoptim.Kind{{Name: Name, About: "linear models, one move of one weight after the other by the exponential mechanism", Topic: setting.Convex.Topic}}
}

func (Settings) Rows() []setting.Row {
	return []setting.Row{{Key: "step_decay", InFile: true, Group: setting.Convex, Limit: setting.Must(func(x float64) bool { return x > 0 && x <= 1 }, "in (0, 1]"),
		Help: "privgene: factor on the step, --lr, from round to round (default 0.95)"}}
}

func (s Settings) New(_ string, run dpoptim.Settings) dpoptim.Method { return New(s, run.Delta) }

// Method makes a choice of 2d moves in every round.
type Method struct {
	settings Settings
	delta    *float64 // of the run; 0: choices are priced by ε alone
	step     float64
	decay    float64
}

// New makes the method for the δ of a run: of 0 its choices are priced by ε alone.
func New(s Settings, delta *float64) *Method { return &Method{settings: s, delta: delta} }

func (m *Method) Traits() dpoptim.Traits {
	return dpoptim.Traits{Name: Name, Private: true, Pure: m.pure(), Batches: []*batches.Kind{batches.Full}, Relation: accountant.ReplaceOne}
}

func (m *Method) pure() bool { return m.delta != nil && *m.delta == 0 }

func (m *Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) { return c, m.check(c) }

func (m *Method) check(c dpoptim.Settings) error {
	if err := c.CheckUnclipped(Name); err != nil {
		return err
	}
	switch {
	case c.Momentum != 0 || c.Average != 0:
		return usage.Errorf("optimizer %s moves one parameter at a time: leave out --momentum and --average", Name)
	case c.LRSchedule != dpoptim.Constant || c.Warmup != 0:
		return usage.Errorf("optimizer %s has a step that falls by step_decay: leave out --lr-schedule and --warmup", Name)
	case c.Clipping != string(perexample.Flat):
		return usage.Errorf("clipping %s: optimizer %s computes no gradients; leave it out", c.Clipping, Name)
	case m.pure() && (c.NoiseMultiplier != nil || c.TrainLossNoise != nil):
		return usage.Errorf("delta 0: optimizer %s divides --epsilon among its rounds; leave out --noise-multiplier and --train-loss-noise, or give --delta above 0", Name)
	case c.Noise == dpoptim.Exact:
		return usage.Errorf("noise exact: optimizer %s sums no gradients, and its choices are exact under --noise secure; use that", Name)
	}
	return nil
}

// Complete fills in the step and the rounds. A round evaluates every record at two points a parameter.
func (m *Method) Complete(c dpoptim.Settings, n dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	notes, err := m.complete(&c, n)
	return c, notes, err
}

func (m *Method) complete(c *dpoptim.Settings, n dpoptim.Network) (dpoptim.Notes, error) {
	if n.Linear == nil {
		return dpoptim.Notes{}, usage.Errorf("optimizer %s is written for the losses of --model logistic, huber-svm and huber-regression: use one of them, not %s", Name, c.Model)
	}
	if c.LR == nil {
		c.LR = new(defaultStep)
	}
	if c.Steps == nil {
		if c.Epsilon == nil {
			return dpoptim.Notes{}, usage.Errorf("optimizer %s makes as many rounds as --epsilon pays for: give --epsilon, or --steps", Name)
		}
		c.Steps = new(max(1, int(math.Round(float64(n.Records)**c.Epsilon/perRound))))
	}
	notes := dpoptim.Notes{DefaultsFrom: dpoptim.FromBounds}
	switch step := *c.LR; {
	case step > dpoptim.MostScale:
		return notes, usage.Errorf("learning rate %v: optimizer %s moves weights by it, and single precision ends; give at most %g, such as %v", step, Name, dpoptim.MostScale, defaultStep)
	case step > largeStep:
		notes.Warnings = append(notes.Warnings, fmt.Sprintf("learning rate %v: optimizer %s moves weights by as much in the first round, which is far for features of at most 1; lower --lr, or leave it out for %v", step, Name, defaultStep))
	}
	return notes, nil
}

// Declare is a choice in every round. A record's share of a move's gain is clipped to the step:
// no loss changes faster than its logits, so that features of at most 1 in magnitude are not clipped.
// The noise multiplier is the scale of the noise that the choice amounts to, 2Δ/ε₁, over Δ. With
// δ = 0 the rounds divide ε.
func (m *Method) Declare(c dpoptim.Settings, f dpoptim.Facts) (dpoptim.Declaration, error) {
	m.step, m.decay = *c.LR, defaultDecay
	if d := m.settings.Decay; d != nil {
		m.decay = *d
	}
	return dpoptim.Declaration{Asks: []dpoptim.Ask{{
		Question: dpoptim.Choices,
		Release: func(multiplier float64) (dpoptim.Release, error) {
			r := dpoptim.Release{Bound: 1}
			switch {
			case m.pure():
				r.Noise = accountant.Pure{Epsilon: m.share(c, f.Steps)}
			case multiplier > 0:
				r.Noise = accountant.BoundedRange{Epsilon: 2 / multiplier}
			}
			return r, nil
		},
	}}}, nil
}

// share is the ε of a round for adding or removing a record, where all rounds together have the run's.
func (m *Method) share(c dpoptim.Settings, rounds int) float64 {
	share := *c.Epsilon / float64(rounds) * (1 - 0x1p-50)
	if c.Neighbouring == string(accountant.ReplaceOne) {
		share /= 2
	}
	return share
}

func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) { return &steps{m, e}, nil }

type steps struct {
	method *Method
	engine dpoptim.Engine
}

func (*steps) State() []dpoptim.State { return nil }

// Figures are the last step, over the first.
func (s *steps) Figures() dpoptim.Figures {
	return dpoptim.Figures{Rate: math.Pow(s.method.decay, float64(max(s.engine.Slot()-1, 0)))}
}

// Step is a round. Its step follows from its place in the schedule.
func (s *steps) Step() (int, error) {
	e := s.engine
	step := s.method.step * math.Pow(s.method.decay, float64(e.Slot()))
	j, sign, err := e.Choose(step)
	if err != nil {
		return 0, err
	}
	w := make([]float32, e.Facts().Params)
	if err := e.Read(e.Params(), w); err != nil {
		return 0, err
	}
	w[j] += float32(float64(sign) * step)
	return 1, e.Write(e.Params(), w)
}
