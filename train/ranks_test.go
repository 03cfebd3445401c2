package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/datasets/shards"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/local"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/stream"
)

// ranks makes a run of several processes, and gives their errors.
func ranks(ctx context.Context, groups []collective.Group, c Config, o Options) []error {
	_, errs := ranked(ctx, groups, func(int) (Config, Options) { return c, o })
	return errs
}

func ranked(ctx context.Context, groups []collective.Group, of func(rank int) (Config, Options)) ([]*Result, []error) {
	results, errs := make([]*Result, len(groups)), make([]error, len(groups))
	var w sync.WaitGroup
	for i, g := range groups {
		w.Go(func() {
			c, o := of(i)
			o.Group = g
			results[i], errs[i] = Run(ctx, c, o)
		})
	}
	w.Wait()
	return results, errs
}

func injected(seed uint64) *plan.Keys {
	return &plan.Keys{Sampling: stream.KeyFromSeed(seed, "a"), Noise: stream.KeyFromSeed(seed, "b"), Views: stream.KeyFromSeed(seed, "c")}
}

// A run of exact noise has the same files on any number of ranks, whatever records each has: the model, the metrics, the
// ledger.
func TestRanksAreOneRun(t *testing.T) {
	set := made(1, 390)
	for name, c := range map[string]struct {
		set func(*Config)
		cut []int // public sizes, by which eight files get other numbers of records; none: each rank takes its part of the set
	}{
		"dp-sgd":   {func(c *Config) {}, nil},
		"dp-adam":  {func(c *Config) { c.Optimizer, c.LR = "dp-adam", ptr(0.02) }, nil},
		"dp-adamw": {func(c *Config) { c.Optimizer, c.LR, c.L2 = "dp-adamw", ptr(0.02), 0.3 }, nil},
		"views":    {withViews, nil},
		// 8 files of 50, 7 of 20 and one of 250, and 3 of 125, 1 of 15 and 4 of none.
		"shards": {func(c *Config) { c.Classes, c.PublicN, c.Delta, c.TestIsPublic = nil, ptr(400), ptr(1e-5), true }, []int{400, 160, 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			config := small()
			config.Noise = "exact"
			c.set(&config)
			written := func(n int) (all []string) {
				o := Options{
					Sources: sources(set), keys: injected(5), RunID: "0123456789abcdef0123456789abcdef",
					Out: filepath.Join(t.TempDir(), "run"),
				}
				for i, err := range ranks(context.Background(), local.New(n, local.Options{}), config, o) {
					if err != nil {
						t.Fatalf("rank %d of %d: %v", i, n, err)
					}
				}
				for _, name := range []string{rundir.Model, rundir.Metrics, rundir.Ledger} {
					all = append(all, string(read(t, o.Out, name)))
				}
				return all
			}
			var want []string
			same := func(how string) {
				for _, n := range []int{1, 2, 3, 4, 8} {
					if got := written(n); want == nil {
						want = got
					} else if !slices.Equal(got, want) {
						t.Errorf("%d ranks%s write other bytes", n, how)
					}
				}
			}
			if c.cut == nil {
				same("")
				return
			}
			config.Data = "shards:s"
			for _, n := range c.cut {
				check(t, os.RemoveAll("s"))
				w, err := shards.Create("s", set, n, 8)
				check(t, err)
				check(t, w.Train(set.Train))
				check(t, w.Test(set.Test))
				check(t, w.Close())
				same(fmt.Sprintf(" of shards cut for %d records", n))
			}
		})
	}
}

// A rank that dies at any call ends all, and the ledger has charged what was released; the run goes on with another number of
// ranks.
func TestRanksThatDie(t *testing.T) { ranksDie(t, []int{0, 9, 20, 40}) }

// Every call of a run of three ranks, by each of them: more than two hundred deaths.
func TestLongRanksThatDie(t *testing.T) {
	var calls []int
	for k := range 75 {
		calls = append(calls, k)
	}
	ranksDie(t, calls)
}

func ranksDie(t *testing.T, calls []int) {
	t.Helper()
	deaths, released := 0, 0
	for _, call := range calls {
		for rank := range 3 {
			c, died := small(), false
			var most atomic.Int64
			o := Options{Sources: sources(made(1, 390)), Out: filepath.Join(t.TempDir(), "run"), block: 2, keys: injected(6)}
			groups := local.New(3, local.Options{Fault: func(r, k int) error {
				if r == rank && k == call {
					died = true
					return fmt.Errorf("no power at call %d", call)
				}
				return nil
			}})
			_, errs := ranked(context.Background(), groups, func(rank int) (Config, Options) {
				o := o
				if rank == 0 { // without whose part there is no total, and nothing to release
					o.onRelease = func(slot int) error {
						most.Store(int64(slot) + 1)
						return nil
					}
				}
				return c, o
			})
			for i, err := range errs {
				if died != (err != nil) {
					t.Fatalf("rank %d of 3, where rank %d dies at call %d: %v", i, rank, call, err)
				}
			}
			if !died {
				continue // the run was over
			}
			deaths++
			if n := int(most.Load()); n > 0 {
				released++
				s, _, err := ledger.Read(filepath.Join(o.Out, rundir.Ledger))
				if err != nil || s.Reserved < n {
					t.Errorf("rank %d dies at call %d, after %d releases, of which the ledger has %d: %v", rank, call, n, s.Reserved, err)
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
	if deaths < 2*len(calls) || released == 0 {
		t.Errorf("%d deaths, %d of them after a release", deaths, released)
	}
}

// Every method either runs on several ranks, which end with the same model, or is refused with the reason, before
// anything is written.
func TestRanksAndMethods(t *testing.T) {
	ran, refused := 0, 0
	for _, m := range methods {
		if m.variant {
			continue
		}
		c := small()
		m.set(&c)
		o := Options{Sources: sources(made(1, 390)), Out: filepath.Join(t.TempDir(), "run"), keys: injected(8)}
		p, err := resolve(c, o)
		if err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
		alone := p.Method.Traits().Once || c.DataIsPublic || slices.ContainsFunc(p.Declaration.Asks, func(a dpoptim.Ask) bool {
			return slices.Contains([]dpoptim.Question{dpoptim.Majority, dpoptim.Fits, dpoptim.Choices, dpoptim.Reports}, a.Question)
		})
		results, errs := ranked(context.Background(), local.New(3, local.Options{}), func(int) (Config, Options) { return c, o })
		for i, err := range errs {
			var misuse *UsageError
			switch {
			case alone && !errors.As(err, &misuse):
				t.Errorf("%s: rank %d is not refused: %v", m.name, i, err)
			case !alone && err != nil:
				t.Errorf("%s: rank %d: %v", m.name, i, err)
			case !alone && results[i].Digests[rundir.Model] != results[0].Digests[rundir.Model]:
				t.Errorf("%s: rank %d has another model than rank 0", m.name, i)
			}
		}
		if alone {
			refused++
			if _, err := os.Stat(o.Out); err == nil {
				t.Errorf("%s: a run that is refused has made its directory", m.name)
			}
			continue
		}
		ran++
	}
	if ran < 12 || refused < 3 {
		t.Errorf("%d methods ran, %d were refused", ran, refused)
	}
}

// Ranks of other settings are refused, and nothing is written; where rank 0 is stopped all stop, and go on together.
func TestRanksAgree(t *testing.T) {
	c := small()
	o := Options{Sources: sources(made(1, 390)), Out: filepath.Join(t.TempDir(), "run"), keys: injected(9)}
	_, errs := ranked(context.Background(), local.New(2, local.Options{}), func(rank int) (Config, Options) {
		c := c
		c.LR = ptr(0.5 + float64(rank))
		return c, o
	})
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "its settings") {
			t.Errorf("rank %d has other settings: %v", i, err)
		}
	}
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("a run that is refused has made its directory")
	}
	_, errs = ranked(context.Background(), local.New(2, local.Options{}), func(rank int) (Config, Options) {
		o := o
		if rank == 1 {
			o.Device = reference.Open()
		}
		return c, o
	})
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "its processor") {
			t.Errorf("rank %d beside another device: %v", i, err)
		}
	}
	_, errs = ranked(context.Background(), local.New(2, local.Options{}), func(rank int) (Config, Options) {
		o, set := o, made(1, 390)
		set.Parts = fmt.Sprint("names of rank ", rank) // some records would be taken twice, and others by none
		o.Sources = sources(set)
		return c, o
	})
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "its list of shards") {
			t.Errorf("rank %d beside other shards: %v", i, err)
		}
	}
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("a run that is refused has made its directory")
	}
	_, errs = ranked(context.Background(), local.New(2, local.Options{}), func(rank int) (Config, Options) {
		o := o
		if o.Out += "-panics"; rank == 1 {
			o.onRelease = func(int) error { panic("a fault") }
		}
		return c, o
	})
	for i, err := range errs {
		if err == nil {
			t.Errorf("rank %d goes on beside one with a fault", i)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	_, errs = ranked(ctx, local.New(2, local.Options{}), func(rank int) (Config, Options) {
		o := o
		o.onRelease = func(slot int) error {
			if slot == 7 && rank == 0 {
				stop()
			}
			return nil
		}
		return c, o
	})
	for i, err := range errs {
		if !errors.Is(err, ErrInterrupted) {
			t.Errorf("rank %d is not interrupted: %v", i, err)
		}
	}
	o.Resume, o.keys = ResumeRun, injected(10)
	results, errs := ranked(context.Background(), local.New(3, local.Options{}), func(int) (Config, Options) { return c, o })
	for i, err := range errs {
		if err != nil || results[i].Steps != 24 {
			t.Errorf("rank %d after an interruption: %v", i, err)
		}
	}
	for i, err := range ranks(context.Background(), local.New(2, local.Options{}), c, o) { // it has finished
		if err != nil {
			t.Errorf("rank %d of a finished run: %v", i, err)
		}
	}
}

// A run is resumed by its directory, which is on the machine of rank 0 alone.
func TestRanksResumeWithoutDirectory(t *testing.T) {
	here, c := t.TempDir(), small()
	text, err := c.YAML()
	check(t, err)
	check(t, os.WriteFile(filepath.Join(here, ConfigFile), text, 0o600))
	for _, dir := range []string{here, "nowhere"} { // of rank 0
		var w sync.WaitGroup
		for i, g := range local.New(3, local.Options{}) {
			w.Go(func() {
				var got Config
				from := "nowhere else"
				if i == 0 {
					from = dir
				}
				err := ReadRun(g, from, &got)
				var misuse *UsageError
				if dir == here && (err != nil || got.Data != c.Data || *got.Steps != *c.Steps) || dir != here && !errors.As(err, &misuse) {
					t.Errorf("rank %d, where rank 0 has the directory %s: %+v, %v", i, dir, got, err)
				}
			})
		}
		w.Wait()
	}
}
