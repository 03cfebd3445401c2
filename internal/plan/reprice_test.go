package plan

import (
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/source"
)

// The number of records of what was published, or declared, is not a result's to choose.
func TestStatedN(t *testing.T) {
	declared := 500
	for name, c := range map[string]struct {
		config config.Config
		want   int
	}{
		"built in":        {config.Config{Data: "fmnist"}, 60000},
		"some classes":    {config.Config{Data: "mnist", Settings: dpoptim.Settings{Classes: []int{3, 5}}}, 6131 + 5421},
		"one of some":     {config.Config{Data: "mnist", Settings: dpoptim.Settings{Classes: []int{3, 5}}, Positive: "3"}, 6131 + 5421},
		"declared":        {config.Config{Data: "dir:photos", PublicN: &declared}, 500},
		"declared for it": {config.Config{Data: "mnist", PublicN: &declared}, 500},
		"a table":         {config.Config{Data: "csv:t.csv", PublicN: &declared}, 0}, // a part of it may be held out
		"a caller's own":  {config.Config{Data: "made"}, 0},
	} {
		if got, err := source.StatedN(c.config); err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
		}
	}
	if _, err := source.StatedN(config.Config{Data: "mnist", Settings: dpoptim.Settings{Classes: []int{11}}}); err == nil {
		t.Error("a class that is none")
	}
}

// Planned anew, a run has the schedule and the noise that it was planned with, and settings that
// nobody could have trained with are refused.
func TestReprice(t *testing.T) {
	c := small()
	c.Epsilon, c.NoiseMultiplier = ptr(3.0), nil
	p, err := Resolve(c, Options{Sources: sources(made(1, 160))})
	check(t, err)
	again, err := Reprice(p.Config, p.PublicN, p.Network.Program.NumParams(), len(p.Set.ClassNames))
	check(t, err)
	if again.Sigma != p.Sigma || again.Steps != p.Steps || again.SamplingRate != p.SamplingRate || *again.Epsilon != *p.Epsilon {
		t.Errorf("noise %v, steps %d, rate %v, was %v, %d, %v", again.Sigma, again.Steps, again.SamplingRate, p.Sigma, p.Steps, p.SamplingRate)
	}
	if again, err := Reprice(p.Config, 2*p.PublicN, p.Network.Program.NumParams(), len(p.Set.ClassNames)); err != nil || again.SamplingRate >= p.SamplingRate {
		t.Errorf("of twice the records: %v, %v", again, err)
	}
	for name, spoil := range map[string]func(*config.Config){
		"optimizer": func(c *config.Config) { c.Optimizer = "none" },
		"budget":    func(c *config.Config) { c.Epsilon = ptr(-1.0) },
		"batch":     func(c *config.Config) { c.Batch = ptr(1e9) },
	} {
		spoilt := p.Config
		spoil(&spoilt)
		if _, err := Reprice(spoilt, p.PublicN, p.Network.Program.NumParams(), len(p.Set.ClassNames)); err == nil {
			t.Errorf("%s: planned", name)
		}
	}
	if _, err := Reprice(p.Config, 0, p.Network.Program.NumParams(), len(p.Set.ClassNames)); err == nil {
		t.Error("no records: planned")
	}
}
