// Package audit tries to refute a claimed (ε, δ) by experiment:
//
//	c := audit.Default()
//	c.Strategy = "ghost"
//	r, err := audit.Run(ctx, c) // r.Convicted, r.EpsilonLowerBound
//
// It makes many short private runs, by the same code as train. Half of them have a canary
// record. An adversary sees every released gradient and guesses which half a run is of.
// Guesses that are better than (ε, δ) allows convict the program. Other guesses prove
// nothing beyond what was tried.
//
// The trade-off between false positives and false negatives is that of Kairouz,
// Oh and Viswanath 2015 ("The Composition Theorem for Differential Privacy",
// theorem 2.1); playing it against DP-SGD with chosen gradients follows Nasr et
// al. 2021 ("Adversary Instantiation") and 2023 ("Tight Auditing").
//
// An audit trains on synthetic records alone, so all that it prints is public.
package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/audit/verdict"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// Config says what is audited and how.
type Config struct {
	Optimizer string // a private one
	// Epsilon is what an optimizer promises that asks the records for more than sums of batches'
	// gradients. It is audited on settings of its own (Hears): what of these follows below, and
	// up to Strategy but for Delta, it does not read. 0: its own.
	Epsilon float64

	Model, Activation string
	// Network is a user's own lowered graph, in the place of a named model.
	Network         *nn.Network
	NoiseMultiplier float64 // σ/C
	SamplingRate    float64
	Steps           int // of each run
	Clip            float64
	Clipping        string
	Strategy        string
	Noise           string // secure, exact or seeded
	Neighbouring    string
	Accountant      string
	Delta           float64
	Device          string
	// Views of each record, by the maps of Augment, as in training. All records are then images of even color, of which every
	// view is the same: an adversary who cannot know the random views loses nothing by them.
	Views   int
	Augment []string
	// RecordsPerUser makes users the unit, each with so many records, which are alike: the canary is a user, too. 0: records are.
	RecordsPerUser int

	Canary  string // empty: Gradient under add-remove, Opposite under replace-one
	Runs    int    // in all; 0: as many as the power against twice the claimed μ takes
	Threads int    // runs at a time, 0 for all cores
	Seed    uint64 // of initial weights and records; under seeded noise of everything

	// Progress is told how many runs are done, perhaps by several goroutines; nil: nobody.
	Progress func(done, total int)
}

// Default is an audit of a common claim that takes seconds. The clip norm is
// small, so that every canary's gradient is several times as long.
func Default() Config {
	return Config{
		Optimizer: "dp-sgd", Model: "logistic", Activation: "tanh",
		NoiseMultiplier: 1, SamplingRate: 0.25, Steps: 10,
		Clip: 0.1, Clipping: "flat", Strategy: "auto", Noise: "secure",
		Neighbouring: string(accountant.AddRemove), Accountant: config.Default().Accountant, Delta: 1e-5,
		Device: "auto", Seed: 1,
	}
}

// Result of an audit.
type Result struct {
	Optimizer       string  `json:"optimizer"`
	Heard           string  `json:"heard"` // which answers the adversary heard
	Model           string  `json:"model"`
	Parameters      int     `json:"parameters"`
	Data            string  `json:"data"`
	Device          string  `json:"device"`
	Threads         int     `json:"threads"`
	NoiseMultiplier float64 `json:"noise_multiplier"`
	SamplingRate    float64 `json:"sampling_rate"`
	Steps           int     `json:"steps"`
	Clip            float64 `json:"clip"`
	Clipping        string  `json:"clipping"`
	Strategy        string  `json:"strategy"`
	Views           int     `json:"views,omitempty"`
	PrivacyUnit     string  `json:"privacy_unit"`
	RecordsPerUser  int     `json:"records_per_user,omitempty"`
	Noise           string  `json:"noise"`
	NotPrivate      string  `json:"not_private,omitempty"` // why, under seeded noise
	Neighbouring    string  `json:"neighbouring"`
	Accountant      string  `json:"accountant"`
	Delta           float64 `json:"delta"`
	Seed            uint64  `json:"seed"`

	Canary      string  `json:"canary"`
	CanaryNorm  float64 `json:"canary_norm"`  // length of its gradient before clipping, in units of the clip norm
	CanaryShare float64 `json:"canary_share"` // how far it moves a sum, in units of the clip norm

	EpsilonClaimed    float64 `json:"epsilon_claimed"`
	EpsilonLowerBound float64 `json:"epsilon_lower_bound"`
	Confidence        float64 `json:"confidence"` // of the lower bound and of a conviction
	Convicted         bool    `json:"convicted"`

	Runs            int     `json:"runs"`
	LearningRuns    int     `json:"learning_runs,omitempty"` // of them, from which the statistic was learned
	ThresholdRuns   int     `json:"threshold_runs"`          // of the others, used for nothing else
	FPRRuns         int     `json:"fpr_runs"`
	FPR             float64 `json:"fpr"`
	FPRLower        float64 `json:"fpr_lower"`
	FPRUpper        float64 `json:"fpr_upper"`
	FNRRuns         int     `json:"fnr_runs"`
	FNR             float64 `json:"fnr"`
	FNRLower        float64 `json:"fnr_lower"`
	FNRUpper        float64 `json:"fnr_upper"`
	FNRLeastAllowed float64 `json:"fnr_least_allowed"` // by the claim, at a false positive rate of FPRUpper

	PowerAgainstTwiceMu *float64 `json:"power_against_twice_mu"` // nil where it is not known
	Notes               []string `json:"notes"`                  // what limits this audit
	Seconds             float64  `json:"seconds"`
}

// recordsBeside is how many records every data set has besides the canary.
const recordsBeside = 8

// stepSize all but freezes the parameters, so that the canary's gradient at
// every step is known from the initial ones. It loses nothing: an update is
// computed from released values, and the adversary has those.
const stepSize = 1e-6

// rate is the learning rate: of Divisor one that moves parameters so far that no digit is lost. They go back after each step.
func (c *Config) rate() float64 {
	if c.Canary == Divisor {
		return 1
	}
	return stepSize
}

// What keeps an audit within sense.
const (
	leastRuns, mostRuns = 80, 10_000_000
	mostSteps           = 100_000
	mostOrdered         = 1000 // steps, of Order
)

// Run audits a configuration.
func Run(ctx context.Context, c Config) (*Result, error) {
	started := time.Now()
	r, err := run(ctx, c)
	if err != nil {
		return nil, err
	}
	r.Seconds = max(math.Round(time.Since(started).Seconds()), 1)
	return r, nil
}

func run(ctx context.Context, c Config) (*Result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if s, ok := stages[c.Optimizer]; ok {
		g, err := prepareHearing(c, s)
		if err != nil {
			return nil, err
		}
		return g.play(ctx)
	}
	g, err := prepare(c)
	if err != nil {
		return nil, err
	}
	return g.play(ctx)
}

// check finds faults of what every audit reads.
func (c *Config) check() error {
	if err := checkOptimizer(c.Optimizer); err != nil {
		return err
	}
	switch {
	case c.Accountant == accountant.Paper:
		return usage.Errorf("accountant %s claims no δ(ε) and no guarantee: use another", c.Accountant)
	case c.Runs != 0 && c.Runs < leastRuns || c.Runs > mostRuns:
		return usage.Errorf("runs %d: must be in [%d, %d], or 0 to go by their power", c.Runs, leastRuns, mostRuns)
	case c.Threads < 0 || c.Threads > 1024:
		return usage.Errorf("threads %d: must be 1 to 1024, or 0 for all cores", c.Threads)
	}
	if c.Threads == 0 {
		c.Threads = runtime.GOMAXPROCS(0)
	}
	return nil
}

// checkGradients finds faults of what audits of sums of gradients read.
func (c *Config) checkGradients() error {
	if c.Canary == "" {
		c.Canary = Gradient
		if c.Neighbouring == string(accountant.ReplaceOne) {
			c.Canary = Opposite
		}
	}
	if err := c.checkCanary(); err != nil {
		return err
	}
	switch {
	case c.NoiseMultiplier == 0:
		return usage.Errorf("noise multiplier 0: no noise claims nothing, so there is nothing to refute; give one above 0")
	case c.adapts() && slices.Contains([]string{Difference, Digits, Coordinates, Divisor}, c.Canary):
		return usage.Errorf("canary %s: it compares sums that are clipped to one norm, which clipping %s moves; leave --canary out, or use --clipping flat", c.Canary, c.Clipping)
	case c.Steps > mostSteps:
		return usage.Errorf("steps %d: an audit repeats them thousands of times; give at most %d", c.Steps, mostSteps)
	}
	return nil
}

// checkCanary holds the canary against what is audited.
func (c *Config) checkCanary() error {
	if !slices.Contains(Canaries(), c.Canary) {
		return usage.Unknown("canary", c.Canary, Canaries())
	}
	replaces := c.Neighbouring == string(accountant.ReplaceOne)
	switch {
	case c.Canary == Opposite && !replaces:
		return usage.Errorf("canary %s: it takes one record for another, which %s does not speak of; use --neighbouring replace-one", c.Canary, c.Neighbouring)
	case c.Canary != Opposite && replaces:
		return usage.Errorf("canary %s: it is added or not, which replace-one does not speak of; use canary %s", c.Canary, Opposite)
	case c.Canary == Difference && c.SamplingRate == 1:
		return usage.Errorf("canary %s: at sampling rate 1 two releases of a run hold the same records; use a rate below 1", c.Canary)
	case c.Canary == Order && c.SamplingRate == 1:
		return usage.Errorf("canary %s: at sampling rate 1 all records are in every batch, which is no order; use a rate below 1", c.Canary)
	case c.Canary == Order && c.Steps > mostOrdered:
		return usage.Errorf("canary %s: it keeps what it hears at each of %d steps of every run; give at most %d", c.Canary, c.Steps, mostOrdered)
	case c.Canary == Divisor && c.Optimizer != Default().Optimizer:
		return usage.Errorf("canary %s: it hears a release by how the parameters move, which optimizer %s makes of several releases; use --optimizer %s", c.Canary, c.Optimizer, Default().Optimizer)
	case c.Canary == Difference && c.Steps < 2:
		return usage.Errorf("canary %s: a run of %d step has no two releases; use --steps 2 or more", c.Canary, c.Steps)
	}
	return nil
}

// resolve makes the plan that a training run of this configuration would have.
func (c *Config) resolve() (*plan.Plan, error) {
	shape, classes, err := c.data()
	if err != nil {
		return nil, err
	}
	t := config.Default()
	t.Data, t.Model, t.Activation, t.Seed, t.Optimizer = syntheticName, c.Model, c.Activation, c.Seed, c.Optimizer
	t.NoiseMultiplier, t.SamplingRate, t.Steps, t.Delta = &c.NoiseMultiplier, &c.SamplingRate, &c.Steps, &c.Delta
	t.Clip, t.Clipping, t.Strategy, t.Noise = c.Clip, c.Clipping, c.Strategy, c.Noise
	t.Neighbouring, t.Accountant, t.Device, t.Threads = c.Neighbouring, c.Accountant, c.Device, 1
	t.Views, t.Augment = c.Views, c.Augment
	if t.RecordsPerUser = c.RecordsPerUser; c.RecordsPerUser > 0 {
		t.Unit = config.OfSource
	}
	n, rate := c.publicN(), c.rate()
	t.PublicN, t.LR = &n, &rate
	set := &datasets.Set{Name: syntheticName, Classes: classes, Train: datasets.Split{Shape: shape, Users: []string{}}}
	open := func(string) (*datasets.Set, error) { return set, nil }
	return plan.Resolve(t, plan.Options{Network: c.Network, Sources: map[string]source.Source{syntheticName: {Open: open, BuiltIn: true}}})
}

// data is the shape of the records and the number of their classes.
func (c *Config) data() (shape [3]int, classes int, err error) {
	if c.Network == nil {
		model, err := plan.Model(c.Model)
		return model.Input, model.Classes, err
	}
	g := c.Network.Program
	c.Model = g.Name
	return [3]int{1, 1, ir.Size(g.Shape)}, classesOf(g), nil
}

// classesOf counts what a network tells apart; one logit tells two, whose
// targets are −1 and +1.
func classesOf(g *ir.Program) int {
	if g.Loss == ir.SoftmaxCrossEntropy {
		return g.Outputs()
	}
	return 2
}

// prepare makes ready what the runs share.
func prepare(c Config) (*game, error) {
	if err := errors.Join(c.check(), c.checkGradients()); err != nil {
		return nil, err
	}
	p, err := c.resolve()
	if err != nil {
		return nil, err
	}
	g := &game{config: c, plan: p, params: p.Network.Params()}
	g.open = func() (device.Device, error) { return devices.Open(c.Device, 1) }
	g.keys, g.sampler = newKeys, p.Sampler
	if c.Noise == "seeded" {
		g.keys = keysFromSeed(c.Seed)
	}
	if g.claim, err = c.claimed(p); err != nil {
		return nil, err
	}
	g.records, err = newRecords(c, p)
	return g, err
}

// play draws the runs and judges them.
func (g *game) play(ctx context.Context) (*Result, error) {
	c := &g.config
	d, err := g.open()
	if err != nil {
		return nil, err
	}
	name := d.Info().Name
	if err := d.Close(); err != nil {
		return nil, err
	}
	e, power, learning := g.design()
	stats, err := g.learnAndPlay(ctx, e, learning)
	if err != nil {
		return nil, err
	}
	r := &Result{
		Optimizer: c.Optimizer, Heard: OnlyGradients, Model: c.Model, Parameters: len(g.params), Data: "synthetic", Device: name, Threads: c.Threads,
		NoiseMultiplier: c.NoiseMultiplier, SamplingRate: c.SamplingRate, Steps: c.Steps, Clip: c.Clip, Clipping: c.Clipping,
		Strategy: g.plan.Config.Strategy, Views: c.Views, PrivacyUnit: g.plan.Guarantee.PrivacyUnit, RecordsPerUser: c.RecordsPerUser, Noise: c.Noise, Neighbouring: c.Neighbouring, Accountant: c.Accountant, Delta: c.Delta, Seed: c.Seed,
		Canary: c.Canary, CanaryNorm: g.records.norm / c.Clip, CanaryShare: g.records.distance() / c.Clip,
		EpsilonClaimed: g.claim.Epsilon, PowerAgainstTwiceMu: power, Notes: []string{},
	}
	r.judged(e, e.Judge(stats, g.claim))
	r.Runs, r.LearningRuns = r.Runs+learning, learning
	if c.Noise == "seeded" {
		r.NotPrivate = plan.SeededLabel
	}
	g.note(r)
	return r, nil
}

// note says what limits an audit.
func (g *game) note(r *Result) {
	c, power := &g.config, r.PowerAgainstTwiceMu
	note := func(format string, a ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, a...)) }
	switch {
	case c.Canary == Difference:
		note("this canary looks for noise that is used twice; its power against half the noise is %.3g", *power)
	case c.Canary == Digits:
		note("this canary looks for noise that is added in floating point; its power against half the noise is %.3g", *power)
	case c.learns():
		note("this canary looks for %s; its power against half the noise is not known beforehand", lessonsAbout[c.Canary])
	case *power < enoughPower:
		note("power %.3g is below %g: this audit may well miss a mechanism with half the noise; give more --runs, more --steps or a canary that says more", *power, enoughPower)
	}
	if r.CanaryNorm < 2 {
		note("the canary's gradient is only %.3g clip norms long, so that a clipping that fails would hardly show; lower --clip", r.CanaryNorm)
	}
	allowed := 1.0
	if c.Neighbouring == string(accountant.ReplaceOne) {
		allowed = 2
	}
	if r.CanaryShare < 0.9*allowed {
		note("the canary moves a sum by %.3g clip norms, the claim allows for %g, which costs power; another model or activation may do better", r.CanaryShare, allowed)
	}
}

// judged takes in what the counted runs show.
func (r *Result) judged(e *verdict.Design, v verdict.Verdict) {
	r.EpsilonLowerBound, r.Confidence, r.Convicted = v.Epsilon, 1-2*verdict.Tail, v.Convicted
	r.Runs, r.ThresholdRuns = e.Runs(), 2*e.Choose
	r.FPRRuns, r.FPR, r.FPRLower, r.FPRUpper = e.Count, v.FPR.Rate, v.FPR.Lower, v.FPR.Upper
	r.FNRRuns, r.FNR, r.FNRLower, r.FNRUpper, r.FNRLeastAllowed = e.Count, v.FNR.Rate, v.FNR.Lower, v.FNR.Upper, v.Allowed
}
