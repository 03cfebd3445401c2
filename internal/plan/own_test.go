package plan

import (
	"math"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/config"
)

// own is a method of a user's own that says only what it asks.
type own struct {
	dpoptim.NoSettings
	traits   dpoptim.Traits
	declared dpoptim.Declaration
}

func (o own) Traits() dpoptim.Traits { return o.traits }
func (o own) Declare(dpoptim.Settings, dpoptim.Facts) (dpoptim.Declaration, error) {
	return o.declared, nil
}
func (o own) Complete(c dpoptim.Settings, _ dpoptim.Network) (dpoptim.Settings, dpoptim.Notes, error) {
	if o.traits.Once {
		c.Steps, c.SamplingRate = ptr(1), ptr(1.0)
	}
	return c, dpoptim.Notes{}, nil
}
func (own) Open(dpoptim.Engine) (dpoptim.Steps, error) { return nil, nil }

func private(b dpoptim.Budget, asks ...dpoptim.Ask) own {
	return own{traits: dpoptim.Traits{Name: "own", Private: true}, declared: dpoptim.Declaration{Budget: b, Asks: asks}}
}

// sumOf asks for a sum with a share of the planned multiplier.
func sumOf(share float64) dpoptim.Ask {
	return dpoptim.Ask{Question: dpoptim.Gradients, Release: func(multiplier float64) (dpoptim.Release, error) {
		return dpoptim.GaussianSum(1).Release(share * multiplier)
	}}
}

func resolveOwn(c config.Config, o own) (*Plan, error) {
	return Resolve(c, Options{Sources: sources(made(1, 400)), Method: o})
}

// A single question is priced by the noise that it declares, not by the planned one.
func TestOwnNoiseIsPriced(t *testing.T) {
	for _, share := range []float64{1, 0.5} {
		c := small()
		c.NoiseMultiplier = ptr(2.0)
		p, err := resolveOwn(c, private(dpoptim.Committed, sumOf(share)))
		check(t, err)
		want, err := accountant.Account([]accountant.Event{accountant.PoissonBatch(p.SamplingRate, p.Steps, accountant.Gaussian{NoiseMultiplier: 2 * share})},
			accountant.Options{Accountant: p.Config.Accountant, Neighbouring: accountant.Neighbouring(p.Config.Neighbouring), Delta: *p.Config.Delta})
		check(t, err)
		if got := *p.Epsilon; math.Abs(got-want.Epsilon) > 1e-6*want.Epsilon {
			t.Errorf("%v of the multiplier: ε %v, want %v", share, got, want.Epsilon)
		}
	}
}

func pure(epsilon float64) own {
	return own{
		traits: dpoptim.Traits{Name: "own", Private: true, Pure: true, Once: true},
		declared: dpoptim.Declaration{Asks: []dpoptim.Ask{{Question: dpoptim.Majority, Release: func(float64) (dpoptim.Release, error) {
			return dpoptim.Release{Noise: accountant.Pure{Epsilon: epsilon}, Bound: 1}, nil
		}}}},
	}
}

// pureConfig is a configuration for one pure release of ε = 1.
func pureConfig() config.Config {
	c := config.Default()
	c.Data, c.Classes, c.Model, c.Threads = "made", []int{0, 1}, "logistic", 1
	c.Epsilon = ptr(1.0)
	return c
}

func TestOwnIsRefused(t *testing.T) {
	budget := func(c *config.Config) { c.NoiseMultiplier, c.Epsilon, c.Accountant = nil, ptr(1.0), accountant.RDP }
	admitted := private(dpoptim.Admitted, sumOf(1))
	several := pure(1)
	several.traits.Once = false
	for name, test := range map[string]struct {
		method own
		set    func(*config.Config) // over small()
		want   string               // "" where it is allowed
	}{
		"no noise":                     {private(dpoptim.Committed, sumOf(0)), func(*config.Config) {}, "declares a gradient without noise"},
		"pure":                         {pure(1), func(c *config.Config) { *c = pureConfig() }, ""},
		"pure, of half, replaced":      {pure(0.5), func(c *config.Config) { *c = pureConfig(); c.Neighbouring = string(accountant.ReplaceOne) }, ""},
		"pure, of more, replaced":      {pure(1), func(c *config.Config) { *c = pureConfig(); c.Neighbouring = string(accountant.ReplaceOne) }, "of ε = 2 together, and was allowed 1"},
		"pure, of more":                {pure(2), func(c *config.Config) { *c = pureConfig() }, "declares 1 releases of ε = 2 together, and was allowed 1"},
		"pure, in steps":               {several, func(c *config.Config) { budget(c); c.Steps = ptr(50) }, "declares 50 releases"},
		"filtered":                     {admitted, budget, ""},
		"filtered, adaptive clipping":  {admitted, func(c *config.Config) { budget(c); c.Clipping = "adaptive" }, "--clipping flat"},
		"filtered, train loss":         {admitted, func(c *config.Config) { budget(c); c.TrainLossNoise = ptr(5.0) }, "leave out --train-loss-noise"},
		"filtered, a noise multiplier": {admitted, func(c *config.Config) { c.Accountant = accountant.RDP }, "give --epsilon"},
	} {
		c := small()
		test.set(&c)
		_, err := resolveOwn(c, test.method)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Another declaration is another run, and none of it is that of a built-in method.
func TestOwnFingerprint(t *testing.T) {
	named := private(dpoptim.Committed, sumOf(1))
	named.traits.Name = "dp-sgd"
	seen := map[string]string{}
	for name, m := range map[string]*own{"built in": nil, "one ask": &named,
		"half the noise": {traits: named.traits, declared: private(dpoptim.Committed, sumOf(0.5)).declared},
		"norms": {traits: named.traits, declared: private(dpoptim.Committed, sumOf(1),
			dpoptim.Ask{Question: dpoptim.Norms, Batch: dpoptim.OfSum, Release: sumOf(1).Release}).declared},
	} {
		c, o := small(), Options{Sources: sources(made(1, 400))}
		c.Optimizer = "dp-sgd"
		if m != nil {
			o.Method = *m
		}
		p, err := Resolve(c, o)
		check(t, err)
		if other := seen[p.Fingerprint]; other != "" {
			t.Errorf("%s is taken for %s", name, other)
		}
		seen[p.Fingerprint] = name
	}
}
