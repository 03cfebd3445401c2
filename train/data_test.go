package train

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/trained"
)

// Of files nothing is public that was not said, whatever is in them: neither their
// number, nor a δ, nor test figures.
func TestPublicIsWhatWasDeclared(t *testing.T) {
	set := made(1, 400)
	set.Published = true
	source := map[string]Source{"made": {Open: func(string) (*datasets.Set, error) { return set, nil }}}
	for name, x := range map[string]struct {
		change  func(*Config)
		refused []string
		n       int
		delta   float64
		tested  bool
		assumed []string
	}{
		"nothing": {func(*Config) {}, []string{"--public-n", "--delta", "--published-set"}, 0, 0, false, nil},
		"N":       {func(c *Config) { c.PublicN = ptr(180) }, []string{"--public-n", "--delta", "--published-set"}, 0, 0, false, nil},
		"δ":       {func(c *Config) { c.Delta = ptr(1e-4) }, []string{"--public-n", "--delta", "--published-set"}, 0, 0, false, nil},
		"N and δ": {func(c *Config) { c.PublicN, c.Delta = ptr(180), ptr(1e-4) }, nil, 180, 1e-4, false, []string{"public_n_is_right"}},
		"the test split": {func(c *Config) { c.PublicN, c.Delta, c.TestIsPublic = ptr(180), ptr(1e-4), true }, nil, 180, 1e-4, true,
			[]string{"public_n_is_right", "test_split_is_public"}},
		"all":       {func(c *Config) { c.PublishedSet = true }, nil, 200, 1e-5, true, []string{"files_are_the_published_ones"}},
		"all and N": {func(c *Config) { c.PublishedSet, c.PublicN = true, ptr(200) }, nil, 200, 1e-5, true, []string{"files_are_the_published_ones", "public_n_is_right"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := small()
			c.DataDir = "somewhere"
			x.change(&c)
			o := Options{Sources: source, Out: filepath.Join(t.TempDir(), "run")}
			r, err := Run(context.Background(), c, o)
			if x.refused != nil {
				for _, want := range x.refused {
					if !errors.As(err, new(*UsageError)) || !strings.Contains(err.Error(), want) {
						t.Errorf("%v, want %q", err, want)
					}
				}
				return
			}
			check(t, err)
			assumed := slices.DeleteFunc(r.Assumptions, func(a string) bool { return a == plan.RealArithmetic })
			slices.Sort(assumed)
			if r.PublicN != x.n || *r.Delta != x.delta || !slices.Equal(assumed, x.assumed) || !r.Guarantee {
				t.Errorf("N = %d, δ = %v, assuming %v", r.PublicN, *r.Delta, assumed)
			}
			shown := strings.Contains(string(read(t, o.Out, rundir.Metrics)), `"test_loss":null`)
			if (r.TestAccuracy != nil) != x.tested || (r.TestLoss != nil) != x.tested || shown == x.tested {
				t.Errorf("test figures %v, %v", r.TestAccuracy, r.TestLoss)
			}
			_, err = evaluated(o.Out, trained.Options{Sources: source, Device: "cpu", Threads: 1})
			if (err == nil) != x.tested || err != nil && !strings.Contains(err.Error(), "--test-is-public") {
				t.Errorf("eval: %v", err)
			}
			// What was said is part of the run.
			c.PublishedSet, c.TestIsPublic, c.PublicN, c.Delta = !c.PublishedSet, false, ptr(x.n), ptr(x.delta)
			if c.PublishedSet { // which has a number of its own
				c.PublicN = nil
			}
			o.Resume = ResumeRun
			if _, err := Run(context.Background(), c, o); !errors.As(err, new(*UsageError)) || !strings.Contains(err.Error(), "published_set") {
				t.Errorf("resumed by another word: %v", err)
			}
		})
	}
	if !set.TestIsPublic || set.PublicN == 0 {
		t.Error("a declaration changed the set that the source keeps")
	}
}
