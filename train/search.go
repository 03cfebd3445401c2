package train

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/btls"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/linesearch"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
)

// Search is how dp-blsgd and its kin find step sizes. Fields that are nil get a
// default that goes with the form and the budget. The start of the search, η₀,
// is the run's learning rate.
type Search struct {
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

// The forms of a line search.
const (
	// searchLosses is the published form: sums of losses clipped to [0, C_obj]
	// that share the baseline f(w).
	searchLosses = "losses"
	// searchDifferences is our own: sums of every example's decrease, clipped to
	// [−c, c].
	searchDifferences = "differences"
	// searchCurve is our own too: the decreases at all candidates, released.
	searchCurve = "curve"
	// searchMinimum is Lee and Kifer's: the candidate whose loss is least, of
	// equally spaced ones with 0 among them.
	searchMinimum = "minimum"
)

// SearchForms, SearchBudgets, SearchBatches and SearchNoises are what the fields take.
func SearchForms() []string {
	return []string{searchDifferences, searchCurve, searchLosses, searchMinimum}
}

// budgetFixed plans every release before the run; the others are policies.
const budgetFixed = "fixed"

// SearchBudgets lists them.
func SearchBudgets() []string {
	all := []string{budgetFixed}
	for _, p := range linesearch.Policies() {
		all = append(all, string(p))
	}
	return all
}

// SearchBatches lists what a search may be asked of.
func SearchBatches() []string {
	return []string{string(accountant.Fresh), string(accountant.Shared), string(accountant.PaperBatches)}
}

// SearchNoises lists the laws of a search's noise.
func SearchNoises() []string {
	return []string{string(accountant.BTLSGaussian), string(accountant.BTLSLaplace)}
}

// searching maps the optimizers that choose their step sizes to what they
// prescribe: the budget's policy where it is not the user's, and the full batch.
var searching = map[string]struct {
	budget linesearch.Policy
	full   bool
	shrink float64
}{
	"dp-blsgd":    {},
	"dp-blsgd-ac": {budget: linesearch.ByAngle, shrink: 0.05},
	"dp-blgd":     {budget: linesearch.Refine, full: true},
	"dp-agd":      {budget: linesearch.Refine, full: true},
}

// searches reports whether the optimizer chooses its step sizes.
func (c *Config) searches() bool {
	_, ok := searching[c.Optimizer]
	return ok
}

// filtered reports whether budgets follow from what was released, so that an
// online filter admits every release.
func (c *Config) filtered() bool { return c.searches() && c.Search.Budget != budgetFixed }

// checkSearch finds faults that show without the data.
func (c *Config) checkSearch() error {
	if !c.searches() {
		if c.Search != nil {
			return usage.Errorf("optimizer %s has a step size of its own: leave the search settings out, or use dp-blsgd", c.Optimizer)
		}
		return nil
	}
	s := c.search()
	oneOf := func(what, got string, choices []string) error {
		if got == "" || slices.Contains(choices, got) {
			return nil
		}
		return usage.Errorf("unknown %s %q: choose one of %s", what, got, strings.Join(choices, ", "))
	}
	if err := errors.Join(
		oneOf("search form", s.Form, SearchForms()), oneOf("search budget", s.Budget, SearchBudgets()),
		oneOf("search batches", s.Batches, SearchBatches()), oneOf("search noise", s.Noise, SearchNoises()),
	); err != nil {
		return usage.Wrap(err)
	}
	switch {
	case c.Momentum != 0:
		return usage.Errorf("momentum %v: optimizer %s steps along the gradient that it searched along; leave momentum at 0", c.Momentum, c.Optimizer)
	case c.exact():
		return usage.Errorf("noise exact: line searches have no integer form yet; use --noise secure with optimizer %s", c.Optimizer)
	case c.adapts():
		return usage.Errorf("clipping %s: optimizer %s keeps its clip norm, or shrinks it as dp-blsgd-ac; use --clipping flat", c.Clipping, c.Optimizer)
	}
	return nil
}

// search is the settings, which are nil where nothing was said.
func (c *Config) search() Search {
	if c.Search == nil {
		return Search{}
	}
	return *c.Search
}

// or gives a setting its default.
func or[T any](p **T, def T) T {
	if *p == nil {
		*p = &def
	}
	return **p
}

// resolveSearch completes the settings of a line search.
func (p *Plan) resolveSearch() error {
	c := &p.Config
	if !c.searches() {
		return nil
	}
	s := c.search()
	if err := s.complete(c, p.Network.Program); err != nil {
		return err
	}
	c.Search = &s
	if *c.LR < leastRate || *c.LR > mostRate {
		return usage.Errorf("learning rate %v: optimizer %s searches from there; must be in [%g, %g]", *c.LR, c.Optimizer, leastRate, mostRate)
	}
	if err := c.resolveSearchAccountant(); err != nil {
		return err
	}
	if c.filtered() && c.NoiseMultiplier != nil && *c.NoiseMultiplier != 0 {
		return usage.Errorf("noise multiplier %v: optimizer %s with search budget %s chooses its noise as it goes; give --epsilon, or --search-budget fixed", *c.NoiseMultiplier, c.Optimizer, s.Budget)
	}
	if searching[c.Optimizer].full {
		if c.Batch != nil || c.SamplingRate != nil && *c.SamplingRate != 1 {
			return usage.Errorf("optimizer %s takes every record in every step: leave --batch and --sampling-rate out, or use dp-blsgd", c.Optimizer)
		}
		all := 1.0
		c.SamplingRate = &all
	}
	if !c.filtered() {
		return nil
	}
	if c.TrainLossNoise != nil {
		return usage.Errorf("train-loss-noise %v: budgets that adapt leave no budget aside for it; leave it out", *c.TrainLossNoise)
	}
	if c.LRSchedule != dpoptim.Constant || c.Warmup != 0 {
		return usage.Errorf("lr-schedule %s and warmup %d: optimizer %s with search budget %s does not know how many steps it will make; leave them out", c.LRSchedule, c.Warmup, c.Optimizer, s.Budget)
	}
	if c.Epochs != nil {
		return usage.Errorf("epochs %v: optimizer %s with search budget %s steps until the budget is spent; bound it by --steps, or leave it out", *c.Epochs, c.Optimizer, s.Budget)
	}
	if c.Batch == nil && c.SamplingRate == nil {
		q := 0.1 // section 5.4
		c.SamplingRate = &q
	}
	if c.Steps == nil {
		most := mostFilteredSteps
		c.Steps = &most
	}
	return nil
}

// resolveSearchAccountant settles who prices a run with a search: the paper's
// arithmetic goes with the paper's batches, and a filter adds up Rényi divergences.
func (c *Config) resolveSearchAccountant() error {
	settled := c.Accountant
	switch {
	case c.Search.paper():
		settled = accountant.Paper
		if c.Neighbouring != string(accountant.AddRemove) {
			return usage.Errorf("neighbouring %s: the paper's arithmetic is for add-remove; use it, or --search-batches fresh", c.Neighbouring)
		}
		if c.TrainLossNoise != nil {
			return usage.Errorf("train-loss-noise %v: the paper's arithmetic prices gradients and line searches only; leave it out, or use --search-batches fresh", *c.TrainLossNoise)
		}
	case c.filtered():
		settled = accountant.RDP
	}
	if c.Accountant != settled && c.Accountant != Default().Accountant {
		return usage.Errorf("accountant %s: search batches %s under search budget %s are priced by %s; leave it out", c.Accountant, c.Search.Batches, c.Search.Budget, settled)
	}
	c.Accountant = settled
	return nil
}

// mostFilteredSteps bounds a run that a budget ends.
const mostFilteredSteps = 10_000

// complete fills in the settings for a network. What the paper prescribes for
// convex models (section 5.4) goes with budgets that adapt, what it prescribes
// for networks, or our own, with fixed ones.
func (s *Search) complete(c *Config, g *ir.Program) error {
	own := searching[c.Optimizer]
	convex := len(g.Ops) == 1
	if s.Budget == "" {
		switch {
		case own.budget != "":
			s.Budget = string(own.budget)
		case convex:
			s.Budget = string(linesearch.ByAngle)
		default:
			s.Budget = budgetFixed
		}
	}
	fixed := s.Budget == budgetFixed
	if own.budget != "" && fixed {
		return usage.Errorf("search budget %s: optimizer %s adapts its budgets; use dp-blsgd", s.Budget, c.Optimizer)
	}
	if c.Optimizer == agd && s.Form == "" {
		s.Form = searchMinimum
	}
	if (c.Optimizer == agd) != (s.Form == searchMinimum) {
		return usage.Errorf("search form %s: optimizer dp-agd, and no other, takes the noisy minimum; leave --search-form out", s.Form)
	}
	if s.Batches == "" {
		s.Batches = string(accountant.Fresh)
	}
	if s.Form == "" {
		s.Form = searchDifferences
		if !fixed || s.paper() {
			s.Form = searchLosses
		}
	}
	if s.Noise == "" {
		s.Noise = string(accountant.BTLSGaussian)
		if !fixed {
			s.Noise = string(accountant.BTLSLaplace)
		}
	}
	published := s.Form == searchLosses || s.Form == searchMinimum
	if s.Form == searchCurve && (!fixed || s.paper() || s.Noise != string(accountant.BTLSGaussian)) {
		return usage.Errorf("search form %s is a Gaussian release under a fixed budget, of which the paper knows nothing: use --search-noise gaussian, --search-budget fixed and --search-batches fresh or shared, or choose another form", s.Form)
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
	or(&s.Clip, pick(map[string]float64{searchDifferences: 0.1, searchCurve: 0.3}[s.Form], 3, 1))
	switch s.Form {
	case searchCurve:
		or(&s.Points, 9)
		or(&s.Factor, 2)
		or(&s.Keep, 0.5)
	case searchMinimum: // Lee and Kifer 2018, section 5
		or(&s.Trials, 20)
		or(&s.StartEvery, 10)
		or(&s.StartFactor, 1.1)
		or(&s.Rise, true)
		or(&s.Growth, 0.1)
	default:
		or(&s.Alpha, pick(0.3, 0.001, 0.5))
		or(&s.Beta, 0.8)
		or(&s.Trials, 20)
		or(&s.Correct, !published)
		// A search that failed is what raises budgets, where they adapt: there is
		// nothing to smooth, and a margin below 0 would let no search fail.
		smoothed := !published && fixed
		or(&s.Margin, map[bool]float64{true: -1.5}[smoothed])
		or(&s.StartEvery, map[bool]int{true: 1, false: 10}[smoothed])
		or(&s.StartFactor, map[bool]float64{true: 2, false: 1.2}[smoothed])
		or(&s.Rise, smoothed)
	}
	if !fixed {
		or(&s.Iterations, 50)
		or(&s.Growth, 0.3)
		or(&s.Shrink, own.shrink)
		or(&s.Wide, 1.1)
		or(&s.Narrow, 0.5)
		or(&s.Decay, 0.8)
	}
	return s.validate()
}

// searchEvery is how many steps save up for a search of our own.
const searchEvery = 5

// mostTrials bounds the candidates of a search, and mostMargin its margin: noise is
// no larger.
const mostTrials, mostMargin = 1000, 100

// paper reports whether the price is by the paper's arithmetic.
func (s *Search) paper() bool { return s.Batches == string(accountant.PaperBatches) }

// checkUsed refuses settings that would have no effect.
func (s *Search) checkUsed(fixed bool) error {
	curve := s.Form == searchCurve
	armijo := !curve && s.Form != searchMinimum
	for _, x := range []struct {
		name        string
		given, used bool
	}{
		{"every", s.Every != nil, fixed}, {"share", s.Share != nil, fixed}, {"weight", s.Weight != nil, fixed},
		{"alpha", s.Alpha != nil, armijo}, {"beta", s.Beta != nil, armijo}, {"trials", s.Trials != nil, !curve},
		{"correct", s.Correct != nil, armijo}, {"margin", s.Margin != nil, armijo},
		{"start-every", s.StartEvery != nil, !curve}, {"start-factor", s.StartFactor != nil, !curve}, {"rise", s.Rise != nil, !curve},
		{"points", s.Points != nil, curve}, {"factor", s.Factor != nil, curve}, {"keep", s.Keep != nil, curve},
		{"iterations", s.Iterations != nil, !fixed}, {"growth", s.Growth != nil, !fixed}, {"shrink", s.Shrink != nil, !fixed},
		{"wide", s.Wide != nil, !fixed}, {"narrow", s.Narrow != nil, !fixed}, {"decay", s.Decay != nil, !fixed},
	} {
		if x.given && !x.used {
			return usage.Errorf("search-%s: search form %s under search budget %s does not read it; leave it out", x.name, s.Form, s.Budget)
		}
	}
	return nil
}

func (s *Search) validate() error {
	switch {
	case s.Every != nil && *s.Every < 1:
		return usage.Errorf("search-every %d: must be 1 or more steps", *s.Every)
	case s.Every != nil && *s.Every != 1 && s.paper():
		return usage.Errorf("search-every %d: the paper's arithmetic is for a search in every step; leave it at 1, or use --search-batches fresh", *s.Every)
	case s.Share != nil && !(*s.Share > 0 && *s.Share < 1):
		return usage.Errorf("search-share %v: must be in (0, 1)", *s.Share)
	case !(*s.Clip >= leastScale) || *s.Clip > mostScale:
		return usage.Errorf("search-clip %v: must be in [%g, %g]", *s.Clip, leastScale, mostScale)
	case s.Weight != nil && !(*s.Weight > 0 && *s.Weight <= 1):
		return usage.Errorf("search-weight %v: must be in (0, 1]", *s.Weight)
	case s.Margin != nil && (math.IsNaN(*s.Margin) || math.Abs(*s.Margin) > mostMargin):
		return usage.Errorf("search-margin %v: must be a number of standard deviations, at most %d in magnitude", *s.Margin, mostMargin)
	case s.Trials != nil && (*s.Trials < 1 || *s.Trials > mostTrials):
		return usage.Errorf("search-trials %d: must be in [1, %d]", *s.Trials, mostTrials)
	case s.Points != nil && *s.Points > device.MaxCandidates:
		return usage.Errorf("search-points %d: at most %d", *s.Points, device.MaxCandidates)
	case s.Iterations != nil && *s.Iterations < 1:
		return usage.Errorf("search-iterations %d: must be 1 or more", *s.Iterations)
	}
	if s.Form == searchCurve {
		return usage.Wrap(s.curve(1).Validate())
	}
	if s.Form == searchMinimum {
		if *s.Trials < 2 || *s.Trials > device.MaxCandidates {
			return usage.Errorf("search-trials %d: the noisy minimum is of 2 to %d candidates", *s.Trials, device.MaxCandidates)
		}
	} else if err := usage.Wrap(s.backtrack(1).Validate()); err != nil {
		return err
	}
	if s.Budget != budgetFixed {
		return usage.Wrap(s.rule().Validate())
	}
	return usage.Wrap(s.startRule().Validate())
}

// curve and backtrack are the searches, for a batch of an expected size.
func (s *Search) curve(batch float64) linesearch.Curve {
	return linesearch.Curve{Points: *s.Points, Factor: *s.Factor, Batch: batch, Keep: *s.Keep}
}

func (s *Search) backtrack(batch float64) linesearch.Backtrack {
	return linesearch.Backtrack{Alpha: *s.Alpha, Beta: *s.Beta, Trials: *s.Trials, Batch: batch, Correct: *s.Correct}
}

// Step sizes stay where single precision knows them.
const leastRate, mostRate = 1e-12, 1e12

func (s *Search) startRule() linesearch.StartRule {
	return linesearch.StartRule{Every: *s.StartEvery, Factor: *s.StartFactor, Rise: *s.Rise, Least: leastRate, Most: mostRate}
}

func (s *Search) rule() linesearch.Rule {
	return linesearch.Rule{
		Start: s.startRule(), Policy: linesearch.Policy(s.Budget), Growth: *s.Growth, Shrink: *s.Shrink,
		Wide: *s.Wide, Narrow: *s.Narrow, Decay: *s.Decay,
	}
}

// agd is Lee and Kifer's adaptive gradient descent.
const agd = "dp-agd"

func (s *Search) queries() string {
	if s.Form == searchLosses {
		return accountant.SharedBaseline
	}
	return accountant.Generic
}

// gaussian is the search that is μ-GDP under add-remove, or by the paper's
// arithmetic ρ-zCDP for ρ = μ²/2.
func (s *Search) gaussian(mu float64) (accountant.NoisyBTLS, error) {
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
func (s *Search) laplace(epsilon float64) accountant.NoisyBTLS {
	m := accountant.NoisyBTLS{Noise: accountant.BTLSLaplace, MaxTrials: *s.Trials, Queries: s.queries(), ThresholdScale: 2 / epsilon, QueryScale: 2 / epsilon}
	if s.queries() == accountant.Generic || s.paper() {
		m.QueryScale = 4 / epsilon
	}
	return m
}

// searchMu is the μ of a search whose steps' gradients have a noise multiplier:
// of all that a step may cost, μ², a share is saved up over the steps between searches.
func (s *Search) searchMu(sigma float64) float64 {
	return math.Sqrt(float64(*s.Every)**s.Share/(1-*s.Share)) / sigma
}

// planned is the search of a fixed budget, as a mechanism and its price.
func (s *Search) planned(sigma float64) (accountant.Mechanism, error) {
	mu := s.searchMu(sigma)
	switch {
	case s.Form == searchCurve:
		return accountant.Gaussian{NoiseMultiplier: 1 / mu}, nil
	case s.Noise == string(accountant.BTLSLaplace):
		return s.laplace(mu), nil
	}
	return s.gaussian(mu)
}

// searchesIn counts the searches of the first n steps: the first step has one.
func (s *Search) searchesIn(n int) int { return (n + *s.Every - 1) / *s.Every }

// searchPrice is what a fixed budget costs.
func (p *Plan) searchPrice(s accountant.Schedule, sigma float64) (float64, error) {
	f := p.Config.Search
	m, err := f.planned(sigma)
	if err != nil {
		return 0, err
	}
	l := accountant.LineSearch{
		Batches: accountant.Batches(f.Batches), SamplingRate: s.SamplingRate, Steps: s.Steps, Searches: f.searchesIn(s.Steps),
		Gradient: accountant.Gaussian{NoiseMultiplier: sigma}, Search: m,
	}
	if f.paper() {
		if s.Steps < 1 {
			return 0, nil
		}
		r, err := l.PaperEpsilon(s.Delta)
		return r.Epsilon, err
	}
	events := append(slices.Clip(s.Besides), l.Events()...)
	if len(events) == 0 {
		return 0, nil
	}
	r, err := accountant.Account(events, accountant.Options{Accountant: s.Accountant, Neighbouring: s.Neighbouring, Delta: s.Delta})
	return r.Epsilon, err
}

// slots is what the ledger counts: steps of the committed schedule, or shares of
// a budget that adapts.
func (p *Plan) slots() int {
	if p.filtered() && p.Sigma > 0 {
		return budgetUnits
	}
	return p.Steps
}
