package plan

import (
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/price"
)

// What a guarantee means for attacks: of a committed schedule by its own events, of a filter by
// its (ε, δ), and nothing without a guarantee.
func TestRisk(t *testing.T) {
	plan := func(change func(*config.Config)) *Plan {
		t.Helper()
		c := small()
		change(&c)
		p, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		check(t, err)
		return p
	}
	sum := accountant.PoissonBatch(0.2, 24, accountant.Gaussian{NoiseMultiplier: 1})
	for name, c := range map[string]struct {
		change func(*config.Config)
		events []accountant.Event
	}{
		"sums":       {func(*config.Config) {}, []accountant.Event{sum}},
		"and losses": {func(c *config.Config) { c.TrainLossNoise = ptr(2.0) }, []accountant.Event{sum, accountant.PoissonBatch(0.2, 5, accountant.Gaussian{NoiseMultiplier: 2})}},
	} {
		want, err := accountant.RiskOf(c.events, accountant.Options{Accountant: accountant.PLD, Neighbouring: accountant.AddRemove, Delta: 1e-5})
		check(t, err)
		if p := plan(c.change); p.Guarantee.Risk == nil || p.Guarantee.Risk.Advantage != want.Advantage {
			t.Errorf("%s: %v, want %v", name, p.Guarantee.Risk, want)
		}
	}
	budget := func(c *config.Config) { c.NoiseMultiplier, c.Epsilon = nil, ptr(2.0) }
	alone := accountant.RiskAt(2, 1e-5)
	filtered := plan(func(c *config.Config) { budget(c); c.Optimizer, c.Accountant = "dp-blsgd-ac", accountant.RDP })
	if !filtered.Filtered() || filtered.Guarantee.Risk == nil || filtered.Guarantee.Risk.Advantage != alone.Advantage {
		t.Errorf("a filter: %v, want %v", filtered.Guarantee.Risk, alone)
	}
	pure := plan(func(c *config.Config) { budget(c); c.Optimizer, c.Batch, c.Steps, c.LR = "majority", nil, nil, nil })
	if want := accountant.RiskAt(2, 0); pure.Guarantee.Risk == nil || pure.Guarantee.Risk.Advantage != want.Advantage {
		t.Errorf("a pure method: %v, want %v", pure.Guarantee.Risk, want)
	}
	for name, change := range map[string]func(*config.Config){
		"no noise": func(c *config.Config) { c.NoiseMultiplier = ptr(0.0) },
		"seeded":   func(c *config.Config) { c.Noise = dpoptim.Seeded },
		"paper":    func(c *config.Config) { c.Accountant = accountant.Paper },
		"plain":    func(c *config.Config) { c.Optimizer, c.NoiseMultiplier = "sgd", nil },
	} {
		if p := plan(change); p.Guarantee.Risk != nil {
			t.Errorf("%s: %v without a guarantee", name, p.Guarantee.Risk)
		}
	}
}

// What no guarantee saves a run from is warned of: an ε that says next to nothing, and noise that
// outweighs the gradients: σ√(d/T)/(qN), with 65 parameters, 24 steps and batches of 40.
func TestDoubts(t *testing.T) {
	for _, c := range []struct {
		sigma float64
		want  string
	}{{0.3, "promises next to nothing"}, {1, ""}, {24, ""}, {25, "drowns the gradients"}} {
		config := small()
		config.NoiseMultiplier = &c.sigma
		p, err := Resolve(config, Options{Sources: sources(made(1, 400))})
		check(t, err)
		if got := strings.Join(p.Warnings, "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("σ %v, ε %v: warned %q, want %q (%d parameters)", c.sigma, *p.Epsilon, got, c.want, p.Facts.Params)
		}
	}
}

// Settings that no noise serves are named, with what to change.
func TestBudgetOutOfReach(t *testing.T) {
	for want, change := range map[string]func(*config.Config){
		"almost no noise": func(c *config.Config) { c.Epsilon = ptr(1e6) },
		// By rdp, since pld takes long over so much loss.
		"with --clipping adaptive": func(c *config.Config) {
			c.Epsilon, c.Clipping, c.Batch, c.Steps, c.Accountant = ptr(0.5), "adaptive", ptr(1.0), ptr(2000), accountant.RDP
		},
		"with --train-loss-noise 1:": func(c *config.Config) { c.Epsilon, c.TrainLossNoise, c.EvalEvery = ptr(0.01), ptr(1.0), 1 },
	} {
		c := small()
		c.NoiseMultiplier = nil
		change(&c)
		_, err := Resolve(c, Options{Sources: sources(made(1, 400))})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "does not allow it") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The δ that messages name is one over ten times the records, rounded down to a power of ten.
func TestSuggestedDelta(t *testing.T) {
	for n, want := range map[int]string{1: "1e-01", 900: "1e-04", 1000: "1e-04", 1001: "1e-05", 5000: "1e-05", 20000: "1e-06", 60000: "1e-06"} {
		if got := price.SuggestedDelta(n); got != want {
			t.Errorf("%d records: %s, want %s", n, got, want)
		}
	}
}
