package cmd

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/handout"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/report"
)

// reported is what the report command did.
type reported struct {
	Runs     []string             `json:"runs"`
	Files    []string             `json:"files"`
	Composed []report.Composition `json:"composed"`
	Copies   []report.Twin        `json:"copies"`
	Forks    []report.Twin        `json:"forks"`
	Apart    []string             `json:"apart"` // data sets whose runs were not added up with each other
}

func newReport() *cobra.Command {
	var out string
	var o report.Options
	var words bool
	return cli.Command{
		Use:   "report RUN...",
		Short: "Write a page about runs, for people to read",
		Long: `report writes one HTML page for people: the guarantee and its assumptions, accuracy
against ε, the confusion matrix, the settings, and the files with their digests. The page
loads nothing from the network. It is made from the released files of the run alone; no
data set is opened.

train already writes report.html, model-card.md and accuracy.png into the run directory.
"report RUN" writes them again. --out writes the page to another file. With several runs
--out is required. That page compares the runs, and adds up the privacy cost of runs on
the same data set. A data set is known by its name: --same-data adds up all runs.

--statement says in plain words what one run promises, for someone who answers for personal
data: what is protected, what ε and δ mean, what the promise rests on, and what it does not
cover. It prints the text, or writes it as a page by --out. Without a guarantee it says so.

A copy of a run costs nothing more. If both copies of an unfinished run were resumed, report
says that steps were run twice, and adds up both.`,
		Example: `  privgrad report runs/first
  privgrad report runs/first runs/second --out both.html
  privgrad report runs/* --same-data --out all.html
  privgrad report runs/first --statement
  privgrad report runs/first --statement --out statement.html`,
		Args: someArgs,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&out, "out", "", "file of the page (default report.html in the run directory; required for several runs)")
			f.BoolVar(&o.SameData, "same-data", false, "add up all runs, whatever the names of their data sets")
			f.BoolVar(&words, "statement", false, "say in plain words what one run promises; as text, by --out as a page")
		},
		Run: func(c *cli.Call) error {
			if words {
				return handout.State(c, out, o.SameData)
			}
			r, err := writeReport(c.Arguments, out, o)
			if err != nil {
				return err
			}
			return cli.Show(c, r, describeReport)
		},
	}.New()
}

// someArgs asks for run directories.
func someArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage.Errorf("%s takes a run directory or several, but was given none: `%[1]s --help` shows an example", cmd.CommandPath())
	}
	return nil
}

func writeReport(runs []string, out string, o report.Options) (*reported, error) {
	r := &reported{Runs: runs, Composed: []report.Composition{}, Copies: []report.Twin{}, Forks: []report.Twin{}, Apart: []string{}}
	if out == "" {
		if len(runs) > 1 {
			return nil, usage.Errorf("a page of %d runs belongs to none of their directories: name its file, such as --out report.html", len(runs))
		}
		files, err := report.Write(runs[0])
		for _, f := range files {
			r.Files = append(r.Files, filepath.Join(runs[0], f))
		}
		return r, err
	}
	if err := handout.Replaceable(out); err != nil {
		return nil, err
	}
	var page bytes.Buffer
	c, err := report.Together(&page, o, runs...)
	if err != nil {
		return nil, err
	}
	r.Files, r.Composed, r.Copies = []string{out}, append(r.Composed, c.Composed...), append(r.Copies, c.Copies...)
	r.Forks, r.Apart = append(r.Forks, c.Forks...), append(r.Apart, c.Apart...)
	return r, durable.WriteFile(out, func(w io.Writer) error { _, err := w.Write(page.Bytes()); return err })
}

func describeReport(w io.Writer, r *reported) {
	describeTwins(w, r.Copies, r.Forks)
	for _, c := range r.Composed {
		if c.Epsilon == nil {
			fmt.Fprintf(w, "The %d runs on %s have no common ε: %s.\n", len(c.Runs), c.Dataset, c.Why)
			continue
		}
		fmt.Fprintf(w, "The %d runs on %s together: %s (%s; an upper bound).\n", len(c.Runs), c.Dataset, c.Budget(), c.How)
	}
	if len(r.Apart) > 0 {
		fmt.Fprintf(w, "These runs are on data of different names: %s. Data are known by their names. If runs share records, their ε add up: --same-data adds up all runs.\n", strings.Join(r.Apart, "; "))
	}
	for _, f := range r.Files {
		fmt.Fprintln(w, "Written: "+f)
	}
}

// describeTwins says which directories hold one run.
func describeTwins(w io.Writer, copies, forks []report.Twin) {
	for _, t := range forks {
		fmt.Fprintln(w, t.Fork()+".")
	}
	for _, t := range copies {
		fmt.Fprintln(w, t.Copy()+".")
	}
}
