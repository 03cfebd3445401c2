package blsgd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/privgrad/privgrad/internal/reproduce"
	"github.com/privgrad/privgrad/internal/reproduce/reproducetest"
	"github.com/privgrad/privgrad/train"
)

// fewRates leaves four runs of the table; most of their time is calibration.
func fewRates(t *testing.T) {
	t.Helper()
	r, s, f := sgdRates, starts, forms
	t.Cleanup(func() { sgdRates, starts, forms = r, s, f })
	sgdRates, starts, forms = r[3:5], s[1:2], []searchForm{f[0], f[1]}
}

func TestRatesAndResumption(t *testing.T) {
	fewRates(t)
	o := reproducetest.Tiny(t)
	s := reproducetest.Run(t, rates, o)
	want := len(sgdRates) + len(forms)*len(starts)
	if s.Runs != want || s.RunsNow != want || s.RunsOther != 0 {
		t.Fatalf("%d runs, %d now, %d others; want %d new ones", s.Runs, s.RunsNow, s.RunsOther, want)
	}
	records := reproducetest.CheckOutputs(t, rates, s, reproduce.QuickLabel)
	epsilon, err := ratesEpsilon(3)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		// Calibration ends within a relative 1e-3 below the target.
		if r.Epsilon == nil || *r.Epsilon > epsilon || *r.Epsilon < 0.99*epsilon || r.Step != 3 || r.TestAccuracy == nil || r.TrainLoss == nil {
			t.Errorf("%s at %v: ε %v after %d steps, accuracy %v", r.Series, r.X, r.Epsilon, r.Step, r.TestAccuracy)
		}
	}
	page := reproducetest.Read(t, s.Markdown)

	// Nothing is repeated, and the same comes out.
	again := reproducetest.Run(t, rates, o)
	if again.RunsNow != 0 || again.Runs != want {
		t.Errorf("started again: %d runs, %d now", again.Runs, again.RunsNow)
	}
	if d := cmp.Diff(page, reproducetest.Read(t, s.Markdown)); d != "" {
		t.Error(d)
	}

	// A run of other settings is kept, and not shown; the one in its place is made. It
	// is one of the search's, so that the best rate, from which these start, stays.
	i := slices.IndexFunc(records, func(r reproduce.Record) bool { return r.Series != plainSGD })
	records[i].Settings = "other"
	if err := reproduce.WriteRecords(s.CSV, records); err != nil {
		t.Fatal(err)
	}
	if again := reproducetest.Run(t, rates, o); again.RunsNow != 1 || again.Runs != want || again.RunsOther != 1 {
		t.Errorf("after a change of one: %d runs, %d now, %d others", again.Runs, again.RunsNow, again.RunsOther)
	}

	// A quick file does not become a full one.
	before := reproducetest.Read(t, s.CSV)
	o.Quick = false
	var refused *train.UsageError
	if _, err := rates.Run(context.Background(), o); !errors.As(err, &refused) || !strings.Contains(err.Error(), "--quick") {
		t.Errorf("mixing quick and full: %v", err)
	}
	if reproducetest.Read(t, s.CSV) != before {
		t.Error("the file was touched")
	}
}

func TestCurvesOfNetworks(t *testing.T) {
	o := reproducetest.Tiny(t)
	kept := networks
	t.Cleanup(func() { networks = kept })
	// A quick run has the second and the fourth: one that is there and one that is not.
	networks = []network{kept[0], {"made, CNN", "fmnist", "cnn-mnist", 0.2, 1000, 0}, kept[0], cifarNetwork[0]}
	s := reproducetest.Run(t, fig5, o)
	if s.Runs != 4 || !slices.ContainsFunc(s.Skipped, func(l string) bool { return strings.HasPrefix(l, "cifar10 is left out") }) {
		t.Errorf("%d runs", s.Runs)
	}
	for _, r := range reproducetest.CheckOutputs(t, fig5, s, reproduce.QuickLabel) {
		if r.Rate == nil || r.EpsilonSoFar == nil || r.TrainLoss == nil {
			t.Errorf("%s after %d steps: rate %v, ε %v, objective %v", r.Series, r.Step, r.Rate, r.EpsilonSoFar, r.TrainLoss)
		}
		if paper := strings.Contains(r.NoGuarantee, "paper"); paper != (r.Series == publishedSearch) {
			t.Errorf("%s is no guarantee because %q", r.Series, r.NoGuarantee)
		}
	}
	records, err := reproduce.ReadRecords(s.CSV)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(records); n != 4*3 {
		t.Errorf("%d lines of 4 runs of 3 steps", n)
	}
	// What a step costs its batch is one budget for all: μ² = 1.
	for _, series := range []string{publishedSearch, ownSearch} {
		c := networkRun(kept[0], series, 3, evaluations)
		gradient := 1 / *c.NoiseMultiplier
		share := *c.Search.Share
		if mu2 := gradient*gradient + gradient*gradient*share/(1-share); math.Abs(mu2-1) > 1e-12 {
			t.Errorf("%s costs its batches μ² = %v a step", series, mu2)
		}
	}
}

// A network that takes hours has fewer iterations and one seed on a CPU, which the page says.
func TestHourOfANetwork(t *testing.T) {
	o := reproducetest.Tiny(t)
	o.Quick, o.Seeds, o.Work = false, 2, 0.003
	kept := cifarNetwork
	t.Cleanup(func() { cifarNetwork = kept })
	cifarNetwork = []network{{"made, MLP", "fmnist", "mlp-fmnist", 0.2, 1000, 700}}
	s := reproducetest.Run(t, fig5CIFAR, o)
	for _, r := range reproducetest.CheckOutputs(t, fig5CIFAR, s) {
		if r.Seed != 1 || r.Step > 2 {
			t.Errorf("%s: seed %d, step %d", r.Series, r.Seed, r.Step)
		}
	}
	if page := reproducetest.Read(t, s.Markdown); s.Runs != 4 || !strings.Contains(page, "made, MLP has 2 iterations and one seed") || !strings.Contains(page, "Runs: 4; seeds: 1.") {
		t.Errorf("%d runs, and the page says:\n%s", s.Runs, page)
	}
	e := &reproduce.Env{Options: reproduce.Options{Work: 1, Seeds: 5, Device: "cuda:0"}}
	if steps, seeds, points := cifarNetwork[0].size(e); steps != 1000 || seeds != 5 || points != evaluations {
		t.Errorf("on a GPU %d iterations, %d seeds, %d points", steps, seeds, points)
	}
}

// writeAdult makes a table in the census file's form. The larger class follows from
// age.
func writeAdult(t *testing.T, dir string, records int) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for range records {
		age := 20 + r.IntN(60)
		label := "<=50K"
		if age > 60 {
			label = ">50K"
		}
		fmt.Fprintf(&b, "%d, Private, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, %d, United-States, %s\n", age, 20+r.IntN(40), label)
	}
	for _, name := range []string{"adult.data", "adult.test"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tinyAdult are options for figures of convex losses, on a made Adult.
func tinyAdult(t *testing.T) reproduce.Options {
	t.Helper()
	o := reproducetest.Tiny(t)
	o.DataDir = t.TempDir()
	if err := os.Mkdir(filepath.Join(o.DataDir, "tabular"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeAdult(t, filepath.Join(o.DataDir, "tabular"), 400)
	o.Work = 0.0003 // three steps of a search at most
	return o
}

func TestConvexFigures(t *testing.T) {
	o := tinyAdult(t)
	t.Run("accuracy by epsilon", func(t *testing.T) {
		o := o
		o.Out = t.TempDir()
		kept := epsilons
		t.Cleanup(func() { epsilons = kept })
		epsilons = []float64{0.025, 0.8}
		var notices []string
		o.Notice = func(line string) { notices = append(notices, line) }
		s := reproducetest.Run(t, fig4, o)
		records := reproducetest.CheckOutputs(t, fig4, s, reproduce.QuickLabel)
		seen := map[string]int{}
		for _, r := range records {
			seen[r.Series]++
			if r.Panel != adult.panel {
				t.Errorf("a run on %s", r.Panel)
			}
			if !strings.HasSuffix(r.Series, ", paper") && (r.TestAccuracy == nil || r.TrainLoss == nil) {
				t.Errorf("%s at ε = %v has accuracy %v, objective %v, note %q", r.Series, r.X, r.TestAccuracy, r.TrainLoss, r.Note)
			}
			if strings.HasSuffix(r.Series, ", paper") && r.X == 0.025 && r.Note == "" && strings.HasPrefix(r.Series, "dp-bl") {
				t.Errorf("%s made a step at ε = 0.025, which proposition 1 does not pay for", r.Series)
			}
		}
		want := map[string]int{
			"dp-blsgd, paper": 2, "dp-blsgd, ours": 2, "dp-blsgd-ac, paper": 2, "dp-blsgd-ac, ours": 2, "dp-blgd, paper": 2, "dp-blgd, ours": 2,
			"dp-agd": 2, "dp-sgd, paper": 2, "dp-sgd, ours": 2, "majority": 2, "non-private (lbfgs)": 1,
			"outpert-rsgd": 2, "outpert-gd, paper": 2, "outpert-gd, ours": 2, "objpert, paper": 2, "objpert, ours": 2, "privgene": 2,
		}
		if d := cmp.Diff(want, seen); d != "" {
			t.Error(d)
		}
		if !slices.ContainsFunc(notices, func(l string) bool {
			return strings.HasPrefix(l, "Bank is left out: put bank-full.csv")
		}) {
			t.Errorf("no line says where Bank's file goes: %q", notices)
		}
		page := reproducetest.Read(t, s.Markdown)
		for _, text := range []string{"bank-full.csv", "no step", "**contradicts**"} {
			if !strings.Contains(page, text) {
				t.Errorf("the page does not say %q", text)
			}
		}
	})
	t.Run("evaluations", func(t *testing.T) {
		o := o
		o.Out = t.TempDir()
		s := reproducetest.Run(t, fig2, o)
		for _, r := range reproducetest.CheckOutputs(t, fig2, s, reproduce.QuickLabel) {
			// Every step takes a gradient, and a search the base and one candidate at least.
			if r.Gradients == nil || *r.Gradients < float64(r.Step) || r.Objectives == nil || *r.Objectives < 2*float64(r.Step) || r.Batch <= 0 {
				t.Errorf("%s at q = %v: %v gradients, %v objectives of batches of %v, %d steps", r.Series, r.X, r.Gradients, r.Objectives, r.Batch, r.Step)
			}
		}
	})
}

// TestLongSettings makes sixty runs.
func TestLongSettings(t *testing.T) {
	s := reproducetest.Run(t, fig1, tinyAdult(t))
	reproducetest.CheckOutputs(t, fig1, s, reproduce.QuickLabel)
	if n := (3 + 3 + 2 + 3 + 3 + 3) * 4; s.Runs != n {
		t.Errorf("%d runs, want %d", s.Runs, n)
	}
}

func TestStandIns(t *testing.T) {
	for _, b := range []benchmark{ipumsBR, ipumsUS} {
		e := &reproduce.Env{Options: reproduce.Options{Sources: map[string]train.Source{}}}
		var c train.Config
		r := reproduce.Record{Seed: 3}
		if !b.open(e, &c, &r) || r.Label != b.made.Label() || !strings.Contains(r.Panel, "synthetic") || !slices.Contains(e.Labels(), b.made.Label()) {
			t.Errorf("the record is %+v, the labels %q", r, e.Labels())
		}
		set, err := e.Sources[c.Data].Open("")
		if err != nil {
			t.Fatal(err)
		}
		if n := set.Train.Len() + set.Test.Len(); n != b.made.Records || set.Test.Len() != n/folds || set.PublicN != set.Train.Len() || len(set.Train.Features) != set.Train.Len()*b.made.Columns {
			t.Errorf("%s has %d and %d records, public N %d", set.Name, set.Train.Len(), set.Test.Len(), set.PublicN)
		}
		// Scores are centred, so that classes are about as large as each other, as in
		// the paper's table 1; the file is fixed, so that this is no test of chance.
		if share := float64(set.PerClass[1]) / float64(set.PublicN); share < 0.47 || share > 0.53 {
			t.Errorf("a class has a share of %v", share)
		}
		// Nearly all records are told apart from each other by a line through the
		// features: without privacy there is something to learn.
		fresh := reproduce.StandIn{Name: b.made.Name, Records: b.made.Records, Columns: b.made.Columns, Seed: b.made.Seed}
		if other := fresh.Fold("", 3, folds); !bytes.Equal(other.Train.Features, set.Train.Features) || !bytes.Equal(other.Test.Labels, set.Test.Labels) {
			t.Error("made again it is another")
		}
	}
}

func TestWithoutDataSaysWhere(t *testing.T) {
	o := reproducetest.Tiny(t)
	_, err := fig1.Run(context.Background(), o)
	var refused *train.UsageError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "adult.data") || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("the error is %v", err)
	}
}

func TestInterruptionKeepsWhatFinished(t *testing.T) {
	fewRates(t)
	o := reproducetest.Tiny(t)
	o.Threads = 1
	ctx, cancel := context.WithCancel(context.Background())
	o.Progress = func(done, _ int, _ string) {
		if done == 1 {
			cancel()
		}
	}
	if _, err := rates.Run(ctx, o); !errors.Is(err, train.ErrInterrupted) {
		t.Fatalf("the error is %v", err)
	}
	o.Progress = nil
	s := reproducetest.Run(t, rates, o)
	if s.RunsNow != s.Runs-1 {
		t.Errorf("%d of %d runs were made after an interruption that kept one", s.RunsNow, s.Runs)
	}
}

// Equal budgets per iteration are not equal ε: the value for one part is that of rdp at δ by
// proposition 1, and amplifying in parts is cheaper only by arithmetic.
func TestEqualBudgetsAreNotEqualEpsilons(t *testing.T) {
	if c := sameSpeed(); c.Verdict != reproduce.Contradicts || !strings.Contains(c.Found, "2.34 in one part") || !strings.Contains(c.Found, "2.11 in two") {
		t.Errorf("%+v", c)
	}
}

func TestPaperArithmeticLeavesLittleRoom(t *testing.T) {
	// With all weight on three and more records lemma 4 charges ln 3/(α−1) a release;
	// at q = 1 that is exact: (ε − ln(1/δ)/(α−1))·(α−1)/ln 3 at the largest order.
	want := (0.2*499 - math.Log(1/delta)) / math.Log(3)
	if got := mostReleases(0.2, 1); math.Abs(got-want) > 1e-9*want {
		t.Errorf("%v releases at q = 1, want %v", got, want)
	}
	if got := mostReleases(0.025, 0.1); got != 0 {
		t.Errorf("%v releases where proposition 1 alone costs more than ε", got)
	}
	if c := room([]float64{0.8}); c.Verdict != reproduce.Agrees {
		t.Errorf("at ε = 0.8: %+v", c)
	}
	if c := room([]float64{0.8, 0.05}); c.Verdict != reproduce.Contradicts {
		t.Errorf("at ε = 0.05: %+v", c)
	}
}
