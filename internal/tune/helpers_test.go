package tune

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/train"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// made is a small image set: class k is bright in band k. The seed changes the training pixels.
func made(seed uint64, public bool) map[string]source.Source {
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
	set := func() *datasets.Set {
		return &datasets.Set{
			Name: "made", Classes: classes, ClassNames: []string{"a", "b", "c", "d"}, Train: draw(seed, 300), Test: draw(99, 80),
			PublicN: 400, PerClass: []int{100, 100, 100, 100}, TestIsPublic: public,
		}
	}
	return map[string]source.Source{"made": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set(), nil }, Facts: set}}
}

// small is a short tuning on the made set.
func small() config.Config {
	c := config.Default()
	c.Data, c.Model, c.Batch, c.Steps, c.Threads, c.Epsilon, c.Delta = "made", "logistic", new(40.0), new(12), 1, new(3.0), new(1e-4)
	c.LR, c.EvalEvery = new(0.5), 6
	return c
}

const smallGrid, smallTrials = "lr=.1,.5,2;clip=.5,1", "tnb:0,0.2"

// repeated is a tuning that repeats its noise, so that it can be compared with another, and that draws what is given.
func repeated(out string, draws ...draw) (config.Config, Options) {
	c := small()
	c.Noise = "seeded"
	return c, Options{
		Grid: smallGrid, Trials: smallTrials, Sources: made(1, true), Out: out, Resume: train.ResumeAuto, repeat: true, draws: draws,
		runID: "00112233445566778899aabbccddeeff",
	}
}

func run(t testing.TB, c config.Config, o Options) *train.Result {
	t.Helper()
	r, err := Run(context.Background(), c, o)
	must(t, err)
	return r
}

var (
	clock     = regexp.MustCompile(`"(seconds|examples_per_second|peak_rss_bytes)": [0-9.e+]+`)
	processes = regexp.MustCompile(`({"process":"[0-9a-f]{32}","place":"[0-9a-f]{4}"}\n)+`)
	identity  = regexp.MustCompile(`\b[0-9a-f]{32}\b`)
)

// files reads a run directory, with times and what is random of a process masked.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if strings.HasPrefix(name, ".") { // of a process that was killed as it made the ledger, before all trials
			return nil
		}
		b, err := os.ReadFile(path)
		text := clock.ReplaceAllString(string(b), `"$1": masked`)
		switch name {
		case rundir.Processes:
			text = processes.ReplaceAllString(text, "masked\n")
		case rundir.Ledger: // of the trial: it has an identity of its own, and says what is compared below
			text = "a ledger"
		case rundir.Dir("").State():
			text = identity.ReplaceAllString(text, "masked")
		}
		all[name] = text
		return err
	}))
	return all
}

func same(t testing.TB, a, b map[string]string) {
	t.Helper()
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s differs, or is not there", name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			t.Errorf("%s is there as well", name)
		}
	}
}
