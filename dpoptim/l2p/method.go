package l2p

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/dpoptim/sgd"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

const Name = "l2p"

// Settings are those of learned privacy protection alone.
type Settings struct {
	Protector string   `yaml:"protector,omitempty"`        // a name or a file
	Weights   string   `yaml:"protector_sha256,omitempty"` // of the protector; checked where it is given, else filled in
	NormNoise *float64 `yaml:"norm_noise,omitempty"`       // noise multiplier of released norms, nil for none
}

const topic = "l2p"

func (Settings) Kinds() []dpoptim.Kind {
	return []dpoptim.Kind{{Name: Name, About: "noise and steps by small LSTMs that learned on public tasks", Topic: topic}}
}

func (Settings) Rows() []setting.Row {
	on := setting.Group{Title: "Training", Topic: topic}
	return []setting.Row{
		{Key: "protector", Group: on, Help: "a name that `privgrad l2p list` shows, or a file that `privgrad l2p train` wrote"},
		{Key: "protector_sha256", InFile: true, Group: on, Arg: "HASH", Help: "refuse a protector with other weights; filled in for config.yaml"},
		{Key: "norm_noise", InFile: true, Group: on, Limit: setting.Noise, Help: "also release the norm of each sum of gradients, with this noise multiplier; costs privacy"},
	}
}

func (s Settings) New(string, dpoptim.Settings) dpoptim.Method { return New(s) }

// Method lets a protector choose the noise of every step and make the step (Hong et al.
// 2021).
type Method struct {
	settings  Settings
	protector *Protector
	config    sgd.Config
}

func New(s Settings) *Method { return &Method{settings: s} }

func (m *Method) Settled() dpoptim.Family { return m.settings }

// NewWith makes it with a protector that is at hand.
func NewWith(p *Protector, s Settings) *Method { return &Method{settings: s, protector: p} }

func (m *Method) Traits() dpoptim.Traits {
	return dpoptim.Traits{Name: Name, Private: true, Batches: []*batches.Kind{batches.Poisson, batches.Subsets}}
}

func (m *Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) { return c, m.check(c) }

func (m *Method) check(c dpoptim.Settings) error {
	z, subsets := m.settings.NormNoise, c.Accountant == accountant.CTCDP
	switch {
	case c.Clipping == string(perexample.AdaptiveFlat):
		return usage.Errorf("clipping %s: a protector was trained for a clip norm that stays; use --clipping flat", c.Clipping)
	case z != nil && c.Noise == dpoptim.Exact:
		return usage.Errorf("norm-noise %v: exact noise works on integers, and norms are not integers; leave it out, or use --noise secure", *z)
	case subsets && c.Neighbouring != string(accountant.ReplaceOne):
		return usage.Errorf("accountant %s: it holds for batches of a fixed size and under replace-one; add --neighbouring replace-one", c.Accountant)
	case subsets && c.TrainLossNoise != nil:
		return usage.Errorf("train-loss-noise %v: accountant %s prices the batches of training alone; leave it out, or use another --accountant", *c.TrainLossNoise, c.Accountant)
	}
	return nil
}

// budget says who decides on the noise.
func (m *Method) budget(c dpoptim.Settings) dpoptim.Budget {
	switch {
	case m.protector.Adapts():
		return dpoptim.Scheduled
	case c.Accountant == accountant.CTCDP:
		return dpoptim.Admitted
	}
	return dpoptim.Committed
}

// Complete reads the protector and fills in the settings that follow from it.
func (m *Method) Complete(c dpoptim.Settings, n dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	if m.protector == nil {
		if err := m.find(); err != nil {
			return c, dpoptim.Notes{}, err
		}
	}
	notes, err := m.complete(&c, n)
	return c, notes, err
}

// complete fills in what follows from the protector.
func (m *Method) complete(c *dpoptim.Settings, n dpoptim.Network) (notes dpoptim.Notes, err error) {
	card := &m.protector.Card
	if of := card.Overlap(n.Data, c.Classes); of != "" {
		why := fmt.Sprintf("protector %s was trained on records of %s, un-noised", card.Name, of)
		notes.NoGuarantee, notes.Warnings = []string{why}, []string{"NO GUARANTEE: " + why}
	}
	learned := card.Projector.Kind == Learned
	if learned && c.Momentum != 0 {
		return notes, usage.Errorf("momentum %v: the projector of protector %s has a memory of its own; leave momentum at 0", c.Momentum, card.Name)
	}
	if z := m.settings.NormNoise; z != nil && !m.protector.Adapts() {
		return notes, usage.Errorf("norm-noise %v: protector %s schedules no noise and would not look at the norm; leave it out", *z, card.Name)
	}
	if c.LR == nil {
		c.LR = new(sgd.DefaultRate(Name, false, *c))
		if learned {
			*c.LR = card.Scale
		}
	}
	if c.Steps == nil && c.Epochs == nil {
		c.Steps = new(card.Steps)
	}
	if !isShipped(m.settings.Protector) {
		notes.Assumes = []string{"protector_file_is_public"}
	}
	if learned {
		notes.DefaultsFrom = fmt.Sprintf("public tasks of protector %s: %s", card.Name, strings.Join(card.Tasks, ", "))
	}
	notes.Warnings = append(notes.Warnings, card.unfamiliar(*c)...)
	return notes, m.checkScheduled(c)
}

// find reads the protector that the settings name.
func (m *Method) find() (err error) {
	name, weights := m.settings.Protector, &m.settings.Weights
	if name == "" {
		return usage.Errorf("optimizer %s needs a protector: give --protector, a name that privgrad l2p list shows or a file that privgrad l2p train wrote", Name)
	}
	if m.protector, err = Find(name); err != nil {
		return usage.Wrap(err)
	}
	of := m.protector.Card.Weights
	if *weights != "" && *weights != of {
		return usage.Errorf("protector %s has weights of SHA-256 %s, the settings name %s: restore the file, or start a new run in another directory", name, of, *weights)
	}
	*weights = of
	return nil
}

// unfamiliar warns of a run that is not what the protector was trained for.
func (card *Card) unfamiliar(c dpoptim.Settings) (warnings []string) {
	if slices.Equal(card.Tasks, []string{"quadratic"}) {
		warnings = append(warnings, fmt.Sprintf("protector %s knows %s alone, and what it does to a network is likely no training: use one that was trained on networks, such as mnist", card.Name, card.Summary))
	}
	if card.Neighbouring != c.Neighbouring {
		warnings = append(warnings, fmt.Sprintf("protector %s was trained for noise under %s, this run is under %s: it may be far from what it knows", card.Name, card.Neighbouring, c.Neighbouring))
	}
	if e := c.Epsilon; e != nil && (*e < card.EpsilonRange[0] || *e > card.EpsilonRange[1]) {
		warnings = append(warnings, fmt.Sprintf("protector %s was trained for epsilon from %v to %v, this run has %v: it may be far from what it knows", card.Name, card.EpsilonRange[0], card.EpsilonRange[1], *e))
	}
	return warnings
}

// checkScheduled refuses what needs a known number of steps, and settles who prices them.
func (m *Method) checkScheduled(c *dpoptim.Settings) error {
	if m.budget(*c) == dpoptim.Committed {
		return nil
	}
	switch {
	case c.NoiseMultiplier != nil && *c.NoiseMultiplier != 0:
		return usage.Errorf("noise multiplier %v: the noise is scheduled; give --epsilon", *c.NoiseMultiplier)
	case c.TrainLossNoise != nil:
		return usage.Errorf("train-loss-noise %v: a schedule that follows what is released leaves no budget aside for it; leave it out", *c.TrainLossNoise)
	case c.LRSchedule != dpoptim.Constant || c.Warmup != 0:
		return usage.Errorf("lr-schedule %s and warmup %d: a run whose noise is scheduled does not know how many steps it will make; leave them out", c.LRSchedule, c.Warmup)
	}
	settled := accountant.RDP
	if c.Accountant == accountant.CTCDP {
		settled = accountant.CTCDP
	}
	if c.Accountant != settled && c.Accountant != accountant.PLD {
		return usage.Errorf("accountant %s: a schedule that follows what is released is priced by %s, or by %s with the constraints of its paper; leave it out", c.Accountant, accountant.RDP, accountant.CTCDP)
	}
	c.Accountant = settled
	return nil
}

// Declare is a sum of gradients a step, and its norm where that is asked for.
func (m *Method) Declare(c dpoptim.Settings, f dpoptim.Facts) (dpoptim.Declaration, error) {
	m.config = sgd.Config{Rate: *c.LR, Normaliser: f.ExpectedBatch, L2: c.L2, Momentum: c.Momentum, Moments: sgd.DefaultMoments()}
	d := dpoptim.Declaration{Budget: m.budget(c), Asks: []dpoptim.Ask{dpoptim.GaussianSum(c.Clip)}}
	if z := m.settings.NormNoise; z != nil {
		norm := dpoptim.GaussianSum(c.Clip).Release
		d.Asks = append(d.Asks, dpoptim.Ask{Question: dpoptim.Norms, Batch: dpoptim.OfSum, Release: func(multiplier float64) (dpoptim.Release, error) {
			if multiplier == 0 {
				return norm(0)
			}
			return norm(*z)
		}})
	}
	return d, nil
}

// Open records the update by the projector, or by SGD where that is the identity.
func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	f := e.Facts()
	s := &steps{method: m, engine: e}
	s.setting = Setting{Steps: f.Steps, Params: f.Params, Clip: f.Clip, Batch: f.ExpectedBatch, Least: f.Least, Planned: f.Planned}
	var err error
	if m.protector.Card.Projector.Kind == Learned {
		s.projector, err = newProjector(e, m.protector, s.setting, m.config.Rate, m.config.L2)
		s.optimizer = s.projector
	} else {
		s.optimizer, err = sgd.NewSGD(e, m.config)
	}
	if err != nil {
		return nil, err
	}
	if !e.Filtered() {
		return dpoptim.NewUpdates(e, s.optimizer)
	}
	s.state.Scheduler = make([]float64, m.protector.schedulerState())
	s.state.Released = Released{Step: 1, Left: 1}
	s.sum, err = e.Sum(dpoptim.SumQuery{Norm: m.settings.NormNoise != nil, Then: func(q dpoptim.Queue, g dpoptim.Noisy) error {
		q.Dot(e.Gradient(), e.Gradient())
		return s.optimizer.Record(q, e.Params(), g)
	}})
	return s, err
}

// state is where a run whose noise is scheduled stands: released values only,
// which the checkpoint holds as JSON.
type state struct {
	dpoptim.Spent
	Scheduler []float64 `json:"scheduler"`
	Released  Released  `json:"released"`
}

type steps struct {
	method    *Method
	engine    dpoptim.Engine
	setting   Setting
	optimizer dpoptim.Optimizer
	projector *projector // nil where it is the identity
	sum       dpoptim.Sum
	state     state
}

var _ dpoptim.Keeper = (*steps)(nil)

func (s *steps) State() []dpoptim.State { return s.optimizer.State() }

// Step chooses the noise, and makes an update with it.
func (s *steps) Step() (int, error) {
	f, e := s.engine.Facts(), s.engine
	next := append([]float64(nil), s.state.Scheduler...)
	multiplier := s.method.protector.next(s.setting, s.state.Released, next)
	release := dpoptim.Release{Bound: f.Clip}
	if f.Planned > 0 {
		release.Noise = accountant.Gaussian{NoiseMultiplier: multiplier}
	}
	err := s.sum.Ask(dpoptim.SumAsk{Release: &release, Set: func(x *dpoptim.Scalars) {
		if s.projector != nil {
			s.projector.Released = s.state.Released
		}
		s.optimizer.Set(x, e.Update())
	}})
	if err != nil {
		return 0, err
	}
	dots, err := s.sum.Dots()
	if err != nil {
		return 0, err
	}
	norm, err := s.sum.Norm()
	if err != nil {
		return 0, err
	}
	s.state.Scheduler = next
	s.state.Released = Released{
		Step: e.Update() + 1, Left: max(e.Left(), 0), Multiplier: multiplier,
		Norm2: dots[0] / f.ExpectedBatch / f.ExpectedBatch, Norm: norm / f.ExpectedBatch,
	}
	return 1, nil
}

func (s *steps) Save(spent dpoptim.Spent) ([]byte, error) {
	s.state.Spent = spent
	return json.Marshal(&s.state)
}

func (s *steps) Restore(text []byte) (dpoptim.Spent, error) {
	var read state
	err := dpoptim.DecodeState(text, &read)
	if err == nil && (len(read.Scheduler) != len(s.state.Scheduler) || read.Released.Step < 1) {
		err = errors.New("not what a schedule of this protector leaves")
	}
	if err != nil {
		return dpoptim.Spent{}, fmt.Errorf("schedule cannot be read: %w", err)
	}
	s.state = read
	return read.Spent, nil
}
