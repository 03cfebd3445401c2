// Package reproduce reruns figures and tables of papers and compares the outcome with what the
// papers claim. `privgrad reproduce list` is the way to start; papers.Find gives a Figure to Go
// programs. A figure writes every run's figures as CSV, a picture, and a page of Markdown with
// a verdict on each claim. Each paper has a package of its own below.
//
// Published benchmark data count as public here. Objective values on training data are shown, so
// no run has a guarantee, whatever ε it states. Every output says so.
package reproduce

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
	"github.com/privgrad/privgrad/train"
)

// DeclaredPublic is why no run of this package has a guarantee.
const DeclaredPublic = "data declared public"

// QuickLabel goes with whatever is not the figure's full work.
const QuickLabel = "QUICK: a fraction of the work, not the figure's own settings"

// Options is what a caller chooses.
type Options struct {
	Out     string // directory of the files
	Seeds   int    // runs of every setting; 0 for what the figure needs
	Quick   bool
	Work    float64 // share of the full number of steps; 0 follows Quick
	Threads int     // runs at a time, 0 for all cores; with a GPU one
	Device  string  // as train's
	DataDir string  // where tables and image files are looked for, or in folders of it
	Sources map[string]train.Source
	Stamp   string // when, and by which program, for the page; empty: it says neither
	// Protector is that of the figures of learned protection, a name or a file; empty:
	// the figure's own.
	Protector string
	// Progress is told of runs that ended, of how many there are as far as known,
	// and what is running; Notice of what is left out.
	Progress func(done, total int, next string)
	Notice   func(line string)

	most int // seeds of what is not settled by fewer
}

// complete refuses what cannot be, and puts a figure's own choices where there are none.
func (o *Options) complete(f *Figure) error {
	switch {
	case o.Out == "":
		return usage.Errorf("no directory is given for the files: name one by --out")
	case o.Seeds < 0:
		return usage.Errorf("seeds %d: must be 1 or more, or 0 for the figure's own number", o.Seeds)
	case o.Threads < 0:
		return usage.Errorf("threads %d: must be 1 or more, or 0 for all cores", o.Threads)
	}
	seeds, work := f.Seeds, 1.0
	if o.Quick {
		seeds, work = 3, 0.2
	}
	o.most = max(f.Most, f.Seeds)
	if o.Quick || o.Seeds > 0 {
		o.most = 0 // a number that was chosen stays
	}
	o.Seeds, o.Work = cmp.Or(o.Seeds, seeds), cmp.Or(o.Work, work)
	o.Out = written.Path(o.Out)
	o.DataDir = cmp.Or(o.DataDir, os.Getenv(config.DataDirVariable))
	o.Sources = cached(o.Sources)
	return nil
}

// A Summary is what was done.
type Summary struct {
	Figure      string   `json:"figure"`
	Source      string   `json:"source"`
	Quick       bool     `json:"quick"`
	Labels      []string `json:"labels"`
	Seeds       int      `json:"seeds"`
	MostSeeds   int      `json:"most_seeds"` // of settings whose comparisons fewer left open
	Runs        int      `json:"runs"`       // shown
	RunsNow     int      `json:"runs_now"`   // of them made by this process
	RunsOther   int      `json:"runs_other"` // kept in the file, of other settings
	Skipped     []string `json:"skipped"`
	Claims      []Claim  `json:"claims"`
	Guarantee   bool     `json:"guarantee"`
	NoGuarantee []string `json:"not_a_guarantee_because"`
	CSV         string   `json:"csv"`
	Picture     string   `json:"picture"`
	Markdown    string   `json:"markdown"`
	Tables      []Table  `json:"-"`

	stamp string
}

// A Figure can be rerun.
type Figure struct {
	Name   string
	Short  string // one line
	Source string // paper, and where in it
	Seeds  int    // of the full figure
	// Most is how many seeds a setting gets at most: more than Seeds while a comparison that a
	// claim rests on is open (Estimate.Open). 0: no more than Seeds.
	Most      int
	Protector string // unless another is chosen; empty: it has none
	Alone     bool   // one job at a time, as it is measured

	Plan func(e *Env) ([]Job, error)
	Then func(e *Env, rs Records) ([]Job, error) // what depends on the first runs; nil: nothing
	Show func(e *Env, rs Records) Page
}

// Run reruns a figure. What an earlier call with the same settings finished, in
// the same directory, is not repeated; when ctx is cancelled, what was finished is
// kept and train.ErrInterrupted returned.
func (f *Figure) Run(ctx context.Context, o Options) (*Summary, error) {
	if err := o.complete(f); err != nil {
		return nil, err
	}
	e := &Env{Options: o}
	if o.Quick {
		e.Label(QuickLabel)
	}
	w := &work{Env: e, figure: f, path: filepath.Join(o.Out, f.Name+".csv")}
	if err := w.read(); err != nil {
		return nil, err
	}
	if err := e.protect(f); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, usage.Errorf("%w: choose an --out that can be written", err)
	}
	for _, ending := range []string{".csv", ".png", ".md"} { // before hours of work
		path := filepath.Join(o.Out, f.Name+ending)
		if _, err := durable.Regular(path); err != nil {
			return nil, usage.Errorf("%s: %w", path, err)
		}
	}
	first := e.Seeds
	rs, err := w.round(ctx, nil)
	if err != nil {
		return nil, err
	}
	p := f.Show(e, rs)
	for open := p.open(); e.Seeds < e.most && len(open) > 0; open = p.open() {
		e.Seeds = min(2*e.Seeds, e.most)
		if rs, err = w.round(ctx, open); err != nil {
			return nil, err
		}
		p = f.Show(e, rs)
	}
	return f.write(w, rs, p, first)
}

// write writes the files of a figure, whose settings all have so many seeds.
func (f *Figure) write(w *work, rs Records, p Page, seeds int) (*Summary, error) {
	e, last := w.Env, rs.lastSeed(w.Seeds)
	s := &Summary{
		Figure: f.Name, Source: f.Source, Quick: e.Quick, Seeds: min(seeds, last), MostSeeds: min(e.Seeds, last), NoGuarantee: []string{DeclaredPublic}, stamp: e.Stamp,
		Runs: rs.runs(), RunsNow: w.made, RunsOther: w.all.runs() - rs.runs(),
		Labels: append([]string{}, e.labels...), Skipped: append([]string{}, e.skipped...), Claims: p.Claims, Tables: p.Tables,
		CSV: w.path, Picture: filepath.Join(e.Out, f.Name+".png"), Markdown: filepath.Join(e.Out, f.Name+".md"),
	}
	if err := durable.WriteFile(s.Picture, func(w io.Writer) error { return Draw(w, s.Caption(f), p.Charts) }); err != nil {
		return nil, err
	}
	return s, durable.WriteFile(s.Markdown, func(w io.Writer) error { _, err := io.WriteString(w, s.markdown(f, p)); return err })
}
