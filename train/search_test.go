package train

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/rundir"
)

// searchConfig is small() with a search of a fixed budget, or an ε for one that adapts.
func searchConfig(optimizer string, s Search) Config {
	c := small()
	c.Optimizer, c.Search = optimizer, s
	if s.Budget != budgetFixed {
		c.NoiseMultiplier, c.Epsilon = nil, ptr(1.0)
		if takesAll(optimizer) {
			c.Batch = nil
		}
	}
	return c
}

// Searches of all forms are priced as the suite of optimizers asks it of some.
func TestSearchIsPricedAsDrawn(t *testing.T) {
	for name, s := range map[string]Search{
		"differences":           {},
		"differences, laplace":  {Noise: "laplace", Every: ptr(7)},
		"differences, shared":   {Batches: "shared", Every: ptr(3)},
		"losses":                {Form: searchLosses, Share: ptr(0.3)},
		"losses, shared":        {Form: searchLosses, Batches: "shared"},
		"curve, shared":         {Form: searchCurve, Batches: "shared"},
		"adaptive, gaussian":    {Budget: "always", Noise: "gaussian", Iterations: ptr(8), Trials: ptr(4)},
		"losses, laplace, odds": {Form: searchLosses, Noise: "laplace", Trials: ptr(3)},
	} {
		t.Run(name, func(t *testing.T) {
			if s.Budget == "" {
				s.Budget = budgetFixed
			}
			c := searchConfig("dp-blsgd", s)
			c.Clip = 0.7
			testAccounting(t, c)
			if s.Noise == "laplace" || s.Budget != budgetFixed {
				return // no accountant amplifies it under the other relation
			}
			c.Neighbouring = "replace-one"
			testAccounting(t, c)
		})
	}
}

// adapting is a run whose budget ends it.
func adapting() Config {
	c := searchConfig("dp-blsgd", Search{Budget: "adaptive", Iterations: ptr(8)})
	c.L2, c.Steps, c.Epsilon = 1e-3, ptr(1000), ptr(2.0)
	return c
}

// By the paper's arithmetic nothing is a guarantee, and everything says so.
func TestPaperSearchIsNoGuarantee(t *testing.T) {
	fixed := searchConfig("dp-blsgd", Search{Budget: budgetFixed, Batches: "paper"})
	adapts := adapting()
	adapts.Search.Batches = "paper"
	for name, c := range map[string]Config{"fixed": fixed, "adapts": adapts} {
		out := filepath.Join(t.TempDir(), "run")
		o := Options{Sources: sources(made(1, 400)), Out: out}
		r := finished(t, c, o)
		if r.Guarantee || *r.Accountant != accountant.Paper || !slices.Contains(r.NoGuarantee, accountant.WhyNotPaper) || *r.EpsilonSoFar > *r.Epsilon*(1+1e-12) {
			t.Errorf("%s: the result says %+v", name, r)
		}
		var stored Result
		check(t, json.Unmarshal(read(t, out, rundir.Result), &stored))
		if stored.Guarantee || !slices.Contains(stored.NoGuarantee, accountant.WhyNotPaper) {
			t.Errorf("%s: result.json says %+v", name, stored)
		}
		for _, file := range []string{rundir.Config, rundir.Metrics, rundir.Model, stateFile} {
			if !strings.Contains(string(read(t, out, file)), "NO GUARANTEE") {
				t.Errorf("%s: %s does not say that its ε is no guarantee", name, file)
			}
		}
		var config Config
		check(t, ReadConfig(filepath.Join(out, rundir.Config), &config))
		if config.Accountant != accountant.Paper || config.Search.Batches != "paper" {
			t.Errorf("%s: config.yaml says %+v", name, config)
		}
	}
	p := resolved(t, fixed, Options{Sources: sources(made(1, 400))})
	l := accountant.LineSearch{
		SamplingRate: p.SamplingRate, Steps: p.Steps, Gradient: accountant.Gaussian{NoiseMultiplier: 1},
		// μ² = share/(1−share), ρ = μ²/2, σ₁² = 3/(2ρ), σ₂² = 3/ρ.
		Search: accountant.NoisyBTLS{Noise: "gaussian", ThresholdScale: math.Sqrt(3 * 9), QueryScale: math.Sqrt(6 * 9), MaxTrials: 20, Queries: accountant.SharedBaseline},
	}
	want, err := l.PaperEpsilon(*p.Config.Delta)
	check(t, err)
	if math.Abs(*p.Epsilon-want.Epsilon) > 1e-9*want.Epsilon {
		t.Errorf("ε %v, by the paper %v", *p.Epsilon, want.Epsilon)
	}
}

// The settings that a run resolved, read back from its file, are the same run's.
func TestSettingsSurvive(t *testing.T) {
	for _, m := range methods {
		c := small()
		m.set(&c)
		p := resolved(t, c, Options{Sources: sources(made(1, 400))})
		yaml, err := p.Config.YAML()
		check(t, err)
		path := filepath.Join(t.TempDir(), "config.yaml")
		check(t, os.WriteFile(path, yaml, 0o600))
		var back Config
		check(t, ReadConfig(path, &back))
		again := resolved(t, back, Options{Sources: sources(made(1, 400))})
		if again.Fingerprint != p.Fingerprint {
			t.Errorf("%s: read back it is another run:\n%s", m.name, yaml)
		}
	}
}

func TestSearchRefuses(t *testing.T) {
	fixed := func(f func(*Search)) func(*Config) {
		return func(c *Config) {
			s := Search{Budget: budgetFixed}
			f(&s)
			c.Optimizer, c.Search = "dp-blsgd", s
		}
	}
	adaptive := func(f func(*Config)) func(*Config) {
		return func(c *Config) {
			*c = searchConfig("dp-blsgd", Search{Budget: "adaptive"})
			f(c)
		}
	}
	for want, change := range map[string]func(*Config){
		`unknown search form "x": choose one of differences, `: fixed(func(s *Search) { s.Form = "x" }),
		`unknown search budget "x": choose one of fixed, `:     fixed(func(s *Search) { s.Budget = "x" }),
		"search-clip 0:": fixed(func(s *Search) { s.Clip = ptr(0.0) }),
		"neighbouring replace-one: the paper's arithmetic": func(c *Config) {
			*c = searchConfig("dp-blsgd", Search{Budget: budgetFixed, Batches: "paper"})
			c.Neighbouring = "replace-one"
		},
		"train-loss-noise 4: the paper's arithmetic": func(c *Config) {
			*c = searchConfig("dp-blsgd", Search{Budget: budgetFixed, Batches: "paper"})
			c.TrainLossNoise = ptr(4.0)
		},
		"momentum 0.9: optimizer dp-blsgd":                           adaptive(func(c *Config) { c.Momentum = 0.9 }),
		"noise exact: exact noise works on integers":                 adaptive(func(c *Config) { c.Noise = dpoptim.Exact }),
		"clipping adaptive: optimizer dp-blsgd":                      adaptive(func(c *Config) { c.Clipping = "adaptive" }),
		"noise multiplier 1: optimizer dp-blsgd":                     adaptive(func(c *Config) { c.NoiseMultiplier, c.Epsilon = ptr(1.0), nil }),
		"train-loss-noise 4: an adaptive budget":                     adaptive(func(c *Config) { c.TrainLossNoise = ptr(4.0) }),
		"lr-schedule cosine":                                         adaptive(func(c *Config) { c.LRSchedule = "cosine" }),
		"epochs 2: optimizer dp-blsgd":                               adaptive(func(c *Config) { c.Epochs, c.Steps = ptr(2.0), nil }),
		"optimizer dp-blsgd-ac adapts its budgets":                   func(c *Config) { c.Optimizer, c.Search = "dp-blsgd-ac", Search{Budget: budgetFixed} },
		"optimizer dp-blgd takes every record":                       func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.Epsilon = "dp-blgd", nil, ptr(1.0) },
		"search-form losses: optimizer dp-sgd does not read it":      func(c *Config) { c.Search = Search{Form: searchLosses} },
		`unknown search batches "x": choose one of fresh, `:          fixed(func(s *Search) { s.Batches = "x" }),
		`unknown search noise "x": choose one of gaussian, `:         fixed(func(s *Search) { s.Noise = "x" }),
		"search.every 0":                                             fixed(func(s *Search) { s.Every = ptr(0) }),
		"search.share 1:":                                            fixed(func(s *Search) { s.Share = ptr(1.0) }),
		"search.share NaN":                                           fixed(func(s *Search) { s.Share = ptr(math.NaN()) }),
		"search-clip +Inf":                                           fixed(func(s *Search) { s.Clip = ptr(math.Inf(1)) }),
		"search.weight 0:":                                           fixed(func(s *Search) { s.Weight = ptr(0.0) }),
		"search.trials 1001":                                         fixed(func(s *Search) { s.Trials = ptr(1001) }),
		"search.trials 0":                                            fixed(func(s *Search) { s.Trials = ptr(0) }),
		"alpha 1 of":                                                 fixed(func(s *Search) { s.Alpha = ptr(1.0) }),
		"beta 0 of":                                                  fixed(func(s *Search) { s.Beta = ptr(0.0) }),
		"search.margin NaN":                                          fixed(func(s *Search) { s.Margin = ptr(math.NaN()) }),
		"after every 0 searches":                                     fixed(func(s *Search) { s.StartEvery = ptr(0) }),
		"is 1 times the largest step":                                fixed(func(s *Search) { s.StartFactor = ptr(1.0) }),
		"4 points":                                                   fixed(func(s *Search) { s.Form, s.Points = searchCurve, ptr(4) }),
		"search.points 33":                                           fixed(func(s *Search) { s.Form, s.Points = searchCurve, ptr(33) }),
		"factor 1 apart":                                             fixed(func(s *Search) { s.Form, s.Factor = searchCurve, ptr(1.0) }),
		"must keep 2":                                                fixed(func(s *Search) { s.Form, s.Keep = searchCurve, ptr(2.0) }),
		"search form curve is a Gaussian release":                    fixed(func(s *Search) { s.Form, s.Noise = searchCurve, "laplace" }),
		"of which the paper knows nothing":                           fixed(func(s *Search) { s.Form, s.Batches = searchCurve, "paper" }),
		"search.alpha has no effect with --search-form curve":        fixed(func(s *Search) { s.Form, s.Alpha = searchCurve, ptr(0.1) }),
		"search.keep has no effect with --search-form differences":   fixed(func(s *Search) { s.Keep = ptr(0.1) }),
		"search.growth has no effect with --search-form differences": fixed(func(s *Search) { s.Growth = ptr(0.1) }),
		"search.every 2: the paper's arithmetic":                     fixed(func(s *Search) { s.Batches, s.Every = "paper", ptr(2) }),
		"accountant prv: search batches paper": func(c *Config) {
			*c = searchConfig("dp-blsgd", Search{Budget: budgetFixed, Batches: "paper"})
			c.Accountant = "prv"
		},
		"accountant paper: search batches fresh":                                     adaptive(func(c *Config) { c.Accountant = "paper" }),
		"search.every has no effect with --search-form losses and --search-budget a": adaptive(func(c *Config) { c.Search.Every = ptr(1) }),
		"search.trials 1: the noisy minimum is of 2":                                 func(c *Config) { *c = searchConfig("dp-agd", Search{Trials: ptr(1)}) },
		"search.iterations 0":                                                        adaptive(func(c *Config) { c.Search.Iterations = ptr(0) }),
		"grow by 1000":                                                               adaptive(func(c *Config) { c.Search.Growth = ptr(1000.0) }),
		"shrink by 1":                                                                adaptive(func(c *Config) { c.Search.Shrink = ptr(1.0) }),
		"wide 1 ":                                                                    adaptive(func(c *Config) { c.Search.Wide = ptr(1.0) }),
		"narrow 1 ":                                                                  adaptive(func(c *Config) { c.Search.Narrow = ptr(1.0) }),
		"decay 1 ":                                                                   adaptive(func(c *Config) { c.Search.Decay = ptr(1.0) }),
		"learning rate 1e+20: optimizer dp-blsgd searches":                             adaptive(func(c *Config) { c.LR = ptr(1e20) }),
		"search.start_most 0:":                                                         fixed(func(s *Search) { s.StartMost = ptr(0.0) }),
		"search.normalise has no effect with --search-form differences":                fixed(func(s *Search) { s.Normalise = ptr(true) }),
		"learning rate 3: optimizer dp-agd searches from there; must be in [1e-12, 2]": func(c *Config) { *c = searchConfig("dp-agd", Search{}); c.LR = ptr(3.0) },
		"raise search.iterations":                                                      func(c *Config) { *c = searchConfig("dp-blgd", Search{Iterations: ptr(1)}) },
	} {
		c := small()
		change(&c)
		refusedBefore(t, c, Options{Sources: sources(made(1, 400))}, want)
	}
	// A first step that the budget does not allow is refused as such, before anything is written.
	c := searchConfig("dp-blgd", Search{Iterations: ptr(1)})
	if _, err := resolve(c, Options{Sources: sources(made(1, 400))}); !errors.Is(err, accountant.ErrBudget) {
		t.Errorf("a first step beyond the budget: %v", err)
	}
}

// A checkpoint whose search state is another's, damaged, or ahead of its ledger is refused.
func TestSearchCheckpointRefuses(t *testing.T) {
	start := func(t *testing.T, c Config) Options {
		o := Options{Sources: sources(made(1, 400)), Out: filepath.Join(t.TempDir(), "run"), Resume: ResumeAuto}
		ctx, stop := stopAt(t, o, 2, true)
		ends(ctx, t, c, stop, ErrInterrupted)
		return o
	}
	refused := func(t *testing.T, c Config, o Options, change func(*rundir.Checkpoint), want string) {
		t.Helper()
		kept, err := rundir.Dir(o.Out).ReadCheckpoint(65, map[bool][]int{true: {1}}[adapts(c)])
		check(t, err)
		changed := *kept
		change(&changed)
		check(t, rundir.Dir(o.Out).WriteCheckpoint(&changed))
		_, err = Run(context.Background(), c, o)
		var u *UsageError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a usage error with %q", err, want)
		}
		check(t, rundir.Dir(o.Out).WriteCheckpoint(kept))
	}
	replace := func(old, new string) func(*rundir.Checkpoint) {
		return func(c *rundir.Checkpoint) {
			if !strings.Contains(c.Method, old) {
				t.Fatalf("no %s in %s", old, c.Method)
			}
			c.Method = strings.Replace(c.Method, old, new, 1)
		}
	}
	fixed, adapts := searchConfig("dp-blsgd", Search{Budget: budgetFixed}), adapting()
	t.Run("fixed", func(t *testing.T) {
		o := start(t, fixed)
		refused(t, fixed, o, func(c *rundir.Checkpoint) { c.Method = "" }, "cannot be read")
		refused(t, fixed, o, func(c *rundir.Checkpoint) { c.Method = "{}" }, "a step size of 0")
		refused(t, fixed, o, replace(`"eta":`, `"eta":-`), "a step size of -")
		refused(t, fixed, o, replace(`"largest":`, `"largest":-1e9,"largest":-1`), "not what a line search leaves")
		refused(t, fixed, o, replace(`"group":`, `"grouped":`), "grouped")
	})
	t.Run("adapts", func(t *testing.T) {
		o := start(t, adapts)
		refused(t, adapts, o, replace(`"clip":1`, `"clip":1e9`), "not what a line search leaves")
		refused(t, adapts, o, replace(`"gradient":`, `"gradient":-`), "not what a line search leaves")
		refused(t, adapts, o, replace(`"adaptive":`, `"adapted":`), "adapted")
		refused(t, adapts, o, replace(`"spent":[`, `"spent":[-`), "a divergence of -")
		refused(t, adapts, o, replace(`"spent":[`, `"spent":[0,`), "2 divergences were spent")
		refused(t, adapts, o, replace(`"spent":[0`, `"spent":[9`), "older than its checkpoint")
		if _, err := Run(context.Background(), adapts, o); err != nil {
			t.Error(err)
		}
	})
}
