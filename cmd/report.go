package cmd

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/report"
)

// reported is what the report command did.
type reported struct {
	Runs     []string             `json:"runs"`
	Files    []string             `json:"files"`
	Composed []report.Composition `json:"composed"`
}

func newReport() *cobra.Command {
	var out string
	return cli.Command{
		Use:   "report RUN...",
		Short: "Write a page about runs, for people to read",
		Long: `report writes one HTML page: what is promised and on what that rests, accuracy
against ε, the confusion matrix, settings, and the files with their digests. The page
needs no network. It is made of the run's released files alone; no data set is opened.

train writes report.html, model-card.md and accuracy.png into the run directory.
"report RUN" writes them anew. With several runs, or elsewhere, name the page by --out.
The page of several runs compares them, and says what those on one data set cost a
record together.`,
		Example: `  privgrad report runs/first
  privgrad report runs/first runs/second --out both.html`,
		Args: someArgs,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&out, "out", "", "the page's file (default report.html in the run directory, if there is one)")
		},
		Run: func(c *cli.Call) error {
			r, err := writeReport(c.Arguments, out)
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

func writeReport(runs []string, out string) (*reported, error) {
	r := &reported{Runs: runs, Composed: []report.Composition{}}
	if out == "" {
		if len(runs) > 1 {
			return nil, usage.Errorf("a page of %d runs belongs to none of their directories: name its file by --out, such as --out report.html", len(runs))
		}
		files, err := report.Write(runs[0])
		for _, f := range files {
			r.Files = append(r.Files, filepath.Join(runs[0], f))
		}
		return r, err
	}
	var page bytes.Buffer
	composed, err := report.Together(&page, runs...)
	if err != nil {
		return nil, err
	}
	r.Files, r.Composed = []string{out}, append(r.Composed, composed...)
	return r, durable.WriteFile(out, func(w io.Writer) error { _, err := w.Write(page.Bytes()); return err })
}

func describeReport(w io.Writer, r *reported) {
	for _, c := range r.Composed {
		if c.Epsilon == nil {
			fmt.Fprintf(w, "The %d runs on %s have no ε together: %s.\n", len(c.Runs), c.Dataset, c.Why)
			continue
		}
		fmt.Fprintf(w, "The %d runs on %s together: %s (%s; an upper bound).\n", len(c.Runs), c.Dataset, c.Budget(), c.How)
	}
	for _, f := range r.Files {
		fmt.Fprintln(w, "Written: "+f)
	}
}
