// Package local learns from reports that every record makes with noise of its own, so that nobody has to be
// trusted with records: BANCO (Jun and Orabona 2019). A run simulates the clients of package
// dpoptim/banco/client and the server of dpoptim/banco. docs/proofs/local.md has the proof.
package local

import (
	"encoding/json"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/banco"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
)

// Banco is the method's name.
const Banco = "banco"

// The kinds of local noise: Gamma is the published one, whose length has a Gamma distribution; a report on a
// Hemisphere is a point of a sphere (Duchi, Jordan and Wainwright 2018).
const (
	Gamma      = "gamma"
	Hemisphere = "hemisphere"
)

// Noises are the values of Settings.Noise.
func Noises() []string { return []string{Gamma, Hemisphere} }

// Settings are the method's own.
type Settings struct {
	Noise string `yaml:"local_noise,omitempty"` // empty: that with the smaller bound on the excess
}

func (Settings) Kinds() []dpoptim.Kind {
	return []dpoptim.Kind{{Name: Banco, About: "linear models from reports that each record noises itself, without a learning rate", Topic: setting.Convex.Topic}}
}

func (Settings) Rows() []setting.Row {
	return []setting.Row{{Key: "local_noise", InFile: true, Group: setting.Convex, Limit: setting.UnlessEmpty(setting.OneOf(Noises()...)),
		Help: "banco: noise of a report, gamma or hemisphere (default: that with the smaller bound on the excess loss)"}}
}

func (s Settings) New(string, dpoptim.Settings) dpoptim.Method { return New(s) }

// Method has every record report once a pass.
type Method struct {
	settings Settings
	params   banco.Params
}

func New(s Settings) *Method { return &Method{settings: s} }

func (m *Method) Traits() dpoptim.Traits {
	return dpoptim.Traits{Name: Banco, Private: true, Pure: true, Local: true, Relation: accountant.ReplaceOne}
}

func (m *Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) {
	err := check(c)
	c.FeatureNorm, c.Batch = c.NormOr1(), new(1.0)
	if c.Epochs == nil && c.Steps == nil {
		c.Epochs = new(1.0)
	}
	return c, err
}

func check(c dpoptim.Settings) error {
	switch {
	case c.LR != nil || c.Momentum != 0 || c.LRSchedule != dpoptim.Constant || c.Warmup != 0:
		return usage.Errorf("optimizer %s has no learning rate, which is what it is for: leave out --lr, --momentum, --lr-schedule and --warmup", Banco)
	case c.Average != 0:
		return usage.Errorf("average %v: the model of optimizer %s is the average of its iterates already; leave it out", c.Average, Banco)
	case c.L2 != 0:
		return usage.Errorf("l2 %v: the steps of optimizer %s are made for gradients up to a bound, which a penalty has not; leave it out", c.L2, Banco)
	case c.Batch != nil && *c.Batch != 1 || c.SamplingRate != nil:
		return usage.Errorf("optimizer %s takes one report after the other: leave out --batch and --sampling-rate", Banco)
	case c.Epochs != nil && *c.Epochs != math.Trunc(*c.Epochs):
		return usage.Errorf("epochs %v: optimizer %s makes whole passes; give a whole number, or the number of reports as --steps", *c.Epochs, Banco)
	case c.NoiseMultiplier != nil:
		return usage.Errorf("noise multiplier %v: the noise of optimizer %s follows from ε; give --epsilon", *c.NoiseMultiplier, Banco)
	case c.TrainLossNoise != nil:
		return usage.Errorf("train-loss-noise %v: records that report a gradient report no loss; leave it out", *c.TrainLossNoise)
	case c.Noise == dpoptim.Exact:
		return usage.Errorf("noise exact: optimizer %s sums no gradients, and reports are exact under --noise secure; use that", Banco)
	}
	return c.CheckPlain(Banco)
}

// Complete bounds gradients by the norm of features.
func (m *Method) Complete(c dpoptim.Settings, n dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	err := n.NeedLinear(Banco)
	if err == nil {
		err = c.BoundClip(Banco, n.Linear.Lipschitz(*c.FeatureNorm))
	}
	return c, dpoptim.Notes{DefaultsFrom: dpoptim.FromBounds}, err
}

// Declare is a report in every step. A record that reports once in every pass divides ε among them.
func (m *Method) Declare(c dpoptim.Settings, f dpoptim.Facts) (dpoptim.Declaration, error) {
	passes := (f.Steps + f.Records - 1) / f.Records
	epsilon := *c.Epsilon / float64(passes) * (1 - 0x1p-50)
	var err error
	if m.params, err = banco.New(epsilon, f.Clip, f.Params); err != nil {
		return dpoptim.Declaration{}, usage.Wrap(err)
	}
	sphere, near := m.params.OnSphere(), 1/f.Clip
	if n := m.settings.Noise; n == Hemisphere || n == "" && sphere.Excess(near, f.Steps) < m.params.Excess(near, f.Steps) {
		m.params = sphere
	}
	r := dpoptim.Release{Noise: accountant.Pure{Epsilon: epsilon / 2}, Bound: f.Clip, Radius: m.params.Radius()}
	return dpoptim.Declaration{Asks: []dpoptim.Ask{{
		Question: dpoptim.Reports,
		Release:  func(float64) (dpoptim.Release, error) { return r, nil },
	}}}, nil
}

func (m *Method) Open(e dpoptim.Engine) (dpoptim.Steps, error) {
	return &steps{engine: e, server: banco.NewServer(m.params)}, nil
}

// steps are the server's. The parameters are the average of its points.
type steps struct {
	engine dpoptim.Engine
	server *banco.Server
}

func (*steps) State() []dpoptim.State { return nil }

func (s *steps) Step() (int, error) {
	report, err := s.engine.Report(s.server.Point())
	if err != nil {
		return 0, err
	}
	if err := s.server.Update(report); err != nil {
		return 0, err
	}
	average := s.server.Average()
	w := make([]float32, len(average))
	for i, v := range average {
		w[i] = float32(v)
	}
	return 1, s.engine.Write(s.engine.Params(), w)
}

// saved is what a checkpoint holds of the server.
type saved struct {
	Server json.RawMessage `json:"server"`
}

func (s *steps) Save(dpoptim.Spent) ([]byte, error) {
	server, err := s.server.Save()
	if err != nil {
		return nil, err
	}
	return json.Marshal(saved{server})
}

func (s *steps) Restore(state []byte) (dpoptim.Spent, error) {
	var from saved
	if err := dpoptim.DecodeState(state, &from); err != nil {
		return dpoptim.Spent{}, err
	}
	return dpoptim.Spent{}, s.server.Restore(from.Server)
}
