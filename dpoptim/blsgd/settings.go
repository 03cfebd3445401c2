// Package blsgd has the methods that find their step sizes by noisy line searches: DP-BLSGD
// and its kin (Chen and Lee 2020), and Lee and Kifer's gradient descent (2018).
package blsgd

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/btls"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/linesearch"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
)

// Settings is how dp-blsgd and its kin find step sizes. Fields that are nil get a
// default that goes with the form and the budget. The start of the search, η₀,
// is the run's learning rate.
type Settings struct {
	Form    string `yaml:"form,omitempty"`
	Budget  string `yaml:"budget,omitempty"`
	Batches string `yaml:"batches,omitempty"`
	Noise   string `yaml:"noise,omitempty"`

	Clip   *float64 `yaml:"clip,omitempty"`
	Every  *int     `yaml:"every,omitempty"`
	Share  *float64 `yaml:"share,omitempty"`
	Alpha  *float64 `yaml:"alpha,omitempty"`
	Beta   *float64 `yaml:"beta,omitempty"`
	Trials *int     `yaml:"trials,omitempty"`

	Correct     *bool    `yaml:"correct,omitempty"`
	Margin      *float64 `yaml:"margin,omitempty"`
	StartEvery  *int     `yaml:"start_every,omitempty"`
	StartFactor *float64 `yaml:"start_factor,omitempty"`
	Rise        *bool    `yaml:"rise,omitempty"`
	StartMost   *float64 `yaml:"start_most,omitempty"`
	Normalise   *bool    `yaml:"normalise,omitempty"`

	Points *int     `yaml:"points,omitempty"`
	Factor *float64 `yaml:"factor,omitempty"`
	Keep   *float64 `yaml:"keep,omitempty"`
	Weight *float64 `yaml:"weight,omitempty"`

	Iterations *int     `yaml:"iterations,omitempty"`
	Growth     *float64 `yaml:"growth,omitempty"`
	Shrink     *float64 `yaml:"shrink,omitempty"`
	Wide       *float64 `yaml:"wide,omitempty"`
	Narrow     *float64 `yaml:"narrow,omitempty"`
	Decay      *float64 `yaml:"decay,omitempty"`
}

const topic = "search"

func (Settings) Kinds() []dpoptim.Kind {
	return []dpoptim.Kind{
		{Name: BLSGD, About: "DP-SGD whose learning rate a private line search finds", Topic: topic},
		{Name: BLSGDAC, About: "dp-blsgd whose budgets and clip norms adapt", Topic: topic},
		{Name: BLGD, About: "dp-blsgd on all records at every step", Topic: topic},
		{Name: AGD, About: "full-batch steps, each the best of some candidates (Lee and Kifer)", Topic: topic},
	}
}

func (s Settings) New(name string, _ dpoptim.Settings) dpoptim.Method { return New(name, s) }

// The forms of a line search.
const (
	FormLosses      = "losses"      // published: sums of losses clipped to [0, C_obj] that share the baseline f(w)
	FormDifferences = "differences" // our own: sums of every example's decrease, clipped to [−c, c]
	FormCurve       = "curve"       // our own too: the decreases at all candidates, released
	FormMinimum     = "minimum"     // Lee and Kifer's: the candidate of least loss, of equally spaced ones from 0
)

// Forms, Policies, Batches and Noises are what the fields take.
func Forms() []string {
	return []string{FormDifferences, FormCurve, FormLosses, FormMinimum}
}

// BudgetFixed plans every release before the run; the others are policies.
const BudgetFixed = "fixed"

func Policies() []string {
	all := []string{BudgetFixed}
	for _, p := range linesearch.Policies() {
		all = append(all, string(p))
	}
	return all
}

func Batches() []string {
	return []string{string(accountant.Fresh), string(accountant.Shared), string(accountant.PaperBatches)}
}

func Noises() []string {
	return []string{string(accountant.BTLSGaussian), string(accountant.BTLSLaplace)}
}

const (
	BLSGD   = "dp-blsgd"
	BLSGDAC = "dp-blsgd-ac"
	BLGD    = "dp-blgd"
	AGD     = "dp-agd"
)

// A variant is what one of the methods prescribes.
type variant struct {
	budget linesearch.Policy // where it is not the user's
	full   bool              // every step takes every record
	shrink float64
	form   string // where there is just one
	clip   float64
}

var variants = map[string]variant{
	BLSGD:   {},
	BLSGDAC: {budget: linesearch.ByAngle, shrink: 0.05},
	BLGD:    {budget: linesearch.Refine, full: true},
	AGD:     {budget: linesearch.Refine, full: true, form: FormMinimum, clip: 3},
}

// Check finds faults that show without the data.
func (m *Method) Check(c dpoptim.Settings) (dpoptim.Settings, error) {
	return c, m.check(c)
}

func (m *Method) check(c dpoptim.Settings) error {
	s := m.s
	oneOf := func(what, got string, choices []string) error {
		if got == "" || slices.Contains(choices, got) {
			return nil
		}
		return usage.Unknown(what, got, choices)
	}
	if err := errors.Join(
		oneOf("search form", s.Form, Forms()), oneOf("search budget", s.Budget, Policies()),
		oneOf("search batches", s.Batches, Batches()), oneOf("search noise", s.Noise, Noises()),
	); err != nil {
		return usage.Wrap(err)
	}
	switch {
	case c.Momentum != 0:
		return usage.Errorf("momentum %v: optimizer %s steps along the gradient that it searched along; leave momentum at 0", c.Momentum, m.name)
	case c.Noise == dpoptim.Exact:
		return usage.Errorf("noise exact: exact noise works on integers, which line searches do not use yet; use --noise secure with optimizer %s", m.name)
	case c.Clipping == string(perexample.AdaptiveFlat):
		return usage.Errorf("clipping %s: optimizer %s keeps its clip norm, or shrinks it as dp-blsgd-ac; use --clipping flat", c.Clipping, m.name)
	}
	return nil
}

// or gives a setting its default.
func or[T any](p **T, def T) T {
	if *p == nil {
		*p = new(def)
	}
	return **p
}

// adapts reports whether budgets follow from what was released.
func (s *Settings) adapts() bool { return s.Budget != BudgetFixed }

// resolve completes the settings of the run that follow from the search's.
func (m *Method) resolve(c *dpoptim.Settings) error {
	s := &m.s
	if *c.LR < leastRate || *c.LR > s.mostStart() {
		return usage.Errorf("learning rate %v: optimizer %s searches from there; must be in [%g, %g]", *c.LR, m.name, leastRate, s.mostStart())
	}
	if err := s.resolveAccountant(c); err != nil {
		return err
	}
	if s.adapts() && c.NoiseMultiplier != nil && *c.NoiseMultiplier != 0 {
		return usage.Errorf("noise multiplier %v: optimizer %s with search budget %s chooses its noise as it goes; give --epsilon, or --search-budget fixed", *c.NoiseMultiplier, m.name, s.Budget)
	}
	if variants[m.name].full {
		if c.Batch != nil || c.SamplingRate != nil && *c.SamplingRate != 1 {
			return usage.Errorf("optimizer %s takes every record in every step: leave --batch and --sampling-rate out, or use dp-blsgd", m.name)
		}
		c.SamplingRate = new(1.0)
	}
	if s.adapts() {
		return m.resolveLength(c, s)
	}
	return nil
}

// resolveLength refuses what needs a known number of steps where a budget ends the run.
func (m *Method) resolveLength(c *dpoptim.Settings, s *Settings) error {
	switch {
	case c.TrainLossNoise != nil:
		return usage.Errorf("train-loss-noise %v: an adaptive budget leaves nothing for it; leave it out", *c.TrainLossNoise)
	case c.LRSchedule != dpoptim.Constant || c.Warmup != 0:
		return usage.Errorf("lr-schedule %s and warmup %d: optimizer %s with search budget %s does not know how many steps it will make; leave them out", c.LRSchedule, c.Warmup, m.name, s.Budget)
	case c.Epochs != nil:
		return usage.Errorf("epochs %v: optimizer %s with search budget %s runs until the budget is spent; set a limit by --steps, or leave --epochs out", *c.Epochs, m.name, s.Budget)
	}
	if c.Batch == nil {
		or(&c.SamplingRate, 0.1) // section 5.4
	}
	or(&c.Steps, mostFilteredSteps)
	return nil
}

// resolveAccountant: the paper's arithmetic goes with the paper's batches, and a filter
// adds up Rényi divergences.
func (s *Settings) resolveAccountant(c *dpoptim.Settings) error {
	settled := c.Accountant
	switch {
	case s.paper():
		settled = accountant.Paper
		if c.Neighbouring != string(accountant.AddRemove) {
			return usage.Errorf("neighbouring %s: the paper's arithmetic is for add-remove; use it, or search.batches: fresh", c.Neighbouring)
		}
		if c.TrainLossNoise != nil {
			return usage.Errorf("train-loss-noise %v: the paper's arithmetic prices gradients and line searches only; leave it out, or use search.batches: fresh", *c.TrainLossNoise)
		}
	case s.adapts():
		settled = accountant.RDP
	}
	if c.Accountant != settled && c.Accountant != accountant.PLD {
		return usage.Errorf("accountant %s: search batches %s under search budget %s are priced by %s; leave it out", c.Accountant, s.Batches, s.Budget, settled)
	}
	c.Accountant = settled
	return nil
}

// mostFilteredSteps bounds a run that a budget ends.
const mostFilteredSteps = 10_000

// complete fills in the settings for a network. What the paper prescribes for
// convex models (section 5.4) goes with budgets that adapt, what it prescribes
// for networks, or our own, with fixed ones.
func (s *Settings) complete(name string, convex bool) error {
	if err := s.choose(name, convex); err != nil {
		return err
	}
	fixed := !s.adapts()
	published := s.Form == FormLosses || s.Form == FormMinimum
	if s.Form == FormCurve && (!fixed || s.paper() || s.Noise != string(accountant.BTLSGaussian)) {
		return usage.Errorf("search form %s is a Gaussian release under a fixed budget, of which the paper knows nothing: use search.noise: gaussian, --search-budget fixed and search.batches: fresh or shared, or choose another form", s.Form)
	}
	if err := s.checkUsed(fixed); err != nil {
		return err
	}
	pick := func(own, networks, convex float64) float64 {
		switch {
		case !published:
			return own
		case fixed:
			return networks
		}
		return convex
	}
	if fixed {
		every := searchEvery
		if published || s.paper() {
			every = 1
		}
		or(&s.Every, every)
		or(&s.Share, 0.1)
		or(&s.Weight, pick(0.3, 1, 1))
	}
	or(&s.Clip, pick(map[string]float64{FormDifferences: 0.1, FormCurve: 0.3}[s.Form], 3, map[string]float64{FormLosses: 1, FormMinimum: 3}[s.Form]))
	s.completeForm(pick, !published, fixed)
	if !fixed {
		or(&s.Iterations, map[bool]int{true: 60, false: 50}[s.Form == FormMinimum])
		or(&s.Growth, 0.3)
		or(&s.Shrink, variants[name].shrink)
		or(&s.Wide, 1.1)
		or(&s.Narrow, 0.5)
		or(&s.Decay, 0.8)
	}
	return s.validate()
}

func (s *Settings) choose(name string, convex bool) error {
	own := variants[name]
	if s.Budget == "" {
		switch {
		case own.budget != "":
			s.Budget = string(own.budget)
		case convex:
			s.Budget = string(linesearch.ByAngle)
		default:
			s.Budget = BudgetFixed
		}
	}
	fixed := !s.adapts()
	if own.budget != "" && fixed {
		return usage.Errorf("search budget %s: optimizer %s adapts its budgets; use dp-blsgd", s.Budget, name)
	}
	s.Form = cmp.Or(s.Form, own.form)
	if (own.form == FormMinimum) != (s.Form == FormMinimum) {
		return usage.Errorf("search form %s: optimizer dp-agd, and no other, takes the noisy minimum; leave --search-form out", s.Form)
	}
	s.Batches = cmp.Or(s.Batches, string(accountant.Fresh))
	if s.Form == "" {
		s.Form = FormDifferences
		if !fixed || s.paper() {
			s.Form = FormLosses
		}
	}
	if s.Noise == "" {
		s.Noise = string(accountant.BTLSGaussian)
		if !fixed {
			s.Noise = string(accountant.BTLSLaplace)
		}
	}
	return nil
}

// completeForm fills in what a form reads; own are those of ours.
func (s *Settings) completeForm(pick func(own, networks, convex float64) float64, own, fixed bool) {
	switch s.Form {
	case FormCurve:
		or(&s.Points, 9)
		or(&s.Factor, 2)
		or(&s.Keep, 0.5)
	case FormMinimum: // Lee and Kifer 2018, section 5, and their program
		or(&s.Trials, 21)
		or(&s.StartEvery, 10)
		or(&s.StartFactor, 1.1)
		or(&s.Rise, true)
		or(&s.StartMost, agdStart)
		or(&s.Normalise, true)
		or(&s.Growth, 0.1)
	default:
		or(&s.Alpha, pick(0.3, 0.001, 0.5))
		or(&s.Beta, 0.8)
		or(&s.Trials, 20)
		or(&s.Correct, own)
		// A search that failed is what raises budgets, where they adapt: there is
		// nothing to smooth, and a margin below 0 would let no search fail.
		smoothed := own && fixed
		or(&s.Margin, map[bool]float64{true: -1.5}[smoothed])
		or(&s.StartEvery, map[bool]int{true: 1, false: 10}[smoothed])
		or(&s.StartFactor, map[bool]float64{true: 2, false: 1.2}[smoothed])
		or(&s.Rise, smoothed)
	}
}

// agdStart is the largest of the steps that DP-AGD tries, at first and later.
const agdStart = 2.0

// searchEvery is how many steps save up for a search of our own.
const searchEvery = 5

// MostTrials bounds the candidates of a search, and mostMargin its margin: noise is
// no larger.
const MostTrials, mostMargin = 1000, 100

// paper reports whether the price is by the paper's arithmetic.
func (s *Settings) paper() bool { return s.Batches == string(accountant.PaperBatches) }

func (s *Settings) checkUsed(fixed bool) error {
	curve := s.Form == FormCurve
	armijo := !curve && s.Form != FormMinimum
	for _, x := range []struct {
		name        string
		given, used bool
	}{
		{"every", s.Every != nil, fixed}, {"share", s.Share != nil, fixed}, {"weight", s.Weight != nil, fixed},
		{"alpha", s.Alpha != nil, armijo}, {"beta", s.Beta != nil, armijo}, {"trials", s.Trials != nil, !curve},
		{"correct", s.Correct != nil, armijo}, {"margin", s.Margin != nil, armijo},
		{"start_every", s.StartEvery != nil, !curve}, {"start_factor", s.StartFactor != nil, !curve}, {"rise", s.Rise != nil, !curve},
		{"start_most", s.StartMost != nil, !curve}, {"normalise", s.Normalise != nil, s.Form == FormMinimum},
		{"points", s.Points != nil, curve}, {"factor", s.Factor != nil, curve}, {"keep", s.Keep != nil, curve},
		{"iterations", s.Iterations != nil, !fixed}, {"growth", s.Growth != nil, !fixed}, {"shrink", s.Shrink != nil, !fixed},
		{"wide", s.Wide != nil, !fixed}, {"narrow", s.Narrow != nil, !fixed}, {"decay", s.Decay != nil, !fixed},
	} {
		if x.given && !x.used {
			return usage.Errorf("search.%s has no effect with --search-form %s and --search-budget %s; remove it", x.name, s.Form, s.Budget)
		}
	}
	return nil
}

func (s *Settings) validate() error {
	switch {
	case s.Every != nil && *s.Every < 1:
		return usage.Errorf("search.every %d: must be 1 or more steps", *s.Every)
	case s.Every != nil && *s.Every != 1 && s.paper():
		return usage.Errorf("search.every %d: the paper's arithmetic is for a search in every step; leave it at 1, or use search.batches: fresh", *s.Every)
	case s.Share != nil && !(*s.Share > 0 && *s.Share < 1):
		return usage.Errorf("search.share %v: must be in (0, 1)", *s.Share)
	case !(*s.Clip >= dpoptim.LeastScale) || *s.Clip > dpoptim.MostScale:
		return usage.Errorf("search-clip %v: must be in [%g, %g]", *s.Clip, dpoptim.LeastScale, dpoptim.MostScale)
	case s.Weight != nil && !(*s.Weight > 0 && *s.Weight <= 1):
		return usage.Errorf("search.weight %v: must be in (0, 1]", *s.Weight)
	case s.StartMost != nil && !(*s.StartMost >= leastRate && *s.StartMost <= mostRate):
		return usage.Errorf("search.start_most %v: must be in [%g, %g]", *s.StartMost, leastRate, mostRate)
	case s.Iterations != nil && *s.Iterations < 1:
		return usage.Errorf("search.iterations %d: must be 1 or more", *s.Iterations)
	}
	return s.validateForm()
}

// validateForm finds settings that the form, or its budget, refuses.
func (s *Settings) validateForm() error {
	switch {
	case s.Margin != nil && !(math.Abs(*s.Margin) <= mostMargin):
		return usage.Errorf("search.margin %v: must be a number of standard deviations, at most %d in magnitude", *s.Margin, mostMargin)
	case s.Trials != nil && (*s.Trials < 1 || *s.Trials > MostTrials):
		return usage.Errorf("search.trials %d: must be in [1, %d]", *s.Trials, MostTrials)
	case s.Points != nil && *s.Points > device.MaxCandidates:
		return usage.Errorf("search.points %d: at most %d", *s.Points, device.MaxCandidates)
	case s.Form == FormCurve:
		return usage.Wrap(s.curve(1).Validate())
	case s.Form == FormMinimum && (*s.Trials < 2 || *s.Trials > device.MaxCandidates):
		return usage.Errorf("search.trials %d: the noisy minimum is of 2 to %d candidates", *s.Trials, device.MaxCandidates)
	case s.Form != FormMinimum:
		if err := s.backtrack(1).Validate(); err != nil {
			return usage.Wrap(err)
		}
	}
	if s.adapts() {
		return usage.Wrap(s.rule().Validate())
	}
	return usage.Wrap(s.startRule().Validate())
}

// curve and backtrack are the searches, for a batch of an expected size.
func (s *Settings) curve(batch float64) linesearch.Curve {
	return linesearch.Curve{Points: *s.Points, Factor: *s.Factor, Batch: batch, Keep: *s.Keep}
}

func (s *Settings) backtrack(batch float64) linesearch.Backtrack {
	return linesearch.Backtrack{Alpha: *s.Alpha, Beta: *s.Beta, Trials: *s.Trials, Batch: batch, Correct: *s.Correct}
}

// Step sizes stay where single precision knows them.
const leastRate, mostRate = 1e-12, 1e12

// mostStart is where searches start at most.
func (s *Settings) mostStart() float64 {
	if s.StartMost == nil {
		return mostRate
	}
	return *s.StartMost
}

func (s *Settings) startRule() linesearch.StartRule {
	return linesearch.StartRule{Every: *s.StartEvery, Factor: *s.StartFactor, Rise: *s.Rise, Least: leastRate, Most: s.mostStart()}
}

func (s *Settings) rule() linesearch.Rule {
	return linesearch.Rule{
		Start: s.startRule(), Policy: linesearch.Policy(s.Budget), Growth: *s.Growth, Shrink: *s.Shrink,
		Wide: *s.Wide, Narrow: *s.Narrow, Decay: *s.Decay,
	}
}

func (s *Settings) queries() string {
	if s.Form == FormLosses {
		return accountant.SharedBaseline
	}
	return accountant.Generic
}

// gaussian is the search that is μ-GDP under add-remove, or by the paper's
// arithmetic ρ-zCDP for ρ = μ²/2.
func (s *Settings) gaussian(mu float64) (accountant.NoisyBTLS, error) {
	m := accountant.NoisyBTLS{Noise: accountant.BTLSGaussian, MaxTrials: *s.Trials, Queries: s.queries()}
	if s.paper() {
		m.ThresholdScale, m.QueryScale = math.Sqrt(3)/mu, math.Sqrt(6)/mu
		return m, nil
	}
	c, err := btls.Calibrate(mu, *s.Trials, s.queries() == accountant.SharedBaseline)
	m.ThresholdScale, m.QueryScale = c.Threshold, c.Query
	return m, err
}

// laplace is the search that is ε-DP on its batch (theorem 1; its queries share
// f(w), for which half the noise is enough, or are generic).
func (s *Settings) laplace(epsilon float64) accountant.NoisyBTLS {
	m := accountant.NoisyBTLS{Noise: accountant.BTLSLaplace, MaxTrials: *s.Trials, Queries: s.queries(), ThresholdScale: 2 / epsilon, QueryScale: 2 / epsilon}
	if s.queries() == accountant.Generic || s.paper() {
		m.QueryScale = 4 / epsilon
	}
	return m
}

// searchMu is the μ of a search whose steps' gradients have a noise multiplier:
// of all that a step may cost, μ², a share is saved up over the steps between searches.
func (s *Settings) searchMu(sigma float64) float64 {
	return math.Sqrt(float64(*s.Every)**s.Share/(1-*s.Share)) / sigma
}

// planned is the search of a fixed budget, as a mechanism and its price.
func (s *Settings) planned(sigma float64) (accountant.Mechanism, error) {
	mu := s.searchMu(sigma)
	switch {
	case s.Form == FormCurve:
		return accountant.Gaussian{NoiseMultiplier: 1 / mu}, nil
	case s.Noise == string(accountant.BTLSLaplace):
		return s.laplace(mu), nil
	}
	return s.gaussian(mu)
}
