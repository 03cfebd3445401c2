package report

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/train"
)

// begun is a run that was interrupted, and how many steps it had charged.
func begun(t *testing.T, change func(*train.Config)) (dir string, c train.Config, steps int) {
	t.Helper()
	c = short()
	if change != nil {
		change(&c)
	}
	dir = filepath.Join(t.TempDir(), "A")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if _, err := train.Run(ctx, c, train.Options{Out: dir, Sources: made(true), Progress: &stopper{3, stop}}); !errors.Is(err, train.ErrInterrupted) {
		t.Fatalf("the run was to be interrupted: %v", err)
	}
	state, _, err := ledger.Read(filepath.Join(dir, rundir.Ledger))
	check(t, err)
	return dir, c, state.Reserved
}

// goOn resumes a run.
func goOn(t *testing.T, dir string, c train.Config) {
	t.Helper()
	_, err := train.Run(context.Background(), c, train.Options{Out: dir, Sources: made(true), Resume: train.ResumeRun})
	check(t, err)
}

func copied(t *testing.T, dir, name string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), name)
	check(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// fork is one run of which both copies went on.
func fork(t *testing.T, change func(*train.Config)) (a, b string, common int) {
	t.Helper()
	a, c, common := begun(t, change)
	b = copied(t, a, "B")
	goOn(t, a, c)
	goOn(t, b, c)
	return a, b, common
}

// compareRuns is what a page of several runs says.
func compareRuns(t *testing.T, o Options, dirs ...string) (*Comparison, string) {
	t.Helper()
	var page bytes.Buffer
	c, err := Together(&page, o, dirs...)
	check(t, err)
	return c, words(page.String())
}

// Two copies of one run that both went on cost what all their releases do: those before the copy once, the others twice.
func TestForkCostsBoth(t *testing.T) {
	a, b, common := fork(t, nil)
	if read(t, a, rundir.Ledger) != read(t, b, rundir.Ledger) || common == 0 || common >= 12 {
		t.Fatalf("no fork after %d steps whose ledgers are alike", common)
	}
	other := trained(t, "C", nil)
	releases := func(dirs ...string) (all []accountant.Event) {
		for _, dir := range dirs {
			r, err := open(dir)
			check(t, err)
			all = append(all, r.Events...)
		}
		return all
	}
	price := func(events []accountant.Event) float64 {
		r, err := accountant.Account(events, accountant.Options{Accountant: accountant.PLD, Neighbouring: accountant.AddRemove, Delta: 1e-5})
		check(t, err)
		return r.Epsilon
	}
	after := slices.Clone(releases(b)) // of B alone
	after[len(after)-1].Count -= common
	for _, dirs := range [][]string{{a, b}, {a, b, other}, {other, b, a}} {
		least, most := append(releases(a), after...), releases(dirs...)
		if len(dirs) > 2 {
			least = append(least, releases(other)...)
		}
		c, page := compareRuns(t, Options{}, dirs...)
		if len(c.Composed) != 1 || len(c.Composed[0].Runs) != len(dirs) {
			t.Fatalf("composed %+v", c.Composed)
		}
		if got := *c.Composed[0].Epsilon; got < price(least)*(1-1e-9) || got > price(most)*(1+1e-9) {
			t.Errorf("ε = %v of %d runs; all releases cost %v, and %v where those before the copy count twice", got, len(dirs), price(least), price(most))
		}
		if len(c.Forks) != 1 || len(c.Copies) != 0 || !slices.Contains(c.Forks[0].Differs, rundir.Model) || !strings.Contains(page, "Steps were run twice") {
			t.Errorf("forks %+v, copies %+v", c.Forks, c.Copies)
		}
	}
	v, err := VerifyAll(a, b, other)
	check(t, err)
	if v.OK || len(v.Forks) != 1 || v.Runs[0].OK || v.Runs[1].OK || !v.Runs[2].OK {
		t.Errorf("verified %+v", v)
	}
	for _, dir := range []string{a, b} { // each by itself has nothing that differs
		if v, err := Verify(dir); err != nil || !v.OK {
			t.Errorf("verified %+v: %v", v, err)
		}
	}
}

// Forks of a run whose data has another name by now go together, too.
func TestForkOfOtherName(t *testing.T) {
	a, b, _ := fork(t, nil)
	edit(t, filepath.Join(b, rundir.Result), `"dataset": "made"`, `"dataset": "csv:elsewhere"`)
	if c, _ := compareRuns(t, Options{}, a, b); len(c.Composed) != 1 || c.Apart != nil {
		t.Errorf("%+v", c)
	}
}

// Two forks can leave the same model, such as one that follows from which of two noisy counts is larger. What tells them apart
// is that other processes made them. Here updates are too small to change a parameter.
func TestForkWithTheSameModel(t *testing.T) {
	a, c, _ := begun(t, func(c *train.Config) { c.LR = ptr(1e-300) })
	b := copied(t, a, "B")
	goOn(t, a, c)
	goOn(t, b, c)
	if read(t, a, rundir.Model) != read(t, b, rundir.Model) {
		t.Fatal("the models are not alike")
	}
	got, _ := compareRuns(t, Options{}, a, b)
	if len(got.Forks) != 1 || len(got.Composed) != 1 || !slices.Equal(got.Forks[0].Differs, []string{rundir.Processes}) {
		t.Errorf("%+v", got)
	}
	for _, dir := range []string{a, b} { // as an earlier version leaves it
		check(t, os.Remove(filepath.Join(dir, rundir.Processes)))
	}
	if got, _ := compareRuns(t, Options{}, a, b); len(got.Forks) != 1 || len(got.Composed) != 1 {
		t.Errorf("without processes: %+v", got)
	}
}

// A run that is named twice, or a copy of it, is counted once, and that is said. Where something was changed or is gone that
// would show it, both are counted.
func TestCopiesAreOneRun(t *testing.T) {
	a := trained(t, "A", nil)
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(a, link))
	remove := func(names ...string) func(string) {
		return func(dir string) {
			for _, name := range names {
				check(t, os.RemoveAll(filepath.Join(dir, name)))
			}
		}
	}
	overwrite := func(name string) func(string) {
		return func(dir string) {
			path := filepath.Join(dir, name)
			check(t, os.WriteFile(path, []byte(read(t, path)+"\n"), 0o644))
		}
	}
	for name, c := range map[string]struct {
		change func(dir string)
		copies bool
	}{
		"a copy":                         {func(string) {}, true},
		"with another page":              {overwrite(PageFile), true},
		"without a page":                 {remove(PageFile, CardFile, PictureFile), true},
		"without a checkpoint":           {remove(rundir.Checkpoints), true},
		"without evaluations":            {remove(rundir.Metrics), true},
		"with another model":             {overwrite(rundir.Model), false},
		"with another checkpoint":        {overwrite(rundir.Dir("").State()), false},
		"with other evaluations":         {overwrite(rundir.Metrics), false},
		"with other processes":           {overwrite(rundir.Processes), false},
		"without a model":                {remove(rundir.Model), false},
		"without processes":              {remove(rundir.Processes), false},
		"without a ledger":               {remove(rundir.Ledger), false},
		"without ledger and checkpoint":  {remove(rundir.Ledger, rundir.Checkpoints), false},
		"with a damaged ledger":          {overwrite(rundir.Ledger), false},
		"with a smaller ε":               {func(dir string) { edit(t, filepath.Join(dir, rundir.Result), `"epsilon": 2.9`, `"epsilon": 1.9`) }, false},
		"without a time":                 {func(dir string) { edit(t, filepath.Join(dir, rundir.Result), `"seconds": `, `"seconds": 9`) }, true},
		"with an empty ledger":           {func(dir string) { check(t, os.Truncate(filepath.Join(dir, rundir.Ledger), 0)) }, false},
		"with a damaged ledger, no more": {func(dir string) { overwrite(rundir.Ledger)(dir); remove(rundir.Checkpoints)(dir) }, false},
	} {
		b := copied(t, a, "B")
		c.change(b)
		for _, dirs := range [][]string{{a, b}, {b, a}} {
			got, page := compareRuns(t, Options{}, dirs...)
			if copies := len(got.Copies) == 1 && len(got.Composed) == 0 && len(got.Forks) == 0; copies != c.copies || copies != strings.Contains(page, "costs nothing more") {
				t.Errorf("%s: %+v", name, got)
			}
			if !c.copies && (len(got.Composed) != 1 || len(got.Composed[0].Runs) != 2) {
				t.Errorf("%s: composed %+v", name, got.Composed)
			}
		}
	}
	for _, dirs := range [][]string{{a, a}, {a, a + string(filepath.Separator)}, {a, link}, {link, filepath.Join(a, "..", "A")}} {
		if got, _ := compareRuns(t, Options{}, dirs...); len(got.Copies) != 1 || len(got.Composed) != 0 {
			t.Errorf("%q: %+v", dirs, got)
		}
	}
	bare := copied(t, a, "bare") // of which nothing says what it is
	remove(rundir.Ledger, rundir.Checkpoints, rundir.Model)(bare)
	if got, _ := compareRuns(t, Options{}, bare, bare+"/"); len(got.Copies) != 1 || len(got.Composed) != 0 {
		t.Errorf("without a ledger, named twice: %+v", got)
	}
	v, err := VerifyAll(a, copied(t, a, "B"), link)
	check(t, err)
	if !v.OK || len(v.Copies) != 2 || len(v.Forks) != 0 {
		t.Errorf("verified %+v", v)
	}
}

// Two copies that are both like a third, from which a file is gone, need not be like each other.
func TestCopiesAgreeAllWithAll(t *testing.T) {
	less, a, b := trained(t, "A", nil), "", ""
	a, b = copied(t, less, "A"), copied(t, less, "B")
	check(t, os.Remove(filepath.Join(less, rundir.Metrics)))
	edit(t, filepath.Join(b, rundir.Metrics), `"step":3`, `"step": 3`)
	for _, dirs := range [][]string{{less, a, b}, {a, less, b}, {a, b, less}} {
		got, _ := compareRuns(t, Options{}, dirs...)
		if len(got.Composed) != 1 || len(got.Composed[0].Runs) != 2 || len(got.Forks) != 1 || len(got.Copies) != 1 {
			t.Errorf("%+v", got)
		}
	}
}

// A run that has not finished is not left out of a sum in silence. Beside its own copy it is not to be resumed.
func TestUnfinishedAmongSeveral(t *testing.T) {
	a, c, steps := begun(t, nil)
	b := copied(t, a, "B")
	other := trained(t, "C", nil)
	refused := func(want string, dirs ...string) {
		t.Helper()
		var page bytes.Buffer
		for _, do := range []func() error{
			func() error { _, err := Together(&page, Options{}, dirs...); return err },
			func() error { _, err := VerifyAll(dirs...); return err },
		} {
			if err := do(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "its ledger charges 25%") {
				t.Errorf("%q: after %d steps of 12: %v", dirs, steps, err)
			}
		}
	}
	refused("continue it by `privgrad resume "+a, other, a)
	refused("Do not resume both", a, b)
	goOn(t, a, c)
	refused("Do not resume both", a, b)
	refused("Do not resume both", b, other, a)
}
