// Package reproduce reruns figures and tables of papers, and writes what came out
// beside what the papers say: every run's figures as CSV, a picture, and a page of
// Markdown with a verdict on each claim.
//
// Published benchmark data count as public here: objective values on training
// data are shown, so that no run has a guarantee, whatever ε it states, and every
// output says so.
package reproduce

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/train"
)

// DeclaredPublic is why no run of this package has a guarantee.
const DeclaredPublic = "data declared public"

// quickLabel goes with whatever is not the figure's full work.
const quickLabel = "QUICK: a fraction of the work, not the figure's own settings"

// Options is what a caller chooses.
type Options struct {
	Out     string // directory of the files
	Seeds   int    // runs of every setting; 0 for the figure's own number
	Quick   bool
	Threads int    // runs at a time, 0 for all cores; with a GPU one
	Device  string // as train's
	DataDir string // where tables and image files are looked for, or in folders of it
	Sources map[string]train.Source
	// Protector is that of the figures of learned protection, a name or a file; empty:
	// the figure's own.
	Protector string
	// Progress is told of runs that ended, of how many there are as far as known,
	// and what is running; Notice of what is left out.
	Progress func(done, total int, next string)
	Notice   func(line string)

	work float64 // share of the full number of steps, for tests; 0 follows Quick
}

// A Summary is what was done.
type Summary struct {
	Figure      string    `json:"figure"`
	Source      string    `json:"source"`
	Quick       bool      `json:"quick"`
	Labels      []string  `json:"labels"`
	Seeds       int       `json:"seeds"`
	Runs        int       `json:"runs"`       // shown
	RunsNow     int       `json:"runs_now"`   // of them made by this process
	RunsOther   int       `json:"runs_other"` // kept in the file, of other settings
	Skipped     []string  `json:"skipped"`
	Claims      []Claim   `json:"claims"`
	Guarantee   bool      `json:"guarantee"`
	NoGuarantee []string  `json:"not_a_guarantee_because"`
	CSV         string    `json:"csv"`
	Picture     string    `json:"picture"`
	Markdown    string    `json:"markdown"`
	Tables      []heading `json:"-"`
}

// A Figure can be rerun.
type Figure struct {
	Name   string
	Short  string // one line
	Source string // paper, and where in it

	seeds     int    // of the full figure
	protector string // unless another is chosen; empty: it has none
	alone     bool   // one job at a time, as it is measured

	plan func(e *env) ([]job, error)
	then func(e *env, t table) ([]job, error) // what depends on the first runs; nil: nothing
	show func(e *env, t table) page
}

// A page is what a figure shows of its records.
type page struct {
	charts [][]chart
	claims []Claim
	tables []heading
	how    []string // settings, and what the paper leaves open
}

// A heading is a table of a page.
type heading struct {
	Title string
	Head  []string
	Rows  [][]string
}

// A job is one run of train, or, where make is there, whatever that does.
type job struct {
	Record // what identifies it
	config train.Config
	// protector takes the place of the configuration's; nil: it has none.
	protector *protection

	what string // in the place of the configuration, all that the records follow from
	make func(ctx context.Context) ([]Record, error)
}

// Figures lists what can be rerun.
func Figures() []Figure {
	return []Figure{fig1, fig2, fig3, fig4, fig5, rates, l2pFig6, l2pFig7, l2pFig8, l2pMNIST35, l2pTable1}
}

// Find gives a figure by its name.
func Find(name string) (*Figure, error) {
	var names []string
	for _, f := range Figures() {
		if f.Name == name {
			return &f, nil
		}
		names = append(names, f.Name)
	}
	return nil, usage("unknown figure %q: choose one of %s", name, strings.Join(names, ", "))
}

func usage(format string, a ...any) error { return &train.UsageError{Err: fmt.Errorf(format, a...)} }

// env is what the plans of figures see.
type env struct {
	Options
	figure  *Figure
	learned *protection // nil: the figure has none
	skipped []string
	labels  []string
}

// steps scales a number of steps, or of anything else that is work.
func (e *env) steps(full int) int { return max(int(math.Round(e.work*float64(full))), 2) }

// skip leaves something out and says so, once.
func (e *env) skip(format string, a ...any) {
	line := fmt.Sprintf(format, a...)
	if slices.Contains(e.skipped, line) {
		return
	}
	e.skipped = append(e.skipped, line)
	if e.Notice != nil {
		e.Notice(line)
	}
}

// label adds what must be said beside every figure.
func (e *env) label(text string) {
	if !slices.Contains(e.labels, text) {
		e.labels = append(e.labels, text)
	}
}

// Run reruns a figure. What an earlier call with the same settings finished, in
// the same directory, is not repeated; when ctx is cancelled, what was finished is
// kept and train.ErrInterrupted returned.
func (f *Figure) Run(ctx context.Context, o Options) (*Summary, error) {
	if o.Out == "" {
		return nil, usage("no directory is given for the files: name one by --out")
	}
	if o.Seeds < 0 {
		return nil, usage("seeds %d: must be 1 or more, or 0 for the figure's own number", o.Seeds)
	}
	if o.Threads < 0 {
		return nil, usage("threads %d: must be 1 or more, or 0 for all cores", o.Threads)
	}
	if o.Seeds == 0 {
		if o.Seeds = f.seeds; o.Quick {
			o.Seeds = 3
		}
	}
	if o.work == 0 {
		if o.work = 1; o.Quick {
			o.work = 0.2
		}
	}
	if o.DataDir == "" {
		o.DataDir = os.Getenv(train.DataDirVariable)
	}
	o.Sources = cached(o.Sources)
	e := &env{Options: o, figure: f}
	if o.Quick {
		e.label(quickLabel)
	}
	s := &Summary{
		Figure: f.Name, Source: f.Source, Quick: o.Quick, Seeds: o.Seeds, NoGuarantee: []string{DeclaredPublic},
		CSV: filepath.Join(o.Out, f.Name+".csv"), Picture: filepath.Join(o.Out, f.Name+".png"), Markdown: filepath.Join(o.Out, f.Name+".md"),
	}
	kept, err := readRecords(s.CSV)
	if err != nil {
		return nil, err
	}
	for i := range kept {
		if quick := strings.Contains(kept[i].Label, quickLabel); quick != o.Quick {
			return nil, usage("%s holds runs with --quick=%t, and these are with --quick=%t: choose another --out", s.CSV, quick, o.Quick)
		}
	}
	if f.protector != "" {
		if e.learned, err = findProtection(o.Protector, f.protector); err != nil {
			return nil, err
		}
	} else if o.Protector != "" {
		return nil, usage("protector %s: %s is of no protector; leave it out", o.Protector, f.Name)
	}
	jobs, err := f.plan(e)
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, usage("%s has nothing to run: %s", f.Name, strings.Join(e.skipped, "; "))
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, usage("%w: choose an --out that can be written", err)
	}
	w := &work{env: e, path: s.CSV, all: kept}
	if err := w.do(ctx, jobs); err != nil {
		return nil, err
	}
	if f.then != nil {
		more, err := f.then(e, w.of(jobs))
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, more...)
		if err := w.do(ctx, jobs); err != nil {
			return nil, err
		}
	}
	t := w.of(jobs)
	p := f.show(e, t)
	s.Runs, s.RunsNow, s.RunsOther = runs(t), w.made, runs(w.all)-runs(t)
	s.Labels, s.Skipped, s.Claims, s.Tables = append([]string{}, e.labels...), append([]string{}, e.skipped...), p.claims, p.tables
	if err := durable.WriteFile(s.Picture, func(w io.Writer) error { return drawCharts(w, s.caption(f), p.charts) }); err != nil {
		return nil, err
	}
	return s, durable.WriteFile(s.Markdown, func(w io.Writer) error { _, err := io.WriteString(w, s.page(f, p)); return err })
}

// cached opens every data set once for all runs, which only read it.
func cached(sources map[string]train.Source) map[string]train.Source {
	all := map[string]train.Source{}
	for name, s := range sources {
		var mu sync.Mutex
		opened := map[string]*datasets.Set{}
		all[name] = train.Source{BuiltIn: s.BuiltIn, Open: func(dir string) (*datasets.Set, error) {
			mu.Lock()
			defer mu.Unlock()
			if set := opened[dir]; set != nil {
				return set, nil
			}
			set, err := s.Open(dir)
			if err == nil {
				opened[dir] = set
			}
			return set, err
		}}
	}
	return all
}

// work is the runs of a figure, as far as they are done.
type work struct {
	*env
	path string
	all  []Record
	made int
}

// identify completes the job's record with the fingerprint of its settings.
func (j *job) identify() error {
	b := []byte(j.what)
	if j.make == nil {
		var err error
		if b, err = j.settings(); err != nil {
			return err
		}
	}
	h := sha256.Sum256(b)
	j.Settings = hex.EncodeToString(h[:6])
	return nil
}

// settings are a run's configuration without what changes no result.
func (j *job) settings() ([]byte, error) {
	c := j.config
	c.DataDir, c.Device, c.Threads, c.Memory = "", "", 0, ""
	c.PublishedSet = false // images from files always are
	if path, ok := strings.CutPrefix(c.Data, train.TablePrefix); ok {
		c.Data = train.TablePrefix + filepath.Base(path) // wherever it lies
	}
	if j.protector != nil {
		c.Protector = j.protector.digest
	}
	return c.YAML()
}

// do makes the runs that are not there yet, several at a time.
func (w *work) do(ctx context.Context, jobs []job) error {
	done := map[string]bool{}
	for i := range w.all {
		done[w.all[i].key()] = true
	}
	var left []job
	for i := range jobs {
		if err := jobs[i].identify(); err != nil {
			return err
		}
		if !done[jobs[i].key()] {
			left = append(left, jobs[i])
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan job)
	var mu sync.Mutex
	finished := len(jobs) - len(left)
	tell := func(j job) {
		if w.Progress != nil {
			w.Progress(finished, len(jobs), fmt.Sprintf("%s, %s, seed %d", j.Panel, j.Series, j.Seed))
		}
	}
	var group sync.WaitGroup
	for range w.atOnce() {
		group.Go(func() {
			for j := range next {
				mu.Lock()
				tell(j)
				mu.Unlock()
				records, err := w.run(ctx, j)
				mu.Lock()
				if err == nil {
					w.all = append(w.all, records...)
					err = writeRecords(w.path, w.all)
					w.made += runs(records)
					finished++
					tell(j)
				}
				mu.Unlock()
				if err != nil {
					cancel(fmt.Errorf("%s, %s, %s, seed %d: %w", w.figure.Name, j.Panel, j.Series, j.Seed, err))
					return
				}
			}
		})
	}
feed:
	for _, j := range left {
		select {
		case next <- j:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	if ctx.Err() == nil {
		return nil
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, train.ErrInterrupted) {
		return err
	}
	return fmt.Errorf("%w after %d of %d runs, which %s keeps: start the command again to go on", train.ErrInterrupted, finished, len(jobs), w.path)
}

// atOnce is the number of runs at a time. Small networks use several cores badly,
// several runs use them well; a GPU is one.
func (w *work) atOnce() int {
	switch {
	case w.onGPU(), w.figure.alone:
		return 1
	case w.Threads > 0:
		return w.Threads
	}
	return runtime.NumCPU()
}

func (e *env) onGPU() bool { return strings.HasPrefix(e.Device, "cuda") }

// of gives the records of some jobs, in their order.
func (w *work) of(jobs []job) table {
	byKey := map[string][]Record{}
	for i := range w.all {
		byKey[w.all[i].key()] = append(byKey[w.all[i].key()], w.all[i])
	}
	var t table
	for i := range jobs {
		t = append(t, byKey[jobs[i].key()]...)
	}
	return t
}

// runs counts them: each has one last record.
func runs(all []Record) (n int) {
	for i := range all {
		if all[i].Final {
			n++
		}
	}
	return n
}

// run does a job. What all of its records share need not be in what make gives.
func (w *work) run(ctx context.Context, j job) ([]Record, error) {
	first := j.Record
	if w.Quick {
		first.Label = strings.TrimSuffix(quickLabel+"; "+first.Label, "; ")
	}
	if j.make == nil {
		return w.train(ctx, j, first)
	}
	records, err := j.make(ctx)
	for i := range records {
		r := &records[i]
		r.Panel, r.Series, r.Setting, r.X, r.Settings, r.Label = first.Panel, first.Series, first.Setting, first.X, first.Settings, first.Label
		r.NoGuarantee = simulated
	}
	return records, err
}

// simulated is why what no run of train made has no guarantee.
const simulated = DeclaredPublic + "; simulated with ordinary pseudo-random noise"

// train makes one run in a directory of its own and gives its evaluations.
func (w *work) train(ctx context.Context, j job, first Record) ([]Record, error) {
	dir, err := os.MkdirTemp("", "privgrad-reproduce-")
	if err != nil {
		return nil, fmt.Errorf("a directory for a run: %w", err)
	}
	defer os.RemoveAll(dir)
	c := j.config
	c.Device, c.DataIsPublic = w.Device, true
	if j.protector != nil {
		c.Protector = filepath.Join(dir, "protector.safetensors")
		if err := j.protector.Write(c.Protector); err != nil {
			return nil, err
		}
	}
	if !w.onGPU() {
		c.Threads = 1
		if c.Device == "" {
			c.Device = "cpu"
		}
	}
	if c.Memory == "" {
		c.Memory = "1GiB" // several runs share the machine's
	}
	first.NoGuarantee = DeclaredPublic
	out := filepath.Join(dir, "run")
	result, err := train.Run(ctx, c, train.Options{Out: out, Sources: w.Sources})
	if errors.Is(err, accountant.ErrBudget) {
		first.Final, first.Epsilon, first.Delta, first.Note = true, c.Epsilon, c.Delta, "the budget does not pay for a single step"
		return []Record{first}, nil
	}
	if err != nil {
		return nil, err
	}
	first.Epsilon, first.Delta, first.Batch, first.Seconds = result.Epsilon, result.Delta, result.ExpectedBatch, result.Seconds
	if result.Accountant != nil {
		first.Accountant = *result.Accountant
	}
	first.Guarantee = result.Guarantee
	first.NoGuarantee = strings.Join(append([]string{DeclaredPublic}, result.NoGuarantee...), "; ")
	first.Gradients, first.Objectives = number(result.GradientEvaluations), number(result.ObjectiveEvaluations)
	return metrics(filepath.Join(out, "metrics.jsonl"), first)
}

func number(n *int) *float64 {
	if n == nil {
		return nil
	}
	x := float64(*n)
	return &x
}

// metrics reads a run's evaluations into copies of a record.
func metrics(path string, of Record) ([]Record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Record
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var line struct {
			Step          int      `json:"step"`
			EpsilonSoFar  *float64 `json:"epsilon_so_far"`
			TestLoss      *float64 `json:"test_loss"`
			TestAccuracy  *float64 `json:"test_accuracy"`
			LR            *float64 `json:"lr"`
			TrainLoss     *float64 `json:"train_loss"`
			TrainAccuracy *float64 `json:"train_accuracy"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r := of
		r.Step, r.EpsilonSoFar, r.Rate = line.Step, line.EpsilonSoFar, line.LR
		r.TestLoss, r.TestAccuracy, r.TrainLoss, r.TrainAccuracy = line.TestLoss, line.TestAccuracy, line.TrainLoss, line.TrainAccuracy
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no evaluation; please report this", path)
	}
	all[len(all)-1].Final = true
	return all, nil
}

// caption stands above the picture.
func (s *Summary) caption(f *Figure) []string {
	return append([]string{f.Short + ", rerun", f.Source, "NO GUARANTEE: " + strings.Join(s.NoGuarantee, "; ")}, s.Labels...)
}

// page is the Markdown file.
func (s *Summary) page(f *Figure, p page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s, rerun. Runs: %d, seeds: %d.\n\n**NO GUARANTEE**: %s. ε is what the accounting says of private data.\n\n", f.Short, f.Source, s.Runs, s.Seeds, strings.Join(s.NoGuarantee, "; "))
	for _, l := range s.Labels {
		fmt.Fprintf(&b, "**%s**\n\n", l)
	}
	fmt.Fprintf(&b, "![%s](%s)\n\n", f.Name, filepath.Base(s.Picture))
	if len(p.claims) > 0 {
		b.WriteString("## What is claimed, and what came out\n\n")
		var rows [][]string
		for _, c := range p.claims {
			rows = append(rows, []string{c.Claim, c.Found, "**" + c.Verdict + "**"})
		}
		markdownTable(&b, []string{"claim, in our words", "here", "verdict"}, rows)
		b.WriteString("Comparisons are paired by seed, with 95 % intervals by Student's t over seeds, unless another is named, each by itself: of many, some are wrong.\n\n")
	}
	for _, t := range p.tables {
		fmt.Fprintf(&b, "## %s\n\n", t.Title)
		markdownTable(&b, t.Head, t.Rows)
	}
	if len(p.how) > 0 {
		b.WriteString("## How\n\n")
		for _, h := range p.how {
			fmt.Fprintf(&b, "- %s\n", h)
		}
		b.WriteString("\n")
	}
	if len(s.Skipped) > 0 {
		b.WriteString("## Left out\n\n")
		for _, l := range s.Skipped {
			fmt.Fprintf(&b, "- %s\n", l)
		}
		b.WriteString("\n")
	}
	if s.RunsOther > 0 {
		fmt.Fprintf(&b, "The file %s also keeps %d runs of other settings, which nothing here shows.\n", filepath.Base(s.CSV), s.RunsOther)
	}
	return b.String()
}
