// Package rrpsgd has random round private SGD (Zhang, Zheng, Mou and Wang 2017, "Efficient Private
// ERM for Smooth Objectives", algorithm 2), which needs no convexity.
//
// A round is w ← w − η((∇f + z)/m + λw) on a uniform subset of m places among the public number of
// records N, with ‖∇f‖ ≤ C for each record by clipping. It makes R rounds of T = (N/m)², where
// P(R = k+1) is proportional to 2η_k − βη_k². R is drawn from the operating system before the first
// round, or from the seed of a seeded run. It is public, and independent of all records.
//
// The step is η = min(1/β, D_F/(σ√T)), with σ² = 4C²/m + d·(noise of a coordinate)² and
// D_F = √(2F₀/β). F₀ bounds the loss at the start by public figures: the last layer starts at zero,
// so that every record has the loss of outputs that are zero.
//
// Defaults: m = ⌈N/1000⌉, so that T is at most about 10⁶. β follows from the features' norm for
// linear models; for networks it is smoothness, 1 unless given, as the paper has no way to find it.
// --lr is the most that η may be, 1/β unless given. The noise is for all T rounds, of which all are
// charged. rrpsgd_form: paper draws the noise of theorem 4, for m = 1.
package rrpsgd

import (
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

const Name = "rrpsgd"

// Tight and Paper are the forms: noise that costs the budget, and that of theorem 4.
const (
	Tight = "tight"
	Paper = "paper"
)

// Forms are the values of Settings.Form.
func Forms() []string { return []string{Tight, Paper} }

// Settings are those of a user; nil stands for the default.
type Settings struct {
	Form       string   `yaml:"rrpsgd_form,omitempty"` // empty: Tight
	Smoothness *float64 `yaml:"smoothness,omitempty"`  // β of a network
}

func (Settings) Kinds() []dpoptim.Kind {
	return []dpoptim.Kind{{Name: Name, About: "SGD on single records for a random number of rounds (Zhang et al.)"}}
}

func (Settings) Rows() []setting.Row {
	on := setting.Group{Title: "Training", Topic: "optimizers"}
	return []setting.Row{
		{Key: "rrpsgd_form", InFile: true, Group: on, Limit: setting.UnlessEmpty(setting.OneOf(Forms()...)),
			Help: "rrpsgd: tight, or the noise as published (paper), at the price that it has (default tight)"},
		{Key: "smoothness", InFile: true, Group: on, Arg: "BETA", Limit: setting.Within(dpoptim.LeastScale, dpoptim.MostScale, "in [%g, %g]", dpoptim.LeastScale, dpoptim.MostScale),
			Help: "rrpsgd: public bound β on how fast a network's gradient changes; sets its step (default 1)"},
	}
}

func (s Settings) New(_ string, run dpoptim.Settings) dpoptim.Method { return New(s, run.Seed) }

const (
	defaultSmoothness = 1
	mostSide          = 1000    // √T, by default
	mostRounds        = 1 << 30 // with other batches
)

// Method is that descent.
type Method struct {
	settings  Settings
	seed      uint64
	bounds    papers.Rounds // without steps and variance
	clip      float64
	published *dpoptim.Release // nil: the noise follows from the budget
	seeded    bool
}

// New makes the method. A seeded run draws R from the seed.
func New(s Settings, seed uint64) *Method { return &Method{settings: s, seed: seed} }

func (*Method) Traits() dpoptim.Traits {
	return dpoptim.Traits{
		Name: Name, Private: true, Flat: true, Batches: []*batches.Kind{batches.Subsets},
		Relation: accountant.ReplaceOne,
	}
}

// Check refuses settings under which the paper's statements are of another method.
func (m *Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) { return c, m.check(c) }

func (m *Method) check(c dpoptim.Settings) error {
	whole := c.Batch == nil || *c.Batch == math.Trunc(*c.Batch)
	switch {
	case c.Momentum != 0 || c.Average != 0:
		return usage.Errorf("optimizer %s makes plain steps and releases the last iterate: leave out --momentum and --average", Name)
	case c.Clipping != string(perexample.Flat):
		return usage.Errorf("clipping %s: optimizer %s has a bound on gradients that stays; use --clipping flat", c.Clipping, Name)
	case c.TrainLossNoise != nil:
		return usage.Errorf("train-loss-noise %v: optimizer %s asks for sums of gradients alone; leave it out", *c.TrainLossNoise, Name)
	case c.Neighbouring != string(accountant.ReplaceOne):
		return usage.Errorf("neighboring relation %s: optimizer %s draws batches of a fixed size among a public number of records, where one replaces another; use --neighbouring %s", c.Neighbouring, Name, accountant.ReplaceOne)
	case !whole || c.SamplingRate != nil || c.Epochs != nil:
		return usage.Errorf("optimizer %s draws batches of a fixed size: give a whole number as --batch, and leave out --sampling-rate and --epochs; --steps is the most rounds", Name)
	case m.settings.Form != Paper:
		return nil
	case c.NoiseMultiplier != nil && *c.NoiseMultiplier != 0:
		return usage.Errorf("noise multiplier %v: the noise of rrpsgd_form %s is the published one; give --epsilon, or leave the form out", *c.NoiseMultiplier, Paper)
	case c.Epsilon != nil && *c.Epsilon > 1:
		return usage.Errorf("epsilon %v: the noise of rrpsgd_form %s is published for epsilon up to 1; lower it, or leave the form out", *c.Epsilon, Paper)
	}
	return nil
}

// Complete fills in batch, rounds and the largest step.
func (m *Method) Complete(c dpoptim.Settings, n dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	notes, err := m.complete(&c, n)
	return c, notes, err
}

func (m *Method) complete(c *dpoptim.Settings, n dpoptim.Network) (dpoptim.Notes, error) {
	notes := dpoptim.Notes{DefaultsFrom: dpoptim.FromBounds}
	beta := float64(defaultSmoothness)
	switch s := m.settings.Smoothness; {
	case n.Linear == nil && c.L2 != 0:
		return notes, usage.Errorf("l2 %v: optimizer %s bounds the loss of a network at its start without a penalty; leave --l2 out", c.L2, Name)
	case n.Linear != nil && s != nil:
		return notes, usage.Errorf("smoothness %v: that of a linear model follows from --feature-norm; leave it out", *s)
	case n.Linear != nil:
		c.FeatureNorm = c.NormOr1()
		if err := c.BoundClip(Name, n.Linear.Lipschitz(*c.FeatureNorm)); err != nil {
			return notes, err
		}
		beta = n.Linear.Smoothness(*c.FeatureNorm) + c.L2
	case s != nil:
		beta = *s
	}
	m.bounds, m.clip, m.seeded = papers.Rounds{Smoothness: beta, Start: n.StartLoss}, c.Clip, c.Noise == dpoptim.Seeded
	most := 1 / beta
	switch {
	case c.LR == nil:
		c.LR = &most
	case *c.LR > most:
		return notes, usage.Errorf("learning rate %v: optimizer %s takes steps of at most 1/smoothness = %v; lower --lr or leave it out", *c.LR, Name, most)
	}
	if c.Batch == nil {
		c.Batch = new(math.Ceil(float64(n.Records) / mostSide))
	}
	if c.Steps == nil {
		rounds := math.Floor(math.Pow(float64(n.Records) / *c.Batch, 2))
		if rounds > mostRounds {
			return notes, usage.Errorf("batch %v: optimizer %s would make up to (N/batch)² = %.3g rounds; raise --batch, or set --steps", *c.Batch, Name, rounds)
		}
		c.Steps = new(max(int(rounds), 1))
	}
	if m.settings.Form == Paper && c.Epsilon != nil {
		notes.Warnings = []string{"rrpsgd_form paper draws the noise of theorem 4, whose proof has an error; what that noise costs is shown as ε, and is less than asked for"}
		return notes, m.publish(c, n.Records)
	}
	return notes, nil
}

// publish takes the noise of theorem 4, which is for n² rounds of one record.
func (m *Method) publish(c *dpoptim.Settings, records int) error {
	r, err := papers.NewRRPSGD(records, *c.Epsilon, *c.Delta)
	switch {
	case err != nil:
		return usage.Wrap(err)
	case *c.Batch != 1 || *c.Steps > r.Steps:
		return usage.Errorf("rrpsgd_form %s: its noise is for at most N² = %d rounds of one record; use --batch 1, and leave --steps out", Paper, r.Steps)
	}
	m.published = &dpoptim.Release{Noise: accountant.Gaussian{NoiseMultiplier: 2 * r.NoiseMultiplier}, Bound: m.clip}
	return nil
}

func (m *Method) Declare(dpoptim.Settings, dpoptim.Facts) (dpoptim.Declaration, error) {
	if m.published == nil {
		return dpoptim.Declaration{Asks: []dpoptim.Ask{dpoptim.GaussianSum(m.clip)}}, nil
	}
	return dpoptim.Declaration{Budget: dpoptim.Planned, Asks: []dpoptim.Ask{{
		Question: dpoptim.Gradients, Alike: true, At: func(int) (dpoptim.Release, error) { return *m.published, nil },
	}}}, nil
}
