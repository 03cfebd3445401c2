package train

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/local"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/stream"
)

// ranks makes a run of several processes, and gives their errors.
func ranks(ctx context.Context, groups []collective.Group, c Config, o Options) []error {
	errs := make([]error, len(groups))
	var w sync.WaitGroup
	for i, g := range groups {
		w.Go(func() {
			o := o
			o.Group = g
			_, errs[i] = Run(ctx, c, o)
		})
	}
	w.Wait()
	return errs
}

func injected(seed uint64) *plan.Keys {
	return &plan.Keys{Sampling: stream.KeyFromSeed(seed, "a"), Noise: stream.KeyFromSeed(seed, "b")}
}

// A run of exact noise has the same files on one rank and on several: the model, the metrics, the ledger.
func TestRanksAreOneRun(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"dp-sgd":  func(c *Config) {},
		"dp-adam": func(c *Config) { c.Optimizer, c.LR = "dp-adam", ptr(0.02) },
	} {
		t.Run(name, func(t *testing.T) {
			c := small()
			c.Noise = "exact"
			set(&c)
			o := Options{Sources: sources(made(1, 390)), keys: injected(5), RunID: "0123456789abcdef0123456789abcdef"}
			files := []string{rundir.Model, rundir.Metrics, rundir.Ledger}
			read := func(dir string) (all [][]byte) {
				for _, f := range files {
					b, err := os.ReadFile(filepath.Join(dir, f))
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, b)
				}
				return all
			}
			o.Out = t.TempDir()
			if _, err := Run(context.Background(), c, o); err != nil {
				t.Fatal(err)
			}
			want := read(o.Out)
			for n := 2; n <= 4; n++ {
				o.Out = t.TempDir()
				for i, err := range ranks(context.Background(), local.New(n, local.Options{}), c, o) {
					if err != nil {
						t.Fatalf("rank %d of %d: %v", i, n, err)
					}
				}
				for i, b := range read(o.Out) {
					if !bytes.Equal(b, want[i]) {
						t.Errorf("%s of %d ranks has other bytes", files[i], n)
					}
				}
			}
		})
	}
}

// A rank that dies at any call ends all, and what the ledger has charged is no less than what was released; the run goes on with
// another number of ranks.
func TestRanksThatDie(t *testing.T) {
	for _, call := range []int{0, 3, 9, 14, 20, 31, 40} {
		for rank := range 3 {
			c := small()
			o := Options{Sources: sources(made(1, 390)), Out: t.TempDir(), block: 2, keys: injected(6)}
			died := fmt.Errorf("no power at call %d", call)
			for i, err := range ranks(context.Background(), local.New(3, local.Options{Fault: func(r, k int) error {
				if r == rank && k == call {
					return died
				}
				return nil
			}}), c, o) {
				if err == nil {
					t.Fatalf("rank %d of 3 goes on without rank %d, which died at call %d", i, rank, call)
				}
			}
			o.Resume, o.keys = ResumeAuto, injected(7)
			for i, err := range ranks(context.Background(), local.New(2, local.Options{}), c, o) {
				if err != nil {
					t.Fatalf("after a death of rank %d at call %d, rank %d of 2: %v", rank, call, i, err)
				}
			}
		}
	}
}
