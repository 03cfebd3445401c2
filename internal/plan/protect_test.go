package plan

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/price"
)

// protectors are paths of those of random weights: identity, projector, scheduler or
// both, by what is learned in it.
var protectors = map[string]string{}

func init() {
	for _, name := range []string{"identity", "projector", "scheduler", "both"} {
		protectors[name], _ = filepath.Abs("../../train/testdata/" + name + ".safetensors")
	}
}

// protected chooses optimizer l2p; a schedule needs a budget to spend.
func protected(name string) func(*config.Config) {
	return func(c *config.Config) {
		c.Optimizer, c.L2P.Protector, c.LR = l2p.Name, protectors[name], nil
		if name == "scheduler" || name == "identity" {
			c.LR = ptr(0.5)
		}
		if name == "scheduler" || name == "both" {
			c.NoiseMultiplier, c.Epsilon = nil, ptr(2.0)
		}
	}
}

// paperAccounting is the paper's: constrained truncated concentrated privacy of batches
// of a fixed size.
func paperAccounting(c *config.Config) {
	protected("both")(c)
	c.Accountant, c.Neighbouring, c.Batch, c.Epsilon = accountant.CTCDP, "replace-one", ptr(12.0), ptr(0.8)
}

// oneStep is what a step asks at a noise multiplier.
func oneStep(t *testing.T, p *Plan, multiplier float64) accountant.Event {
	t.Helper()
	var prices []accountant.Mechanism
	for _, a := range p.Declaration.Asks {
		r, err := a.Release(multiplier)
		check(t, err)
		prices = append(prices, r.Noise)
	}
	return p.BatchEvent(prices...)
}

// knowing is the plan of a configuration as far as its protector has a say.
func knowing(t *testing.T, c config.Config) *Plan {
	t.Helper()
	p := &Plan{Config: c, Price: price.Price{Noisy: true, Epsilon: ptr(1.0)}}
	p.Method = p.Config.Method()
	check(t, p.complete())
	return p
}

// The planned noise spends the budget in the planned steps, the least in one.
func TestPlannedNoise(t *testing.T) {
	for _, set := range []func(*config.Config){protected("both"), paperAccounting, func(c *config.Config) { protected("both")(c); c.L2P.NormNoise = ptr(9.0) }} {
		c := small()
		set(&c)
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		for _, x := range []struct {
			multiplier float64
			steps      int
		}{{p.Facts.Planned, p.Steps}, {p.Facts.Least, 1}} {
			admitted := func(multiplier float64) (n int) {
				b, err := p.NewBudget()
				check(t, err)
				for n < 10*x.steps && b.Ask(oneStep(t, p, multiplier)) == nil {
					n++
				}
				return n
			}
			if more, fewer := admitted(x.multiplier*(1+1e-6)), admitted(x.multiplier*(1-1e-6)); more < x.steps || fewer >= x.steps {
				t.Errorf("%s: noise multiplier %v admits %d steps and just below it %d, %d are planned", p.Config.Accountant, x.multiplier, more, fewer, x.steps)
			}
		}
	}
}

// A file of a user's own is an assumption, a shipped protector is not.
func TestProtectorFileIsAnAssumption(t *testing.T) {
	for name, assumed := range map[string]bool{protectors["projector"]: true, "mnist": false} {
		c := small()
		protected("projector")(&c)
		c.L2P.Protector = name
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		if slices.Contains(p.Assumptions(), "protector_file_is_public") != assumed {
			t.Errorf("%s: assumptions %v", name, p.Assumptions())
		}
	}
}

// A norm is charged with the sum of its batch: both are one event, of Poisson batches and
// of subsets, and leave less of the budget for the steps.
func TestNormIsCharged(t *testing.T) {
	for name, set := range map[string]func(*config.Config){"poisson": protected("both"), "subsets": paperAccounting} {
		c := small()
		set(&c)
		without, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		c.L2P.NormNoise = ptr(50.0)
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		want := accountant.PoissonBatch(p.SamplingRate, 1, accountant.Gaussian{NoiseMultiplier: 20}, accountant.Gaussian{NoiseMultiplier: 50})
		if name == "subsets" {
			want.Sampling = accountant.FixedSize
		}
		if got := oneStep(t, p, 20); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: a step asks for %+v, want %+v", name, got, want)
		}
		if !(p.Facts.Planned > without.Facts.Planned) {
			t.Errorf("%s: %v is planned with norms and %v without", name, p.Facts.Planned, without.Facts.Planned)
		}
	}
}

// Subsets by choice are under replace-one, and priced by the default accountant where the noise is
// committed, and by Rényi's filter where it is scheduled; all that is drawn is a subset.
func TestChosenSubsets(t *testing.T) {
	for _, name := range []string{"identity", "scheduler"} {
		c := small()
		protected(name)(&c)
		c.Sampling, c.Batch = batches.Subsets.Name, ptr(12.0)
		if name == "identity" {
			c.NoiseMultiplier, c.Epsilon, c.TrainLossNoise = nil, ptr(2.0), ptr(9.0)
		}
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		want := accountant.PLD
		if name == "scheduler" {
			want = accountant.RDP
		}
		if p.Config.Neighbouring != string(accountant.ReplaceOne) || p.Config.Accountant != want || p.Kind.Name != batches.Subsets.Name {
			t.Errorf("%s: %s, by %s, on %s batches", name, p.Config.Neighbouring, p.Config.Accountant, p.Kind.Name)
		}
		if name == "scheduler" {
			if e := oneStep(t, p, 20); e.Sampling != accountant.FixedSize {
				t.Errorf("a step asks for %+v", e)
			}
			continue
		}
		events, err := p.Events()
		check(t, err)
		for _, e := range events {
			if e.Sampling != accountant.FixedSize || e.Rate != 12/float64(p.PublicN) {
				t.Errorf("charged is %+v", e)
			}
		}
		r, err := accountant.Account(events, accountant.Options{Accountant: want, Neighbouring: accountant.ReplaceOne, Delta: *p.Config.Delta})
		check(t, err)
		if len(events) != 2 || r.Epsilon != *p.Epsilon {
			t.Errorf("ε is %v, of %d events %v", *p.Epsilon, len(events), r.Epsilon)
		}
	}
}

// A run on records that trained its protector guarantees nothing, and says why.
func TestProtectorKnowsTheData(t *testing.T) {
	for _, test := range []struct {
		data    string
		classes []int
		says    bool
	}{
		{"mnist", nil, true}, {"mnist", []int{4, 9}, true}, {"mnist", []int{3, 5}, false}, {"fmnist", nil, false}, {"made", []int{4, 6}, false},
	} {
		c := config.Default()
		c.Optimizer, c.L2P.Protector, c.Data, c.Classes = l2p.Name, protectors["identity"], test.data, test.classes
		why := knowing(t, c).reasons()
		if said := len(why) == 1 && strings.Contains(why[0], "trained on records of mnist"); said != test.says || !said && len(why) != 0 {
			t.Errorf("%s %v: %v", test.data, test.classes, why)
		}
	}
}

// Settings that go with no protector, or that a schedule has no room for.
func TestProtectorSettings(t *testing.T) {
	for want, set := range map[string]func(*config.Config){
		"needs a protector":                               func(c *config.Config) { c.L2P.Protector = "" },
		"unknown protector":                               func(c *config.Config) { c.L2P.Protector = "nobody" },
		"optimizer dp-sgd does not read it":               func(c *config.Config) { c.Optimizer = "dp-sgd" },
		"norm_noise 1: optimizer dp-sgd does not read it": func(c *config.Config) { c.Optimizer, c.L2P.Protector, c.L2P.NormNoise = "dp-sgd", "", ptr(1.0) },
		"memory of its own":                               func(c *config.Config) { c.Momentum = 0.9 },
		"would not look at the norm":                      func(c *config.Config) { protected("projector")(c); c.L2P.NormNoise = ptr(1.0) },
		"the noise is scheduled":                          func(c *config.Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(1.0) },
		"clip norm that stays":                            func(c *config.Config) { c.Clipping = "adaptive" },
		"under replace-one":                               func(c *config.Config) { c.Accountant = accountant.CTCDP },
		"exact noise works on integers":                   func(c *config.Config) { c.Noise, c.L2P.NormNoise = dpoptim.Exact, ptr(1.0) },
		"norm_noise -1":                                   func(c *config.Config) { c.L2P.NormNoise = ptr(-1.0) },
		"prices the batches":                              func(c *config.Config) { paperAccounting(c); c.TrainLossNoise = ptr(1.0) },
		"no noise makes|constraint of ctCDP":              func(c *config.Config) { paperAccounting(c); c.Batch = ptr(100.0) },
		"settings name 00":                                func(c *config.Config) { c.L2P.Weights = "00" },
		"take a part of it":                               func(c *config.Config) { c.L2P.NormNoise = ptr(1e-3) },
		"steps 2000000000: must be":                       func(c *config.Config) { c.Steps = ptr(2_000_000_000) },
		"go up to": func(c *config.Config) {
			c.Noise, c.Epsilon, c.Steps, c.Batch = dpoptim.Exact, ptr(0.00837), ptr(30000), ptr(50.0)
		},
		"which only optimizer l2p draws": func(c *config.Config) {
			c.Optimizer, c.L2P.Protector, c.Accountant, c.Neighbouring = "dp-sgd", "", accountant.CTCDP, "replace-one"
		},
		"draws no batches of a fixed size": func(c *config.Config) { c.Optimizer, c.L2P.Protector, c.Sampling = "dp-sgd", "", batches.Subsets.Name },
		"draws batches of a fixed size; leave": func(c *config.Config) {
			c.Accountant, c.Neighbouring, c.Sampling = accountant.CTCDP, "replace-one", batches.Poisson.Name
		},
		"under replace-one only": func(c *config.Config) {
			protected("identity")(c)
			c.Sampling = batches.Subsets.Name
			c.Relate(accountant.AddRemove)
		},
		"no such file":                    func(c *config.Config) { c.L2P.Protector = "nowhere.safetensors" },
		"leaves no budget aside":          func(c *config.Config) { c.TrainLossNoise = ptr(1.0) },
		"does not know how many steps":    func(c *config.Config) { c.LRSchedule = "cosine" },
		"is priced by rdp":                func(c *config.Config) { c.Accountant = accountant.PRV },
		"accountant ctcdp: it holds":      func(c *config.Config) { paperAccounting(c); c.Neighbouring = "add-remove" },
		"scale -1 of a projector|rate -1": func(c *config.Config) { c.LR = ptr(-1.0) },
	} {
		c := small()
		protected("both")(&c)
		set(&c)
		_, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		if err == nil || !slices.ContainsFunc(strings.Split(want, "|"), func(s string) bool { return strings.Contains(err.Error(), s) }) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// Batches of a fixed size have no guarantee under add-remove, even where they hold all records.
func TestSubsetsNeedReplaceOne(t *testing.T) {
	for _, batch := range []float64{12, 400} {
		c := small()
		protected("identity")(&c)
		c.Sampling, c.Batch, c.Neighbouring = batches.Subsets.Name, ptr(batch), string(accountant.AddRemove)
		// As by flag: the method's own relation would take the place of the default.
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), "use --neighbouring replace-one") {
			t.Errorf("batches of %v: %v", batch, err)
		}
	}
}
