package train

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/trained"
)

// made is a small image set: class k is bright in band k. The seed changes the
// training pixels, and rows their number; the test split is always the same.
func made(seed uint64, rows int) *datasets.Set {
	const side, classes = 8, 4
	draw := func(seed uint64, n int) datasets.Split {
		random := rand.New(rand.NewPCG(seed, 1))
		im := datasets.Split{Shape: [3]int{1, side, side}}
		for range n {
			label := random.IntN(classes)
			im.Labels = append(im.Labels, uint8(label))
			for i := range side * side {
				v := random.IntN(120)
				if i/(side*side/classes) == label {
					v += 130
				}
				im.Features = append(im.Features, uint8(v))
			}
		}
		return im
	}
	return &datasets.Set{
		Name: "made", Classes: classes, ClassNames: []string{"a", "b", "c", "d"},
		Train: draw(seed, rows), Test: draw(99, 80),
		PublicN: 400, PerClass: []int{100, 100, 100, 100}, TestIsPublic: true,
	}
}

func sources(set *datasets.Set) map[string]Source {
	return map[string]Source{"made": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}}
}

// evaluated opens a run's model and evaluates it.
func evaluated(dir string, o trained.Options) (*trained.Evaluation, error) {
	m, err := trained.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return m.Evaluate()
}

func ptr[T any](x T) *T { return &x }

// Words of configurations.
const (
	lbfgs, majority, learned = "lbfgs", "majority", "l2p"

	searchLosses, searchDifferences, searchCurve, searchMinimum = "losses", "differences", "curve", "minimum"

	budgetFixed = "fixed"
)

// stateFile is the checkpoint's, in a run directory.
var stateFile = rundir.Dir("").State()

// resolve is the plan of a run.
func resolve(c Config, o Options) (*plan.Plan, error) {
	return plan.Resolve(c, plan.Options{Sources: o.Sources, Network: o.Network, Method: o.Method, Device: o.Device})
}

// resolved is the plan of a run that can be made, and finished the result of one that is made whole.
func resolved(t *testing.T, c Config, o Options) *plan.Plan {
	t.Helper()
	p, err := resolve(c, o)
	check(t, err)
	return p
}

func finished(t *testing.T, c Config, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), c, o)
	check(t, err)
	return r
}

// adapts reports whether the budgets of a search follow from what was released.
func adapts(c Config) bool { return searches(c) && c.Search.Budget != budgetFixed }

// takesAll reports whether every step of an optimizer takes every record.
func takesAll(optimizer string) bool { return optimizer == "dp-blgd" || optimizer == "dp-agd" }

// schedules reports whether a filter admits noise around a planned one, or just that.
func schedules(p *plan.Plan) bool {
	return p.Declaration.Budget == dpoptim.Scheduled || p.Declaration.Budget == dpoptim.Admitted
}

// small is a short private run on the made set, two classes of it.
func small() Config {
	c := Default()
	c.Data, c.Classes, c.Model = "made", []int{0, 1}, "logistic"
	c.NoiseMultiplier, c.Batch, c.Steps = ptr(1.0), ptr(40.0), ptr(24)
	c.LR, c.EvalEvery, c.Threads = ptr(0.5), 5, 1
	return c
}

func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	check(t, err)
	return b
}

var (
	clock = regexp.MustCompile(`"(seconds|examples_per_second|peak_rss_bytes)": [0-9.e+]+`)
	place = regexp.MustCompile(`(?m)^data_dir: .*`)
	lives = regexp.MustCompile(`({"process":"[0-9a-f]{32}","place":"[0-9a-f]{4}"}\n)+`)
)

// files reads a run directory, with times, rates, memory, the place of the data and the processes of the run masked.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if name == rundir.Processes {
			all[name] = lives.ReplaceAllString(string(read(t, path)), "masked\n")
			return nil
		}
		all[name] = place.ReplaceAllString(clock.ReplaceAllString(string(read(t, path)), `"$1": masked`), "data_dir: masked")
		return nil
	})
	check(t, err)
	if config, err := os.ReadFile(filepath.Join(dir, ConfigFile)); err == nil && place.Match(config) {
		digest := fmt.Sprintf("%x", sha256.Sum256(config))
		for name, text := range all {
			all[name] = strings.ReplaceAll(text, digest, "masked")
		}
	}
	return all
}

// emptied makes a directory new and goes there: what is done twice there is done at one place.
func emptied(t *testing.T, dir string) {
	t.Helper()
	t.Chdir(filepath.Dir(dir))
	check(t, os.RemoveAll(dir))
	check(t, os.Mkdir(dir, 0o755))
	t.Chdir(dir)
}

func sameFiles(t *testing.T, a, b map[string]string) {
	t.Helper()
	for name := range a {
		if _, ok := b[name]; !ok {
			t.Errorf("only the first run wrote %s", name)
		} else if a[name] != b[name] {
			t.Errorf("%s differs", name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			t.Errorf("only the second run wrote %s", name)
		}
	}
}

// searches reports whether the run makes line searches.
func searches(c Config) bool { return c.Search != Search{} }
