package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/budget"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/tuned"
	"github.com/privgrad/privgrad/report"
	"github.com/privgrad/privgrad/train"
)

// A tuned run says the whole price in all of its files, goes together, and keeps the trials apart.
func TestTune(t *testing.T) {
	for name, public := range map[string]bool{"by accuracy": true, "by a noisy loss": false} {
		t.Run(name, func(t *testing.T) {
			c, out := small(), filepath.Join(t.TempDir(), "out")
			var attached train.Options
			report.Attach(c, &attached)
			r := run(t, c, Options{Grid: smallGrid, Trials: smallTrials, Sources: made(1, public), Out: out, Report: attached.Report})
			if !r.Guarantee || !r.TuningCharged || *r.Epsilon > 3 || *r.Epsilon < 2.99 || r.Run != out || *r.EpsilonSoFar != *r.Epsilon || r.Risk == nil {
				t.Errorf("the result is %+v", r)
			}
			if tu := r.Tuning; tu == nil || *tu.TrialEpsilon >= *r.Epsilon || len(tu.Chosen) != 2 || tu.Choices != 6 || tu.Grid != "lr=0.1,0.5,2;clip=0.5,1" {
				t.Errorf("the tuning is %+v", tu)
			}
			if (r.TestAccuracy != nil) != public || (r.TrainLoss != nil) == public {
				t.Errorf("test accuracy %v, training loss %v", r.TestAccuracy, r.TrainLoss)
			}
			for _, m := range r.Evaluations {
				if *m.EpsilonSoFar != *r.Epsilon {
					t.Errorf("after step %d, ε is %v", m.Step, *m.EpsilonSoFar)
				}
			}
			v, err := report.Verify(out)
			if err != nil || !v.OK {
				t.Errorf("%v: %+v", err, v)
			}
			info, err := os.Stat(out + ".private")
			must(t, err)
			if info.Mode().Perm() != 0o700 {
				t.Errorf("OUT.private has mode %v", info.Mode())
			}
			var stored config.Config
			must(t, config.Read(filepath.Join(out, rundir.Config), &stored))
			if any(*stored.LR) != r.Tuning.Chosen["lr"] || any(stored.Clip) != r.Tuning.Chosen["clip"] {
				t.Errorf("%s has another rate than %v, or another clip norm", rundir.Config, r.Tuning.Chosen)
			}
			facts, err := rundir.ReadFacts(filepath.Join(out, rundir.Model))
			if err != nil || facts["epsilon"] != fmt.Sprint(*r.Epsilon) {
				t.Errorf("the model's file says ε = %v: %v", facts["epsilon"], err)
			}
			again := run(t, c, Options{Grid: smallGrid, Trials: smallTrials, Sources: made(1, public), Out: out, Resume: train.ResumeRun})
			if again.Tuning == nil || *again.Epsilon != *r.Epsilon {
				t.Errorf("the stored result is %+v", again)
			}
		})
	}
}

// Whoever makes a file of a tuned run say something else is found out.
func TestVerifyFindsOtherTunings(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	c := small()
	run(t, c, Options{Grid: smallGrid, Trials: smallTrials, Sources: made(1, true), Out: out})
	for what, change := range map[string]struct {
		file   string
		change func(m map[string]any)
	}{
		"fewer trials":           {rundir.Tuning, func(m map[string]any) { m["trials"] = "tnb:0,0.9" }},
		"fewer trials in both":   {rundir.Result, func(m map[string]any) { m["tuning"].(map[string]any)["trials"] = "tnb:0,0.9" }},
		"a lower price":          {rundir.Result, func(m map[string]any) { m["epsilon"] = 1.0 }},
		"other settings":         {rundir.Result, func(m map[string]any) { m["tuning"].(map[string]any)["chosen"] = map[string]any{"lr": 7} }},
		"no tuning":              {rundir.Result, func(m map[string]any) { delete(m, "tuning") }},
		"not charged":            {rundir.Result, func(m map[string]any) { m["tuning_charged"] = false }},
		"a candidate left out":   {rundir.Tuning, func(m map[string]any) { m["candidates"] = m["candidates"].([]any)[:5] }},
		"another noise of one":   {rundir.Tuning, func(m map[string]any) { first(m)["count"] = 1 }},
		"a candidate's settings": {rundir.Tuning, func(m map[string]any) { m["candidates"].([]any)[0].(map[string]any)["settings_sha256"] = "0" }},
	} {
		path := filepath.Join(out, change.file)
		before, err := os.ReadFile(path)
		must(t, err)
		var m map[string]any
		must(t, json.Unmarshal(before, &m))
		change.change(m)
		after, err := json.Marshal(m)
		must(t, err)
		must(t, os.WriteFile(path, after, 0o644))
		if v, err := report.Verify(out); err == nil && v.OK {
			t.Errorf("%s: nothing differs", what)
		}
		must(t, os.WriteFile(path, before, 0o644))
	}
	if v, err := report.Verify(out); err != nil || !v.OK {
		t.Errorf("as it was, it differs: %+v: %v", v, err)
	}
}

func first(m map[string]any) map[string]any {
	return m["candidates"].([]any)[0].(map[string]any)["events"].([]any)[0].(map[string]any)
}

// The number of trials, and the settings of those that lose, show in nothing that is written or said.
func TestTranscript(t *testing.T) {
	base := t.TempDir()
	made := func(name string, draws ...draw) (map[string]string, string) {
		t.Helper()
		place := filepath.Join(base, name)
		must(t, os.Mkdir(place, 0o755))
		t.Chdir(place)
		c, o := repeated("out", draws...)
		var said bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		var attached train.Options
		report.Attach(c, &attached)
		o.Report = attached.Report
		r := run(t, c, o)
		line, err := json.Marshal(r)
		must(t, err)
		all := files(t, "out")
		all["shown"] = regexpSeconds(string(line))
		return all, said.String()
	}
	c, o := repeated(filepath.Join(base, "all"), draw{0, 1}, draw{1, 2}, draw{2, 3}, draw{3, 4}, draw{4, 5}, draw{5, 6})
	p, err := makePlan(c, o.Grid, o.Trials, o.Sources, true)
	must(t, err)
	best, worst := draw{Lot: 99}, draw{}
	winner := run(t, c, o).Tuning.Settings()
	for i, candidate := range p.Candidates {
		p.Tuning.Chosen = candidate.Chosen
		if p.Tuning.Settings() == winner {
			best.Choice, worst.Choice = i, (i+1)%len(p.Candidates)
		}
	}
	one, saidOne := made("one", best)
	many, saidMany := made("many", draw{0, 5}, draw{1, 6}, worst, best, draw{2, 1}, worst, draw{3, 10}, draw{5, 1})
	same(t, one, many)
	if saidOne != saidMany || saidOne == "" {
		t.Errorf("said of one trial: %s\nof six: %s", saidOne, saidMany)
	}
	other, _ := made("other", worst)
	if other[rundir.Result] == one[rundir.Result] {
		t.Error("another winner has the same result: the comparison says nothing")
	}
}

func regexpSeconds(text string) string {
	return clock.ReplaceAllString(strings.ReplaceAll(text, `":`, `": `), `"$1": masked`)
}

// The best score wins, and lots decide between equal ones.
func TestBestWins(t *testing.T) {
	scores := func(accuracy ...float64) float64 {
		tu := &tuning{Plan: &Plan{Record: tuned.Record{Tuning: tuned.Tuning{Score: testAccuracy}}}}
		r := &train.Result{}
		if len(accuracy) > 0 {
			r.TestAccuracy = &accuracy[0]
		}
		return tu.scored(r)
	}
	if !(scores(0.9) > scores(0.8) && scores(0.1) > scores() && scores(math.NaN()) == scores()) {
		t.Errorf("scores: %v %v %v", scores(0.9), scores(), scores(math.NaN()))
	}
	for i, draws := range [][]draw{{{3, 8}, {3, 7}, {3, 9}}, {{3, 9}, {3, 1}}} { // repeated noise: equal scores
		out := filepath.Join(t.TempDir(), "out")
		c, o := repeated(out, draws...)
		var copied []string
		o.at = func(point string) { copied = append(copied, point) }
		run(t, c, o)
		var won finalist
		p, err := makePlan(c, o.Grid, o.Trials, o.Sources, true)
		must(t, err)
		tu := &tuning{Options: o, Plan: p, private: rundir.Dir(out + ".private")}
		won, err = tu.try(context.Background(), draws)
		must(t, err)
		if won.lot != 9 || won.dir != tu.trial([]int{2, 0}[i]) {
			t.Errorf("%v won of %v", won, draws)
		}
	}
}

// Without a trial, the initial model is released: it is the same whatever the records are.
func TestNoTrial(t *testing.T) {
	var models [][]byte
	for seed := range uint64(2) {
		out := filepath.Join(t.TempDir(), "out")
		c, o := repeated(out)
		o.draws, o.Trials, o.Sources = []draw{}, "poisson:3", made(seed+1, true)
		r := run(t, c, o)
		if r.Steps != 0 || r.Tuning.Chosen != nil || !r.TuningCharged || r.TestAccuracy != nil {
			t.Errorf("the result is %+v", r)
		}
		b, err := os.ReadFile(filepath.Join(out, rundir.Model))
		must(t, err)
		models = append(models, b)
		v, err := report.Verify(out)
		must(t, err)
		for _, check := range v.Checks {
			if !check.OK && check.Name != "guarantee" { // repeated noise is none
				t.Errorf("%s: %s", check.Name, check.Detail)
			}
		}
		if state, _, err := ledger.Read(filepath.Join(out, rundir.Ledger)); err != nil || state.Reserved != 0 {
			t.Errorf("%d steps were charged: %v", state.Reserved, err)
		}
	}
	if !bytes.Equal(models[0], models[1]) {
		t.Error("the initial model depends on the records")
	}
}

// The whole price is on the disk before the first trial, and is paid once, whatever becomes of the process.
func TestPaidBeforeTheFirstTrial(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "made.budget"), filepath.Join(dir, "out")
	f, err := budget.New("made", "add-remove", "one record", 3.2, 1e-3, 0)
	must(t, err)
	must(t, budget.Create(file, f))
	c := small()
	c.Budget = file
	o := Options{Grid: smallGrid, Trials: smallTrials, Sources: made(1, true), Out: out, Resume: train.ResumeAuto}
	ctx, stop := context.WithCancel(context.Background())
	o.at = func(point string) {
		if point == "charged" {
			stop() // before the first step
		}
	}
	if _, err := Run(ctx, c, o); !errors.Is(err, train.ErrInterrupted) {
		t.Fatalf("it ends with %v", err)
	}
	state, _, err := ledger.Read(filepath.Join(out, rundir.Charged))
	if err != nil || state.Reserved != 1 {
		t.Errorf("%d of 1 are charged: %v", state.Reserved, err)
	}
	paid, err := budget.Read(file)
	must(t, err)
	before := paid.Spent().Epsilon
	if len(paid.Entries) != 1 || !(before > 1) {
		t.Errorf("%d entries, ε = %v", len(paid.Entries), before)
	}
	o.at = nil
	r := run(t, c, o)
	if paid, err = budget.Read(file); err != nil || len(paid.Entries) != 1 || paid.Spent().Epsilon != before {
		t.Errorf("%d entries, ε = %v: %v", len(paid.Entries), paid.Spent().Epsilon, err)
	}
	if v, err := report.Verify(out); err != nil || !v.OK {
		t.Errorf("%v: %+v", err, v)
	}
	o.Out = filepath.Join(dir, "second")
	if _, err := Run(context.Background(), c, o); !errors.Is(err, accountant.ErrBudget) {
		t.Errorf("a second tuning ends with %v, after ε = %v", err, *r.Epsilon)
	}
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("the refused tuning has written a directory")
	}
}

// What was decided and is lost is not decided again, and another tuning's is not taken.
func TestDecidedOnce(t *testing.T) {
	dir := t.TempDir()
	c := small()
	o := Options{Grid: smallGrid, Trials: smallTrials, Sources: made(1, true), Out: filepath.Join(dir, "out"), Resume: train.ResumeAuto}
	ctx, stop := context.WithCancel(context.Background())
	o.at = func(point string) {
		if point == "charged" {
			stop()
		}
	}
	if _, err := Run(ctx, c, o); !errors.Is(err, train.ErrInterrupted) {
		t.Fatal(err)
	}
	o.at = nil
	other := c
	other.Steps = new(13)
	for what, wrong := range map[string]func() (config.Config, Options){
		"another grid":   func() (config.Config, Options) { o := o; o.Grid = "lr=.1,.5"; return c, o },
		"other settings": func() (config.Config, Options) { return other, o },
		"no resumption":  func() (config.Config, Options) { o := o; o.Resume = train.ResumeNever; return c, o },
		"nothing to go on with": func() (config.Config, Options) {
			o := o
			o.Out, o.Resume = filepath.Join(dir, "none"), train.ResumeRun
			return c, o
		},
		"another's private folder": func() (config.Config, Options) {
			o := o
			o.Out = filepath.Join(dir, "new")
			must(t, os.CopyFS(o.Out+".private", os.DirFS(filepath.Join(dir, "out.private"))))
			return c, o
		},
	} {
		c, o := wrong()
		if _, err := Run(context.Background(), c, o); err == nil {
			t.Errorf("%s: it goes on", what)
		}
	}
	must(t, os.Rename(filepath.Join(dir, "out.private"), filepath.Join(dir, "lost")))
	if _, err := Run(context.Background(), c, o); err == nil {
		t.Error("it goes on without what was decided")
	}
	must(t, os.RemoveAll(filepath.Join(dir, "out.private")))
	must(t, os.Rename(filepath.Join(dir, "lost"), filepath.Join(dir, "out.private")))
	run(t, c, o)
}

// What went wrong in a trial stays in OUT.private: it may tell which trial it was.
func TestFailuresTellNothing(t *testing.T) {
	var said []string
	for _, fails := range []int{0, 2} {
		t.Chdir(t.TempDir())
		c, o := repeated("out", draw{1, 1}, draw{2, 2}, draw{3, 3})
		trial := filepath.Join("out.private", trialsDir, fmt.Sprintf("%06d", fails))
		must(t, os.MkdirAll(trial, 0o755))
		must(t, os.WriteFile(filepath.Join(trial, rundir.Result), []byte("no result"), 0o644))
		_, err := Run(context.Background(), c, o)
		if err == nil {
			t.Fatal("it does not fail")
		}
		said = append(said, err.Error())
		text, err := os.ReadFile(filepath.Join("out.private", errorFile))
		if err != nil || !strings.Contains(string(text), rundir.Result) {
			t.Errorf("%s: %v", text, err)
		}
		for _, name := range []string{rundir.Model, rundir.Result, rundir.Config} {
			if _, err := os.Stat(filepath.Join("out", name)); err == nil {
				t.Errorf("%s is there", name)
			}
		}
	}
	a, b := strings.SplitN(said[0], "out.private", 2), strings.SplitN(said[1], "out.private", 2)
	if len(a) != 2 || len(b) != 2 || a[1] != b[1] {
		t.Errorf("the first trial's failure: %s\nthe third one's: %s", said[0], said[1])
	}
}

func TestRefuses(t *testing.T) {
	for what, change := range map[string]func(c *config.Config, o *Options){
		"grid":                func(c *config.Config, o *Options) { o.Grid = "" },
		"KEY":                 func(c *config.Config, o *Options) { o.Grid = "nonsense=1,2" },
		"--epsilon":           func(c *config.Config, o *Options) { c.Epsilon, c.NoiseMultiplier = nil, new(1.0) },
		"twice":               func(c *config.Config, o *Options) { o.Grid = "lr=.1,0.1" },
		"is there twice":      func(c *config.Config, o *Options) { o.Grid = "lr=.1;lr=.2" },
		"same in every trial": func(c *config.Config, o *Options) { o.Grid = "delta=1e-5,1e-6" },
		"every trial":         func(c *config.Config, o *Options) { o.Grid = "public_n=100,200" },
		"threads":             func(c *config.Config, o *Options) { o.Grid = "threads=1,2" },
		"no value":            func(c *config.Config, o *Options) { o.Grid = "lr=.1,x" },
		"choice 2":            func(c *config.Config, o *Options) { o.Grid = "batch=40,1e6" },
		"learning rate":       func(c *config.Config, o *Options) { o.Grid = "lr=-1,1" },
		"trials":              func(c *config.Config, o *Options) { o.Trials = "always:10" },
		"accountant prv":      func(c *config.Config, o *Options) { c.Accountant = "prv" },
		"accountant zcdp":     func(c *config.Config, o *Options) { c.Accountant = "zcdp" },
		"canaries":            func(c *config.Config, o *Options) { c.Canaries = 10 },
		"diagnostics":         func(c *config.Config, o *Options) { c.PrivateDiagnostics = true },
		"count":               func(c *config.Config, o *Options) { c.CountRecords = new(true) },
		"guarantee":           func(c *config.Config, o *Options) { c.DataIsPublic = true },
		"seeded":              func(c *config.Config, o *Options) { c.Noise = "seeded" },
		"not private":         func(c *config.Config, o *Options) { c.Optimizer, c.Epsilon = "sgd", new(1.0) },
		"filter":              func(c *config.Config, o *Options) { c.Optimizer, c.Search.Budget = "dp-blsgd", "adaptive" },
		"searches":            func(c *config.Config, o *Options) { c.Optimizer, c.Search.Budget = "dp-blsgd", "fixed" },
		"no committed": func(c *config.Config, o *Options) {
			c.Optimizer, c.Batch, c.Steps, c.LR, o.Grid = "majority", nil, nil, nil, "seed=1,2"
		},
		"optimizer pur-a plans its steps": func(c *config.Config, o *Options) {
			c.Optimizer, c.Batch, c.Steps, c.LR, c.Classes, c.Neighbouring, o.Grid = "pur-a", nil, nil, nil, []int{0, 1}, "replace-one", "feature_norm=1,2"
		},
	} {
		c := small()
		o := Options{Grid: smallGrid, Trials: smallTrials, Sources: made(1, true), Out: filepath.Join(t.TempDir(), "out")}
		change(&c, &o)
		_, err := Run(context.Background(), c, o)
		if what == "KEY" {
			what = "no setting"
		}
		var bad *train.UsageError
		if err == nil || !strings.Contains(err.Error(), what) || !errors.As(err, &bad) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Errorf("%s: something was written", what)
		}
	}
}

// Noise of the grid is priced as it is; where it costs more than ε, nothing begins.
func TestNoiseOfTheGrid(t *testing.T) {
	make := func(grid string, epsilon float64) (*Plan, error) {
		c := small()
		c.Epsilon = &epsilon
		return Make(c, grid, smallTrials, made(1, true))
	}
	p, err := make("noise_multiplier=2,6", 8)
	must(t, err)
	if p.TrialEpsilon != nil || p.Candidates[0].NoiseMultiplier != 2 || p.Candidates[1].NoiseMultiplier != 6 {
		t.Errorf("the trials are %+v", p.Candidates)
	}
	alone, err := make("noise_multiplier=2", 8)
	must(t, err)
	if p.Epsilon < alone.Epsilon*(1-1e-9) || p.Epsilon > 8 {
		t.Errorf("ε = %v with the larger noise as well, %v without", p.Epsilon, alone.Epsilon)
	}
	if _, err := make("noise_multiplier=.7,6", 1); !errors.Is(err, accountant.ErrBudget) {
		t.Errorf("too little noise: %v", err)
	}
	if _, err := make("lr=.1,.2", 0.001); !errors.Is(err, accountant.ErrBudget) {
		t.Errorf("an ε that pays for no choice: %v", err)
	}
}

// Every trial has the same ε of its own, whatever its batch and steps, and the whole is at most what was asked for.
func TestTrialsCostAlike(t *testing.T) {
	for _, relation := range []accountant.Neighbouring{accountant.AddRemove, accountant.ReplaceOne} {
		c := small()
		c.Neighbouring = string(relation)
		p, err := Make(c, "batch=20,80;steps=10,50", "poisson:4", made(1, true))
		must(t, err)
		if p.Epsilon > 3 || p.Epsilon < 3*(1-1e-3) {
			t.Errorf("%s: ε = %v", relation, p.Epsilon)
		}
		for _, candidate := range p.Candidates {
			r, err := accountant.Account(candidate.Events, accountant.Options{Accountant: accountant.RDP, Neighbouring: relation, Delta: 1e-4})
			if err != nil || r.Epsilon > *p.TrialEpsilon || r.Epsilon < *p.TrialEpsilon*(1-1e-6) {
				t.Errorf("%s, %v: ε = %v of %v: %v", relation, candidate.Chosen, r.Epsilon, *p.TrialEpsilon, err)
			}
		}
		s, err := p.Selection()
		must(t, err)
		if r, err := s.Epsilon(relation, 1e-4); err != nil || r.Epsilon != p.Epsilon {
			t.Errorf("%s: the record costs %v, and says %v: %v", relation, r.Epsilon, p.Epsilon, err)
		}
	}
}
