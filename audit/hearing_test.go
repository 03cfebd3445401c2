package audit

import (
	"context"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/dpoptim/local"
	"github.com/privgrad/privgrad/dpoptim/majority"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/audit/hear"
	"github.com/privgrad/privgrad/internal/audit/play"
	"github.com/privgrad/privgrad/internal/audit/verdict"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// verdictOn plays a method's game with all draws from a seed; spoil plants a fault.
func verdictOn(t *testing.T, c Config, s stage, spoil func(*testing.T, *hearing)) verdict.Verdict {
	t.Helper()
	c.Device, c.Noise, c.Threads = "cpu", dpoptim.Seeded, 2
	c.Epsilon, c.Delta = s.epsilon, s.delta
	g, err := prepareHearing(c, s)
	check(t, err)
	if spoil != nil {
		spoil(t, g)
	}
	e := verdict.NewDesign(c.Runs, g.claim)
	stats, err := g.runs(context.Background(), e.Runs()/2)
	check(t, err)
	v := e.Judge(stats, g.claim)
	t.Logf("| `%s` | %s | %d | %.3g%% (%.3g%%) | %.3g%% (%.3g%%) | %.3g%% | %.3g / %.3g | %v |", c.Optimizer, g.plan.Config.Neighbouring, c.Runs,
		100*v.FPR.Rate, 100*v.FPR.Upper, 100*v.FNR.Rate, 100*v.FNR.Upper, 100*v.Allowed, v.Epsilon, g.claim.Epsilon, v.Convicted)
	return v
}

// The noise of a question is less than what is paid for, by a factor: what is released is
// distorted, and a filter is told otherwise.
func less(q dpoptim.Question, factor float64) func(*testing.T, *hearing) {
	return func(_ *testing.T, g *hearing) {
		g.distort = func(asked dpoptim.Question, r dpoptim.Release) dpoptim.Release {
			if asked == q {
				r.Noise = scaled(r.Noise, 1/factor)
			}
			return r
		}
		for i, a := range g.plan.Declaration.Asks {
			distorted := &g.plan.Declaration.Asks[i]
			if a.At != nil {
				distorted.At = func(step int) (dpoptim.Release, error) {
					r, err := a.At(step)
					if step < g.plan.Steps-1 { // one step is enough
						return r, err
					}
					return g.distort(a.Question, r), err
				}
				continue
			}
			distorted.Release = func(multiplier float64) (dpoptim.Release, error) {
				r, err := a.Release(multiplier)
				return g.distort(a.Question, r), err
			}
		}
		charging(g, func(_ int, m accountant.Mechanism) accountant.Mechanism {
			if _, gradient := m.(accountant.Gaussian); gradient != (q == dpoptim.Gradients) {
				return m
			}
			return scaled(m, factor)
		})
	}
}

func scaled(m accountant.Mechanism, factor float64) accountant.Mechanism {
	switch n := m.(type) {
	case accountant.Gaussian:
		n.NoiseMultiplier *= factor
		return n
	case accountant.Pure:
		n.Epsilon /= factor
		return n
	case accountant.NoisyBTLS:
		n.ThresholdScale *= factor
		n.QueryScale *= factor
		return n
	case accountant.BoundedRange:
		n.Epsilon /= factor
		return n
	case accountant.ObjectivePerturbation:
		n.NoiseMultiplier *= factor
		return n
	}
	return m
}

// charging has a filter charge something else for every mechanism of a batch, nothing for nil.
func charging(g *hearing, instead func(i int, m accountant.Mechanism) accountant.Mechanism) {
	newBudget := g.newBudget
	g.newBudget = func() (accountant.Budget, error) {
		b, err := newBudget()
		return mischarging{b, instead}, err
	}
}

type mischarging struct {
	accountant.Budget
	instead func(int, accountant.Mechanism) accountant.Mechanism
}

func (b mischarging) Ask(e accountant.Event) error {
	var charged []accountant.Mechanism
	for i, m := range e.Mechanisms {
		if m = b.instead(i, m); m != nil {
			charged = append(charged, m)
		}
	}
	if e.Mechanisms = charged; len(charged) == 0 {
		return nil
	}
	return b.Budget.Ask(e)
}

// sharedCurve asks a gradient and a curve of one batch.
var sharedCurve = stage{"", 8, 1e-2, func(c *config.Config) {
	c.Clip, c.LR, c.Steps, c.SamplingRate = smallClip, new(1.0), new(10), new(0.1)
	c.Search = blsgd.Settings{
		Form: blsgd.FormCurve, Budget: blsgd.BudgetFixed, Batches: string(accountant.Shared), Every: new(1), Share: new(0.5), Clip: new(1e-6), Points: new(3),
	}
}, hear.Alone}

// pricedAs claims what other events cost, of those that are planned.
func pricedAs(relation accountant.Neighbouring, change func(accountant.Mechanism) accountant.Mechanism) func(*testing.T, *hearing) {
	return func(t *testing.T, g *hearing) {
		events, err := g.plan.Events()
		check(t, err)
		for _, e := range events {
			for i, m := range e.Mechanisms {
				e.Mechanisms[i] = change(m)
			}
		}
		if g.claim, err = verdict.NewClaim(events, accountant.Options{Accountant: g.plan.Config.Accountant, Neighbouring: relation, Delta: g.config.Delta}); err != nil {
			t.Fatal(err)
		}
	}
}

// smaller draws a fit's noise for a part of the sensitivity.
func smaller(part float64) func(*testing.T, *hearing) {
	return func(_ *testing.T, g *hearing) {
		release := g.plan.Declaration.Asks[0].Release
		g.plan.Declaration.Asks[0].Release = func(multiplier float64) (dpoptim.Release, error) {
			r, err := release(multiplier)
			r.Bound *= part
			return r, err
		}
	}
}

// bent has parameters that come where a loss is as bent as it gets, or do not.
var bent = stage{"", 1, 1e-5, asIs, func(neighbouring string) *hear.Scene {
	s := hear.Steep(neighbouring)
	s.Targets = []float64{-1, 1}
	return s
}}

// amplifiedTwice claims what a batch of two questions would cost if each were asked of a batch of
// its own.
func amplifiedTwice(t *testing.T, g *hearing) {
	events, err := g.plan.Events()
	check(t, err)
	var apart []accountant.Event
	for _, e := range events {
		for _, m := range e.Mechanisms {
			apart = append(apart, accountant.PoissonBatch(g.plan.SamplingRate, e.Count, m))
		}
	}
	o := accountant.Options{Accountant: accountant.PLD, Neighbouring: accountant.Neighbouring(g.plan.Config.Neighbouring), Delta: g.config.Delta}
	if g.claim, err = verdict.NewClaim(apart, o); err != nil {
		t.Fatal(err)
	}
}

// Every fault is in what runs, or in what is charged; the claim is that of the declaration.
var hearingFaults = []struct {
	optimizer, name string
	runs            int
	quick           bool
	stage           *stage // nil: the optimizer's
	spoil           func(*testing.T, *hearing)
}{
	{majority.Name, "noise halved", 1000, true, nil, less(dpoptim.Majority, 2)},
	{blsgd.BLSGD, "search noise halved", 4000, true, nil, less(dpoptim.Searches, 2)},
	{blsgd.BLSGD, "a shared batch amplified twice", 16_000, false, &sharedCurve, amplifiedTwice},
	{blsgd.BLSGDAC, "the filter forgets", 4000, false, &stage{"", 2, 0.05, func(c *config.Config) {
		stages[blsgd.BLSGDAC].with(c)
		c.LR = new(1e-3) // the canary's gradient stays long
	}, hear.Downhill}, func(_ *testing.T, g *hearing) {
		charging(g, func(int, accountant.Mechanism) accountant.Mechanism { return nil })
	}},
	{blsgd.BLGD, "a quarter of the search noise", 8000, false, nil, less(dpoptim.Searches, 4)},
	{blsgd.AGD, "a quarter of the minimum's noise", 16_000, false, nil, less(dpoptim.Minima, 4)},
	{l2p.Name, "norms left out of the price", 16_000, false, nil, func(_ *testing.T, g *hearing) {
		charging(g, func(i int, m accountant.Mechanism) accountant.Mechanism {
			if i > 0 {
				return nil
			}
			return m
		})
	}},
	{"outpert-gd", "sensitivity halved", 4000, true, nil, smaller(0.5)},
	{"outpert-gd", "sensitivity halved, without δ", 10_000, false, pure(stages["outpert-gd"]), smaller(0.5)},
	{"outpert-rsgd", "the sensitivity of one pass of ten", 4000, false, nil, smaller(0.1)},
	{"objpert", "a quarter of the tilt's noise", 4000, false, nil, less(dpoptim.Fits, 4)},
	{"objpert", "a hundredth of the regularizer that is paid for", 4000, false, &bent, func(_ *testing.T, g *hearing) {
		release := g.plan.Declaration.Asks[0].Release
		g.plan.Declaration.Asks[0].Release = func(multiplier float64) (dpoptim.Release, error) {
			r, err := release(multiplier)
			p, _ := r.Noise.(accountant.ObjectivePerturbation)
			p.Curvature *= 100
			r.Noise = p
			return r, err
		}
		g.solver = func(s dpoptim.Solver) dpoptim.Solver {
			m := s.(convex.Minimum)
			m.Regularization /= 100
			m.Steps *= 20
			return m
		}
	}},
	{"privgene", "ε of a round doubled", 4000, true, nil, less(dpoptim.Choices, 2)},
	{"banco", "noise halved", 4000, true, nil, less(dpoptim.Reports, 2)},
	{"banco", "a bit that is right too often", 4000, false, &onSphere, less(dpoptim.Reports, 2)},
	{"noisy-gd", "replace-one priced as add-remove", 4000, true, nil, pricedAs(accountant.AddRemove, unchanged)},
	{"pur-a", "noise of the last step halved", 4000, false, nil, less(dpoptim.Gradients, 2)},
	{"pur-b", "a quarter of the noise of the last step", 4000, false, nil, less(dpoptim.Gradients, 4)},
	{"pur-c", "noise of the last step halved", 16_000, false, nil, less(dpoptim.Gradients, 2)},
	{"pur-constant", "noise of the last step halved", 16_000, false, nil, less(dpoptim.Gradients, 2)},
	{"rrpsgd", "noise halved", 4000, true, nil, less(dpoptim.Gradients, 2)},
	{"bassily-sgd", "a tenth of the noise of the last step", 16_000, false, nil, less(dpoptim.Gradients, 10)},
}

// pure is a stage without δ.
func pure(s stage) *stage {
	s.delta = 0
	return &s
}

// onSphere has reports on a sphere.
var onSphere = stage{"", 2, 0, func(c *config.Config) { c.Local.Noise = local.Hemisphere }, hear.Steep}

func unchanged(m accountant.Mechanism) accountant.Mechanism { return m }

// TestHeardFaults: each must be convicted. Seeds are fixed.
func TestHeardFaults(t *testing.T)     { hearFaults(t, true) }
func TestLongHeardFaults(t *testing.T) { hearFaults(t, false) }

func hearFaults(t *testing.T, quick bool) {
	for _, f := range hearingFaults {
		if f.quick != quick {
			continue
		}
		t.Run(f.optimizer+", "+f.name, func(t *testing.T) {
			c := Default()
			c.Optimizer, c.Runs, c.Accountant, c.Neighbouring = f.optimizer, f.runs, "", ""
			s := stages[f.optimizer]
			if f.stage != nil {
				s = *f.stage
			}
			if v := verdictOn(t, c, s, f.spoil); !v.Convicted {
				t.Error("not convicted")
			}
		})
	}
}

// TestHeardCorrect: none may be convicted. A correct one is with probability 0.002 at most each,
// were the seeds drawn anew; they are fixed.
func TestHeardCorrect(t *testing.T) { hearCorrect(t, 160, "") }
func TestLongHeardCorrect(t *testing.T) {
	hearCorrect(t, 16_000, accountant.AddRemove, accountant.ReplaceOne)
}

func hearCorrect(t *testing.T, runs int, relations ...accountant.Neighbouring) {
	for name, s := range stages {
		for _, relation := range relations {
			if (name == local.Banco || name == "rrpsgd") && relation == accountant.AddRemove {
				continue // local privacy is about replacing, and so are batches of a fixed size
			}
			t.Run(name+", "+string(relation), func(t *testing.T) {
				c := Default()
				c.Optimizer, c.Neighbouring, c.Runs, c.Accountant = name, string(relation), runs, ""
				if verdictOn(t, c, s, nil).Convicted {
					t.Error("convicted")
				}
			})
		}
	}
}

// Every row of the table is an optimizer's, and every private optimizer without a row asks for
// gradients alone.
func TestStages(t *testing.T) {
	for name := range stages {
		if config.CheckOptimizer(name) != nil {
			t.Errorf("%s is no optimizer", name)
		}
	}
	for _, o := range Optimizers() {
		if o.Hears != OnlyGradients {
			continue
		}
		c := Default()
		c.Optimizer = o.Name
		p, err := c.resolve()
		check(t, err)
		if asks := p.Declaration.Asks; len(asks) != 1 || asks[0].Question != dpoptim.Gradients || p.Filtered() {
			t.Errorf("optimizer %s asks for %v, of which an audit hears the gradients alone", o.Name, asks)
		}
	}
}

// A choice is a mechanism's index for counts of (1, 0) or of (0, 1): utilities that a record may move
// by 1 each, one up and the other down.
type choice struct {
	choose func(labels []uint8, draw uint64) (int, error)
	draw   uint64
}

func (c *choice) Close() {}

func (c *choice) Run(world int) (float64, error) {
	c.draw++
	i, err := c.choose([]uint8{uint8(world)}, c.draw)
	return float64(i), err
}

// The price of a bounded range is right for the exponential mechanism, and too low for
// permute-and-flip with the same exponent, whose privacy losses have a larger range: 1.66 for 1.
func TestPermuteAndFlipIsNoBoundedRange(t *testing.T) {
	const epsilon, runs = 1.0, 4000
	events := []accountant.Event{{Mechanisms: []accountant.Mechanism{accountant.BoundedRange{Epsilon: epsilon}}, Count: 1}}
	k, err := verdict.NewClaim(events, accountant.Options{Accountant: accountant.PLD, Neighbouring: accountant.AddRemove, Delta: 1e-9})
	check(t, err)
	newStream := func(lane int) *stream.Stream {
		s, err := stream.New(stream.ChaCha20, stream.KeyFromSeed(uint64(lane), "choices"))
		check(t, err)
		return s
	}
	for name, x := range map[string]struct {
		convicted bool
		choose    func(lane int) func([]uint8, uint64) (int, error)
	}{
		"exponential mechanism": {false, func(lane int) func([]uint8, uint64) (int, error) {
			m, err := mechanism.NewExponential(epsilon, 1, newStream(lane), 0)
			check(t, err)
			return func(labels []uint8, draw uint64) (int, error) {
				return m.Select([]int64{int64(1 - labels[0]), int64(labels[0])}, draw)
			}
		}},
		"permute and flip": {true, func(lane int) func([]uint8, uint64) (int, error) {
			m, err := mechanism.NewNoisyMax(epsilon/2, newStream(lane), 0)
			check(t, err)
			return func(labels []uint8, draw uint64) (int, error) { return m.Select(device.CountLabels(labels, 2), draw) }
		}},
	} {
		e := verdict.NewDesign(runs, k)
		stats, err := play.Runs(context.Background(), 2, e.Runs()/2, nil, func(lane int) (play.Player, error) { return &choice{choose: x.choose(lane)}, nil })
		check(t, err)
		v := e.Judge(stats, k)
		t.Logf("%s: ε ≥ %.3g of %.3g, %+v", name, v.Epsilon, k.Epsilon, v)
		if v.Convicted != x.convicted {
			t.Errorf("%s: convicted is %v", name, v.Convicted)
		}
	}
}
