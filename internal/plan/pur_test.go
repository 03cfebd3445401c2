package plan

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/papers"
	"github.com/privgrad/privgrad/internal/source"
)

// onAll is a run of a method for convex losses on a table of seven features, whose bounds are public.
func onAll(t *testing.T, optimizer string, set func(*config.Config)) config.Config {
	t.Helper()
	c := config.Default()
	c.Data, c.PublicN, c.Delta, c.Threads = source.TablePrefix+"t.csv", ptr(5000), ptr(1e-5), 1
	c.Model, c.Optimizer, c.L2, c.Epsilon = "logistic", optimizer, 0.02, ptr(1.0)
	if optimizer == "pur-b" || optimizer == "bassily-sgd" {
		c.Radius = ptr(3.0)
	}
	if optimizer == "pur-constant" {
		c.PUR.Sigma = ptr(0.01)
	}
	if set != nil {
		set(&c)
	}
	return c
}

// gaussianDelta is δ at ε of one Gaussian of μ, by quadrature over its privacy loss.
func gaussianDelta(mu, epsilon float64) (delta float64) {
	const n = 200_000
	h := 18 * mu / n
	for i := range n {
		if loss := mu*mu/2 - 9*mu + (float64(i)+0.5)*h; loss > epsilon {
			z := (loss - mu*mu/2) / mu
			delta += h / mu * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) * -math.Expm1(epsilon-loss)
		}
	}
	return delta
}

// What a planned run draws is what package papers plans: the costs of its noise multipliers add up to the
// stated ρ, its ε is exactly that of one Gaussian, and one step more would be too many.
func TestPURPrice(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	for _, name := range []string{"pur-a", "pur-b", "pur-c", "pur-constant"} {
		for _, relation := range []string{"", "add-remove"} {
			for _, k := range []*float64{nil, ptr(2.0)} {
				if name == "pur-constant" && k != nil {
					continue
				}
				c := onAll(t, name, func(c *config.Config) {
					if c.PUR.K = k; relation != "" {
						c.Relate(accountant.Neighbouring(relation))
					}
				})
				p, err := Resolve(c, Options{Device: reference.Open()})
				check(t, err)
				l := math.Sqrt2 // features of norm 1, and the intercept
				q := papers.Problem{
					Records: 5000, Dim: p.Facts.Params, Lipschitz: l, Smoothness: 0.5 + 0.02, StrongConvexity: 0.02,
					InitialGap: math.Ln2, Radius: 3, Sigma: 0.01,
				}
				moves := 2.0
				if relation != "" {
					q.Lipschitz, moves = l/2, 1
				} else if p.Config.Neighbouring != "replace-one" || p.Config.Accountant != accountant.GDP {
					t.Errorf("%s is for %s by %s", name, p.Config.Neighbouring, p.Config.Accountant)
				}
				if k != nil {
					q.K = *k
				}
				budget, err := papers.GaussianBudget(1, 1e-5)
				check(t, err)
				s, err := papers.NewPUR(papers.PURKind(strings.TrimPrefix(name, "pur-")), q, budget)
				check(t, err)
				spent := 0.0
				for i := range p.Steps {
					r, err := p.Declaration.Asks[0].At(i)
					check(t, err)
					z := r.Noise.(accountant.Gaussian).NoiseMultiplier
					if want := s.Sigma(i) * 5000 / l; math.Abs(z/want-1) > 1e-15 || r.Bound != l {
						t.Fatalf("%s: step %d has a noise multiplier of %v at %v, want %v", name, i, z, r.Bound, want)
					}
					spent += moves * moves / (2 * z * z)
				}
				if p.Steps != s.Steps || math.Abs(spent/s.Spent-1) > 1e-12 || *p.Config.Steps != s.Steps || math.Abs(*p.Config.LR/s.LearningRate-1) > 1e-15 {
					t.Errorf("%s under %s: %d steps spend %v, want %d and %v", name, relation, p.Steps, spent, s.Steps, s.Spent)
				}
				if *p.Epsilon > 1 || math.Abs(gaussianDelta(math.Sqrt(2*spent), *p.Epsilon)/1e-5-1) > 1e-4 {
					t.Errorf("%s under %s: ε = %v has δ = %v", name, relation, *p.Epsilon, gaussianDelta(math.Sqrt(2*spent), *p.Epsilon))
				}
				if _, err := Resolve(onAll(t, name, func(c *config.Config) { *c = p.Config; c.Steps = ptr(s.Steps + 1) }), Options{Device: reference.Open()}); !errors.Is(err, accountant.ErrBudget) {
					t.Errorf("%s: one step more: %v", name, err)
				}
				again, err := Resolve(p.Config, Options{Device: reference.Open()})
				check(t, err)
				if again.Fingerprint != p.Fingerprint || *again.Epsilon != *p.Epsilon {
					t.Errorf("%s: its own configuration gives another run", name)
				}
			}
		}
	}
}

// A budget in zCDP pays for the same, and ε follows.
func TestPURByRho(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	p, err := Resolve(onAll(t, "pur-c", func(c *config.Config) { c.Epsilon, c.PUR.Rho = nil, ptr(0.02) }), Options{Device: reference.Open()})
	check(t, err)
	events, err := p.Events()
	check(t, err)
	spent := 0.0
	for _, e := range events {
		z := e.Mechanisms[0].(accountant.Gaussian).NoiseMultiplier
		spent += float64(e.Count) * 2 / (z * z)
	}
	if spent > 0.02 || spent < 0.019 || math.Abs(gaussianDelta(math.Sqrt(2*spent), *p.Epsilon)/1e-5-1) > 1e-4 {
		t.Errorf("%d steps spend %v of 0.02, ε = %v", p.Steps, spent, *p.Epsilon)
	}
}

// The noise of noisy-gd is that of one Gaussian over its steps, whose number is near
// the least of the public bound.
func TestNoisyGD(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	for _, l2 := range []float64{0, 0.02} {
		p, err := Resolve(onAll(t, "noisy-gd", func(c *config.Config) { c.L2, c.CountRecords = l2, new(false) }), Options{Device: reference.Open()})
		check(t, err)
		steps := float64(p.Steps)
		if got := gaussianDelta(2*math.Sqrt(steps)/p.Sigma, 1); math.Abs(got/1e-5-1) > 1e-4 || *p.Epsilon > 1 || p.Config.Clip != math.Sqrt2 || math.Abs(*p.Config.LR*(0.5+l2)-1) > 1e-12 {
			t.Errorf("%v steps of noise multiplier %v: δ = %v at ε = 1", steps, p.Sigma, got)
		}
		bound := func(t float64) float64 { // on the excess after t steps, in the terms of docs/proofs/pur.md
			sigma := p.Sigma * math.Sqrt(t/steps) * math.Sqrt2 / 5000
			noise, m := float64(p.Facts.Params)*sigma*sigma, 0.5+l2
			if l2 == 0 {
				return m*100/(2*t) + noise/m
			}
			f, floor := math.Ln2, 0.0
			for range int(t) {
				f, floor = f*(1-l2/m), floor*(1-l2/m)+noise/(2*m)
			}
			return f + floor
		}
		if best := bound(steps); best > bound(steps-1) || best > bound(steps+1) || steps < 10 {
			t.Errorf("λ = %v: after %v steps the bound is %v, one before %v, one behind %v", l2, steps, best, bound(steps-1), bound(steps+1))
		}
	}
}

// bassily-sgd draws the published noise, and costs less than was asked for.
func TestBassily(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	p, err := Resolve(onAll(t, "bassily-sgd", func(c *config.Config) { c.L2 = 0 }), Options{Device: reference.Open()})
	check(t, err)
	z := math.Sqrt(32 * math.Log(5000/1e-5) * math.Log(1e5))
	if p.Steps != 10000 || math.Abs(p.ExpectedBatch-50) > 1e-9 || math.Abs(p.Sigma/z-1) > 1e-12 || !(*p.Epsilon < 0.2) || !(*p.Epsilon > 0.005) {
		t.Errorf("%d steps of %v records at noise multiplier %v cost ε = %v", p.Steps, p.ExpectedBatch, p.Sigma, *p.Epsilon)
	}
	direct, err := accountant.Account([]accountant.Event{accountant.PoissonBatch(0.01, 10000, accountant.Gaussian{NoiseMultiplier: p.Sigma})},
		accountant.Options{Accountant: accountant.PRV, Neighbouring: accountant.ReplaceOne, Delta: 1e-5})
	check(t, err)
	if math.Abs(direct.Epsilon / *p.Epsilon - 1) > 0.03 {
		t.Errorf("ε = %v, by prv %v", *p.Epsilon, direct.Epsilon)
	}
	noise := float64(p.Facts.Params) * math.Pow(z*math.Sqrt2/50, 2)
	if want := 2 * 3 / math.Sqrt(2+noise); math.Abs(*p.Config.LR/want-1) > 1e-12 {
		t.Errorf("the first step size is %v, want %v", *p.Config.LR, want)
	}
}

// Methods for convex losses say what they cannot do, and why.
func TestConvexRefusals(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	for _, c := range []struct {
		optimizer string
		set       func(*config.Config)
		want      string
	}{
		{"pur-a", func(c *config.Config) { c.Model = "svm" }, "kink"},
		{"noisy-gd", func(c *config.Config) { c.Model = "svm" }, "use --model logistic, huber-svm"},
		{"pur-b", func(c *config.Config) { c.Radius = nil }, "--radius"},
		{"pur-c", func(c *config.Config) { c.L2 = 0 }, "give --l2"},
		{"pur-c", func(c *config.Config) { c.Clip = 3 }, "leave --clip out"},
		{"pur-c", func(c *config.Config) { c.Momentum = 0.5 }, "momentum 0.5"},
		{"pur-c", func(c *config.Config) { c.Batch = ptr(10.0) }, "all records"},
		{"pur-c", func(c *config.Config) { c.Epochs = ptr(10.0) }, "all records"},
		{"pur-c", func(c *config.Config) { c.Clipping = "per-layer" }, "clipping per-layer"},
		{"pur-c", func(c *config.Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(1.0) }, "give --epsilon or --rho"},
		{"pur-c", func(c *config.Config) { c.PUR.Rho = ptr(1.0) }, "rho 1 and epsilon 1: both are the budget"},
		{"pur-c", func(c *config.Config) { c.Accountant = "rdp" }, "accountant rdp"},
		{"pur-c", func(c *config.Config) { c.Epsilon = ptr(0.001) }, "does not pay for one step"},
		{"pur-c", func(c *config.Config) { c.PUR.Sigma = ptr(1.0) }, "use --optimizer pur-constant"},
		{"pur-constant", func(c *config.Config) { c.PUR.Sigma = nil }, "--pur-sigma"},
		{"pur-constant", func(c *config.Config) { c.PUR.K = ptr(2.0) }, "pur_k 2"},
		{"pur-constant", func(c *config.Config) { c.PUR.Sigma = ptr(20.0) }, "give fewer by --steps"},
		{"noisy-gd", func(c *config.Config) { c.PUR.Rho = ptr(1.0) }, "rho 1"},
		{"noisy-gd", func(c *config.Config) { c.PUR.K = ptr(1.0) }, "pur_k 1"},
		{"pur-oracle", nil, "use --optimizer pur-c or noisy-gd"},
		{"pur-b", func(c *config.Config) { c.Radius = ptr(1e30) }, "radius 1e+30: must be in"},
		{"pur-b", func(c *config.Config) { c.Radius = ptr(1e9) }, "optimizer pur-b at feature-norm 1 and radius 1e+09: the budget pays for more than"},
		{"pur-c", func(c *config.Config) { c.FeatureNorm = ptr(1e10) }, "at feature-norm 1e+10"},
		{"pur-constant", func(c *config.Config) { c.PUR.Sigma, c.Steps = ptr(1e6), ptr(1_000_000_000) }, "1000000 steps at most"},
		{"outpert-gd", func(c *config.Config) { c.Radius, c.L2 = ptr(1e12), 0 }, "--radius or --feature-norm"},
		{"outpert-gd", func(c *config.Config) { c.Clip = 2 }, "clip norm 2: optimizer outpert-gd clips no gradients"},
		{"outpert-gd", func(c *config.Config) { c.PrivateDiagnostics = true }, "private-diagnostics: optimizer outpert-gd"},
		{"objpert", func(c *config.Config) { c.Clip = 3 }, "clip norm 3: optimizer objpert clips no gradients"},
		{"objpert", func(c *config.Config) { c.Radius = ptr(3.0) }, "radius 3: optimizer objpert does not read it"},
		{"privgene", func(c *config.Config) { c.Clip = 3 }, "clip norm 3: optimizer privgene clips no gradients"},
		{"privgene", func(c *config.Config) { c.LR = ptr(1e300) }, "single precision ends"},
		{"privgene", func(c *config.Config) { c.Model = "svm" }, "is written for the losses of --model logistic"},
		{"bassily-sgd", func(c *config.Config) { c.Radius, c.L2 = nil, 0 }, "--radius"},
		{"bassily-sgd", func(c *config.Config) { c.Steps, c.Accountant = ptr(1_000_000_000), accountant.RDP }, "lower --steps"},
		{"bassily-sgd", func(c *config.Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(1.0) }, "published one"},
		{"dp-sgd", func(c *config.Config) { c.Radius = ptr(1.0) }, "radius 1: optimizer dp-sgd does not read it"},
		{"dp-sgd", func(c *config.Config) { c.Epsilon, c.PUR.Rho = nil, ptr(1.0) }, "rho 1: optimizer dp-sgd does not read it"},
	} {
		_, err := Resolve(onAll(t, c.optimizer, c.set), Options{Device: reference.Open()})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.optimizer, err, c.want)
		}
	}
	for _, name := range []string{"pur-a", "pur-b", "bassily-sgd"} { // a network is refused before a radius is asked for
		c, images := small(), made(1, 0)
		c.Optimizer, c.Model, c.Batch, c.LR, c.NoiseMultiplier, c.Epsilon = name, "mlp-small", nil, nil, nil, ptr(1.0)
		images.Train, images.Test = datasets.Split{Shape: [3]int{1, 28, 28}}, datasets.Split{Shape: [3]int{1, 28, 28}}
		if _, err := Resolve(c, Options{Device: reference.Open(), Sources: sources(images)}); err == nil || !strings.Contains(err.Error(), "no linear model") {
			t.Errorf("%s, a network: %v", name, err)
		}
	}
}

// The oracle has no guarantee and says so.
func TestOracleIsNotPrivate(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	p, err := Resolve(onAll(t, "pur-oracle", func(c *config.Config) { c.Epsilon, c.PUR.K = nil, ptr(2.0) }), Options{Device: reference.Open()})
	check(t, err)
	if len(p.Guarantee.NoGuarantee) == 0 || p.Epsilon != nil || p.Steps != 100 || math.Abs(*p.Config.LR*0.52*5-1) > 1e-12 || !strings.Contains(strings.Join(p.Warnings, " "), "NOT PRIVATE") {
		t.Errorf("%d steps at ε = %v: %q, %q", p.Steps, p.Epsilon, p.Guarantee.NoGuarantee, p.Warnings)
	}
	if from := p.DefaultsFrom; from != dpoptim.FromBounds {
		t.Errorf("the defaults are from %s", from)
	}
}

// Where all steps have one noise it is told, and its price needs no walk over them; schedules have none.
func TestOneNoise(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	for name, want := range map[string]bool{"pur-constant": true, "bassily-sgd": true, "noisy-gd": true, "objpert": true, "pur-a": false, "pur-c": false} {
		p, err := Resolve(onAll(t, name, func(c *config.Config) {
			if name == "bassily-sgd" {
				c.Accountant = accountant.RDP
			}
		}), Options{Device: reference.Open()})
		check(t, err)
		z := p.NoiseMultiplier()
		if (z != nil) != want || want && !(*z > 0) {
			t.Errorf("the noise multiplier of %s is %v", name, z)
		}
		if full := p.Kind.Name == "full"; full != (name != "bassily-sgd") {
			t.Errorf("batches of %s are %s", name, p.Kind.Name)
		}
	}
	p, err := Resolve(onAll(t, "bassily-sgd", func(c *config.Config) {
		c.PublicN, c.Delta, c.Steps, c.Accountant = ptr(5_000_000), ptr(1e-8), ptr(1_000_000_000), accountant.RDP
	}), Options{Device: reference.Open()})
	check(t, err)
	events, err := p.Events()
	check(t, err)
	if len(events) != 1 || events[0].Count != 1_000_000_000 || events[0].Mechanisms[0] != accountant.Mechanism(accountant.Gaussian{NoiseMultiplier: *p.NoiseMultiplier()}) {
		t.Errorf("the events are %+v", events)
	}
}

// Runs whose epochs are single steps are evaluated twenty times at most, and at the end.
func TestFullBatchEvaluations(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	for steps, want := range map[int]int{1: 1, 20: 20, 21: 11, 1045: 20} {
		p, err := Resolve(onAll(t, "noisy-gd", func(c *config.Config) { c.Steps = ptr(steps) }), Options{Device: reference.Open()})
		check(t, err)
		made := 0
		for n := range steps {
			if p.Evaluates(n + 1) {
				made++
			}
		}
		if made != want || p.Evaluations(steps) != want || !p.Evaluates(steps) {
			t.Errorf("of %d steps %d are evaluated, and %d are said to be; want %d", steps, made, p.Evaluations(steps), want)
		}
	}
	p, err := Resolve(onAll(t, "noisy-gd", func(c *config.Config) { c.Steps, c.EvalEvery = ptr(100), 1 }), Options{Device: reference.Open()})
	check(t, err)
	if p.Evaluations(100) != 100 {
		t.Errorf("%d evaluations where all were asked for", p.Evaluations(100))
	}
}

// Steps too large to lead to the minimum are warned of, and others are not.
func TestLargeRates(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	for _, c := range []struct {
		optimizer string
		lr        float64
		want      bool
	}{{"pur-a", 1e6, true}, {"noisy-gd", 4, true}, {"noisy-gd", 3.8, false}, {"privgene", 1e6, true}, {"privgene", 0.5, false}} {
		p, err := Resolve(onAll(t, c.optimizer, func(x *config.Config) {
			if x.LR = &c.lr; c.optimizer == "privgene" {
				x.Accountant = accountant.RDP
			}
		}), Options{Device: reference.Open()})
		check(t, err)
		if got := strings.Contains(strings.Join(p.Warnings, "\n"), "learning rate"); got != c.want {
			t.Errorf("%s at %v: %q", c.optimizer, c.lr, p.Warnings)
		}
	}
}

// The published form of objpert shows what its noise costs, and nothing that is published stands beside it as a promise.
func TestPublishedObjpert(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	p, err := Resolve(onAll(t, "objpert", func(c *config.Config) { c.Objpert.Form = "paper" }), Options{Device: reference.Open()})
	check(t, err)
	if why := strings.Join(p.Guarantee.NoGuarantee, "\n"); strings.Contains(why, "published") || !strings.Contains(strings.Join(p.Warnings, "\n"), "is shown as ε") || *p.Epsilon == 1 || p.NoiseMultiplier() == nil {
		t.Errorf("ε = %v: %q, %q", *p.Epsilon, why, p.Warnings)
	}
}
