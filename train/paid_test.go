package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/budget"
)

// Runs of every kind of price pay from a budget, until it does not allow another one: then nothing is written.
func TestRunsPay(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"dp-sgd":       func(*Config) {},
		"every answer": func(c *Config) { c.Clipping, c.TrainLossNoise = "adaptive", ptr(6.0) },
		"a filter": func(c *Config) {
			c.Optimizer, c.NoiseMultiplier, c.Epsilon, c.Delta, c.Search.Budget = "dp-blsgd", nil, ptr(0.9), ptr(1e-7), "adaptive"
		},
		"majority": fitted(majority, func(c *Config) { c.NoiseMultiplier, c.L2, c.Epsilon, c.Delta = nil, 0, ptr(0.9), nil }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c := small()
			c.NoiseMultiplier = ptr(6.0)
			change(&c)
			file := filepath.Join(t.TempDir(), "made.budget")
			f, err := budget.New("made", "add-remove", "one record", 3, 1e-5, 0)
			check(t, err)
			check(t, budget.Create(file, f))
			c.Budget = file
			spent := 0.0
			for i := 0; ; i++ {
				o := Options{Sources: sources(made(1, 160)), Out: filepath.Join("runs", string(rune('a'+i)))}
				r, err := Run(context.Background(), c, o)
				kept, readErr := budget.Read(file)
				check(t, readErr)
				now := kept.Spent().Epsilon
				if errors.Is(err, accountant.ErrBudget) {
					if _, err := os.Stat(o.Out); err == nil || i == 0 || now != spent {
						t.Errorf("run %d was refused, wrote %v and took ε from %v to %v", i, err == nil, spent, now)
					}
					return
				}
				check(t, err)
				if !r.Guarantee || !(now > spent) || len(kept.Entries) != i+1 || now > 3 || i > 20 {
					t.Fatalf("run %d took ε from %v to %v, with %d entries", i, spent, now, len(kept.Entries))
				}
				if again, err := Run(context.Background(), c, Options{Sources: o.Sources, Out: o.Out, Resume: ResumeRun}); err != nil || again.Epsilon == nil {
					t.Errorf("its result cannot be read again: %v", err)
				}
				if kept, err := budget.Read(file); err != nil || kept.Spent().Epsilon != now {
					t.Errorf("reading its result cost ε: %v", err)
				}
				spent = now
			}
		})
	}
}
