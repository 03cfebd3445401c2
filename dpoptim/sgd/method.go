package sgd

import (
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

const (
	DPSGD     = "dp-sgd"
	DPAdam    = "dp-adam"
	DPAdamW   = "dp-adamw"
	PlainSGD  = "sgd"
	PlainAdam = "adam"
)

// Settings are those of Adam, as a user gives them; nil stands for the default.
type Settings struct {
	Beta1         *float64 `yaml:"beta1,omitempty"`
	Beta2         *float64 `yaml:"beta2,omitempty"`
	Epsilon       *float64 `yaml:"adam_epsilon,omitempty"`
	SubtractNoise bool     `yaml:"subtract_noise_variance,omitempty"`
}

const topic = "adam"

func (Settings) Kinds() []dpoptim.Kind {
	return []dpoptim.Kind{
		{Name: DPSGD, About: "SGD on clipped, noisy gradients"},
		{Name: DPAdam, About: "Adam on clipped, noisy gradients", Topic: topic, Reads: []string{"beta1", "beta2", "adam_epsilon", "subtract_noise_variance"}},
		{Name: DPAdamW, About: "Adam on clipped, noisy gradients, with weight decay (--l2) outside its moments", Topic: topic, Reads: []string{"beta1", "beta2", "adam_epsilon", "subtract_noise_variance"}},
		{Name: PlainSGD, About: "SGD without privacy (NOT PRIVATE)"},
		{Name: PlainAdam, About: "Adam without privacy (NOT PRIVATE)", Topic: topic, Reads: []string{"beta1", "beta2", "adam_epsilon"}},
	}
}

func (Settings) Rows() []setting.Row {
	on := setting.Group{Title: "Training", Topic: topic}
	return []setting.Row{
		{Key: "beta1", InFile: true, Group: on, Help: "decay of the first moment (default 0.9)"},
		{Key: "beta2", InFile: true, Group: on, Help: "decay of the second moment (default 0.999)"},
		{Key: "adam_epsilon", InFile: true, Group: on, Help: "added to the root of the second moment (default 1e-08)"},
		{Key: "subtract_noise_variance", InFile: true, Group: on, Help: "dp-adam, dp-adamw: take the noise's known variance out of the second moment (DP-AdamBC)"},
	}
}

func (s Settings) New(name string, _ dpoptim.Settings) dpoptim.Method { return New(name, s) }

// moments are the settings with defaults for what was not given.
func (s Settings) moments() Moments {
	m := DefaultMoments()
	for _, given := range []struct{ from, to *float64 }{{s.Beta1, &m.Beta1}, {s.Beta2, &m.Beta2}, {s.Epsilon, &m.Epsilon}} {
		if given.from != nil {
			*given.to = *given.from
		}
	}
	m.SubtractNoise = s.SubtractNoise
	return m
}

// check finds faults.
func (s Settings) check(optimizer string, c dpoptim.Settings) error {
	if Adapts(optimizer) && c.Momentum != 0 {
		return usage.Errorf("momentum %v: %s has moments of its own; leave momentum at 0 or use another optimizer", c.Momentum, optimizer)
	}
	if s.SubtractNoise && c.Clipping == string(perexample.AdaptiveFlat) {
		return usage.Errorf("subtract_noise_variance true: the noise of clipping %s moves with the clip norm, and the second moment is of several variances; use another --clipping", c.Clipping)
	}
	return usage.Wrap(s.moments().validate())
}

// defaultDecay is the weight decay of DP-AdamW; without one it would be DP-Adam.
const defaultDecay = 0.01

// Adapts says that an optimizer is a form of Adam.
func Adapts(optimizer string) bool {
	return optimizer == DPAdam || optimizer == DPAdamW || optimizer == PlainAdam
}

// DefaultRate is the step size where none is given. A regression's output is
// not squashed by its loss and wants smaller steps than a classifier's; so does
// what is left of a second moment without the noise's variance.
func DefaultRate(optimizer string, subtractNoise bool, c dpoptim.Settings) float64 {
	switch {
	case optimizer == PlainAdam || subtractNoise:
		return 1e-3
	case optimizer == DPAdam || optimizer == DPAdamW:
		return 2e-3
	case optimizer == PlainSGD:
		return 0.1
	case c.Model == "huber-regression" || c.Model == "mlp-regression": // chosen on held-out wine; a few times as much may diverge
		return 0.2
	case c.Model == "logistic" || c.Model == "svm" || c.Model == "huber-svm":
		return 0.5
	case c.Model == "wrn-16-4" || c.Model == "wrn-40-4": // that of De et al. 2022 for CIFAR-10
		return 2
	case c.Activation == "relu":
		return 1
	default:
		return 2
	}
}

// Method makes an update by SGD or Adam of every batch's sum of gradients.
type Method struct {
	name     string
	settings Settings
	config   Config
}

// New makes one of the methods, by name.
func New(name string, s Settings) *Method { return &Method{name: name, settings: s} }

func (m *Method) Traits() dpoptim.Traits {
	return dpoptim.Traits{Name: m.name, Private: m.name == DPSGD || m.name == DPAdam || m.name == DPAdamW}
}

func (m *Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) {
	return c, m.settings.check(m.name, c)
}

func (m *Method) Complete(c dpoptim.Settings, _ dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	if c.LR == nil {
		c.LR = new(DefaultRate(m.name, m.settings.SubtractNoise, c))
	}
	if m.name == DPAdamW && c.L2 == 0 {
		c.L2 = defaultDecay
	}
	return c, dpoptim.Notes{}, nil
}

func (m *Method) Declare(c dpoptim.Settings, f dpoptim.Facts) (dpoptim.Declaration, error) {
	m.config = Config{Rate: f.Rate.Peak, Normaliser: f.ExpectedBatch, L2: c.L2, Momentum: c.Momentum, Moments: m.settings.moments()}
	return dpoptim.Declaration{Asks: []dpoptim.Ask{dpoptim.GaussianSum(c.Clip)}}, nil
}

func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	create := NewSGD
	switch {
	case m.name == DPAdamW:
		create = newAdamW
	case Adapts(m.name):
		create = newAdam
	}
	o, err := create(e, m.config)
	if err != nil {
		return nil, err
	}
	return dpoptim.NewUpdates(e, o)
}
