package golden

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/train"
)

// begun is the first process of a run.
type begun struct {
	dir, optimizer string
	golden
	stop, crash int
	lost        int // updates that the crash cost
}

// unfinished are runs that an earlier version began and that testdata/unfinished
// holds as it left them: interrupted after so many steps or, where crash is not 0,
// dead at that run of a step on the device. With -update those that are not there are
// made, by the present version; those that are there stay as they are.
var unfinished = []begun{
	{dir: "dp-sgd", optimizer: "dp-sgd", stop: 4, golden: golden{random: true, set: func(c *train.Config) {
		c.Noise, c.Momentum, c.TrainLossNoise = "secure", 0.5, of(2.0)
	}}},
	{dir: "dp-sgd-adaptive", optimizer: "dp-sgd", stop: 4, golden: golden{set: func(c *train.Config) {
		c.Clipping, c.Average = "adaptive", 0.9
	}}},
	{dir: "dp-sgd-crashed", optimizer: "dp-sgd", crash: 240, lost: 20, golden: golden{random: true, set: func(c *train.Config) {
		c.Noise, c.Steps, c.EvalEvery = "secure", of(120), 0
	}}},
	{dir: "dp-adam", optimizer: "dp-adam", stop: 4, golden: golden{set: func(c *train.Config) { c.LR, c.Average = of(0.02), 0.9 }}},
	{dir: "dp-adam-crashed", optimizer: "dp-adam", crash: 7, golden: golden{set: func(c *train.Config) { c.LR = of(0.02) }}},
	{dir: "dp-blsgd", optimizer: "dp-blsgd", stop: 2, golden: golden{random: true, set: all(
		adapting(2, 3, false, train.Search{Iterations: of(20), Trials: of(3)}),
		func(c *train.Config) { c.Noise, c.Steps = "secure", of(1000) })}},
	{dir: "dp-blsgd-fixed", optimizer: "dp-blsgd", stop: 3, golden: golden{set: searched(0.5, train.Search{Budget: "fixed", Every: of(2)})}},
	{dir: "dp-agd", optimizer: "dp-agd", stop: 2, golden: golden{set: adapting(2, 20, true, train.Search{Iterations: of(400), Trials: of(4)})}},
	{dir: "l2p", optimizer: "l2p", stop: 3, golden: golden{random: true, set: all(protector("both"), func(c *train.Config) {
		c.Noise, c.L2P.NormNoise = "secure", of(3.0)
	})}},
	{dir: "l2p-subsets", optimizer: "l2p", stop: 3, golden: golden{set: all(protector("scheduler"), subsets)}},
}

// begin makes the run directory that is to be kept.
func (u begun) begin(t *testing.T, keep string) {
	t.Helper()
	stop := u.stop
	if u.crash > 0 {
		stop = -1
	}
	d := &recorder{Device: reference.Open(), crash: u.crash}
	err := interrupted(u.config(u.optimizer), goldenOptions(u.dir, d), stop)
	if !errors.Is(err, train.ErrInterrupted) && !errors.Is(err, errCrash) {
		t.Fatalf("%s was to be interrupted: %v", u.dir, err)
	}
	if err := os.CopyFS(keep, os.DirFS(u.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(u.dir); err != nil {
		t.Fatal(err)
	}
}

// goOn ends the run that was kept, in a copy of its directory.
func (u begun) goOn(t *testing.T, kept string) (map[string]string, string) {
	t.Helper()
	if err := os.CopyFS(u.dir, os.DirFS(kept)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(u.dir, "ledger.db")
	before, _, err := ledger.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := runFiles(t, u.dir)["metrics.jsonl"]
	d := &recorder{Device: reference.Open(), shape: u.random}
	o := goldenOptions(u.dir, d)
	o.Resume = train.ResumeRun
	r, err := train.Run(t.Context(), u.config(u.optimizer), o)
	if err != nil {
		t.Fatalf("%s does not go on: %v", u.dir, err)
	}
	after, _, err := ledger.Read(path)
	if err != nil || after.Reserved < before.Reserved {
		t.Errorf("%s: the ledger charges %d, %d before: %v", u.dir, after.Reserved, before.Reserved, err)
	}
	if r.Committed != nil && r.Steps != *r.Committed-u.lost || r.Steps < u.stop {
		t.Errorf("%s: %d updates", u.dir, r.Steps)
	}
	if !(*r.EpsilonSoFar <= *r.Epsilon) {
		t.Errorf("%s: ε so far %v of %v", u.dir, *r.EpsilonSoFar, *r.Epsilon)
	}
	files := runFiles(t, u.dir)
	if u.crash == 0 && !strings.HasPrefix(files["metrics.jsonl"], lines) {
		t.Errorf("%s: the lines of the metrics are\n%safter\n%s", u.dir, files["metrics.jsonl"], lines)
	}
	d.noteLedger(u.dir)
	return files, d.text()
}

// Runs that an earlier version began go on: what it left is read, and where noise is
// seeded, the files are those that it would have written itself.
func TestGoldenResume(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	goldenProtectors(t, here)
	var seeded []string
	var first map[string]string
	for _, u := range unfinished {
		kept := filepath.Join(here, "testdata", "unfinished", u.dir)
		if _, err := os.Stat(kept); errors.Is(err, os.ErrNotExist) && *update {
			u.begin(t, kept)
		}
		files, asked := u.goOn(t, kept)
		if u.random {
			continue
		}
		g := u.golden
		g.name = u.dir
		seeded = append(seeded, g.record(files, first, asked))
		if first == nil {
			first = files
		}
	}
	if recordable() {
		compareGolden(t, filepath.Join(here, "testdata", "recorded", "resumed.txt"), seeded)
	}
}
