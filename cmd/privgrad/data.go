package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/cifar"
	"github.com/privgrad/privgrad/datasets/mnist"
	"github.com/privgrad/privgrad/datasets/mnist/fashion"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

// sources are train's data sets and the one that this binary carries.
func sources() map[string]train.Source {
	s := train.Sources()
	s[mnist.Fashion.Name] = train.Source{BuiltIn: true, Open: func(string) (*datasets.Set, error) { return fashion.Open() }}
	return s
}

// layouts are the image sets that can be fetched and verified.
var layouts = []*datasets.Layout{&mnist.Fashion, &mnist.Layout, &cifar.Layout}

func layout(name string) (*datasets.Layout, error) {
	var names []string
	for _, l := range layouts {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return nil, usage.Errorf("unknown data set %q: choose one of %s", name, strings.Join(names, ", "))
}

func newData() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "data",
		Short:   "List, fetch and verify data sets",
		Long:    "data lists the data sets, fetches those that are not built in, and verifies files.",
		Example: "  privgrad data list\n  privgrad data fetch mnist --data-dir data/mnist",
	}
	cmd.AddCommand(newDataList(), newDataFetch(), newDataVerify())
	return cmd
}

// setInfo is a data set in data list and info.
type setInfo struct {
	Name    string     `json:"name"`
	BuiltIn bool       `json:"built_in"`
	Records int        `json:"public_n"`
	Shape   [3]int     `json:"shape"` // channels, height, width
	Classes []string   `json:"classes"`
	Files   []string   `json:"files"`
	Sources []download `json:"sources"`
	Note    string     `json:"note"`
}

type download struct {
	URL    string `json:"url"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func setInfos() []setInfo {
	known := sources()
	var all []setInfo
	for _, l := range layouts {
		s := setInfo{Name: l.Name, BuiltIn: known[l.Name].BuiltIn, Shape: l.Shape, Classes: l.ClassNames, Note: l.Note, Sources: []download{}}
		for _, n := range l.PerClass {
			s.Records += n
		}
		for _, p := range slices.Concat(l.Train, l.Test) {
			s.Files = append(s.Files, p.File)
		}
		for _, d := range datasets.Downloads(l.Name) {
			s.Sources = append(s.Sources, download{d.URL, d.Size, d.SHA256})
		}
		all = append(all, s)
	}
	return all
}

func newDataList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the data sets: where they come from, their files and licences",
		Long: `list shows the data sets that train knows, where they come from, which files they
consist of, and a note on origin and licence; then the published tables whose
schemas are built in. A table of your own needs a schema of public bounds and
categories beside it: see docs/tabular.md.`,
		Example: "  privgrad data list",
		Args:    noArgs,
	}
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all := setInfos()
		tables, err := tableInfos()
		if err != nil {
			return err
		}
		return show(cmd, asJSON, map[string]any{"data_sets": all, "tables": tables}, func(w io.Writer) {
			for _, s := range all {
				describeSet(w, s)
				fmt.Fprintln(w)
			}
			describeTables(w, tables)
		})
	}
	return cmd
}

func describeSet(w io.Writer, s setInfo) {
	var size int64
	for _, d := range s.Sources {
		size += d.Bytes
	}
	fmt.Fprintf(w, "%s: %d training records of %d×%d×%d in %d classes\n", s.Name, s.Records, s.Shape[0], s.Shape[1], s.Shape[2], len(s.Classes))
	if s.BuiltIn {
		fmt.Fprintln(w, "  built in")
	} else {
		fmt.Fprintf(w, "  get it by: privgrad data fetch %s --data-dir DIR (%s)\n", s.Name, byteSize(size))
	}
	fmt.Fprintf(w, "  classes: %s\n", strings.Join(s.Classes, ", "))
	fmt.Fprintf(w, "  files, each also as .gz: %s\n", strings.Join(s.Files, ", "))
	for _, d := range s.Sources {
		fmt.Fprintf(w, "  from %s\n", d.URL)
	}
	fmt.Fprintf(w, "  note: %s\n", s.Note)
}

// directory is the flag's, or the environment's.
func directory(flag string) string {
	if flag != "" {
		return flag
	}
	return os.Getenv(train.DataDirVariable)
}

func needDirectory(flag, what string) (string, error) {
	dir := directory(flag)
	if dir == "" {
		return "", usage.Errorf("no directory is given: name the one %s by --data-dir or %s", what, train.DataDirVariable)
	}
	return dir, nil
}

func newDataFetch() *cobra.Command {
	var dir, progress string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fetch NAME",
		Short: "Download a data set",
		Long: `fetch downloads a data set's missing files from their publisher and checks them
against their SHA-256. What broke off, or was interrupted, goes on where it
stopped at the next call; files that are there are never overwritten.`,
		Example: "  privgrad data fetch mnist --data-dir data/mnist\n  privgrad train --data mnist --data-dir data/mnist --published-set --epsilon 3",
		Args:    oneArg("the name of a data set"),
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "directory to fetch into (or "+train.DataDirVariable+")")
	progressFlag(cmd, &progress)
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := layout(args[0])
		if err != nil {
			return err
		}
		dir, err := needDirectory(dir, "to fetch into")
		if err != nil {
			return err
		}
		con, err := newConsole(cmd.ErrOrStderr(), progress)
		if err != nil {
			return err
		}
		ctx, stop := interruptible(cmd.Context(), con, "stopping the download")
		defer stop()
		started := false
		err = datasets.Fetcher{}.Fetch(ctx, l, dir, func(done, total int64) {
			if !started {
				con.start(total, true)
				started = true
			}
			con.update(done, l.Name)
		})
		con.finish()
		if errors.Is(err, context.Canceled) {
			return fmt.Errorf("%w: the same command goes on from here", train.ErrInterrupted)
		}
		if err != nil {
			return err
		}
		what := "fetched and checked"
		if !started {
			what = "already there"
		}
		return show(cmd, asJSON, fetched{l.Name, dir, started}, func(w io.Writer) {
			fmt.Fprintf(w, "%s is %s, in %s\n\nNext:\n  privgrad train --data %[1]s --data-dir %[4]s --published-set --epsilon 3\n", l.Name, what, dir, quote(dir))
		})
	}
	return cmd
}

// fetched is the JSON form of data fetch.
type fetched struct {
	Set        string `json:"data_set"`
	Directory  string `json:"data_dir"`
	Downloaded bool   `json:"downloaded"` // false if all files were there
}

// verification is the JSON form of data verify. What was found out about
// records is not in it: that is for the owner's eyes, and JSON gets stored.
type verification struct {
	Set       string     `json:"data_set"`
	OK        bool       `json:"ok"`
	Files     []fileInfo `json:"files"`
	Structure *string    `json:"structure"` // what is wrong between the files, else null
}

type fileInfo struct {
	Name      string  `json:"name"`
	Path      string  `json:"path"`
	Present   bool    `json:"present"`
	Structure *string `json:"structure"` // what is wrong, else null
	Digest    string  `json:"digest"`    // known, unknown, or unlisted
}

func newDataVerify() *cobra.Command {
	var dir, schema string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify NAME|csv:PATH",
		Short: "Check the files of a data set or a table",
		Long: `verify reads a data set's files whole and checks that they are well formed and
whether their content is the published one. A private set in the published
format is fine: its digest is unknown, and nothing follows from that. Training
looks at no digest: say --published-set where the files are the published ones.

What is computed from the records, such as their number and the labels that are
no class, is shown under the banner PRIVATE: it is no business of anybody whom
the records are to be protected from. It is not in the JSON form. The command
fails if the structure is broken.

Of a table it checks header and schema, and counts, under the same banner, what
training passes over in silence: malformed records, numbers out of bounds,
unknown categories, bad labels.`,
		Example: "  privgrad data verify fmnist                           # what is built in\n  privgrad data verify mnist --data-dir data/mnist\n  privgrad data verify csv:adult.data\n  privgrad data verify csv:mine.csv --schema mine.yaml",
		Args:    oneArg("the name of a data set"),
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "directory of the files (or "+train.DataDirVariable+"; fmnist is built in)")
	cmd.Flags().StringVar(&schema, "schema", "", "schema of a table: a file (default PATH.schema.yaml) or one of "+strings.Join(tabularNames(), ", "))
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if path, ok := strings.CutPrefix(args[0], train.TablePrefix); ok {
			return verifyTable(cmd, asJSON, path, schema)
		}
		if schema != "" {
			return usage.Errorf("schema %s: data set %s has a layout of its own; leave out --schema", schema, args[0])
		}
		l, err := layout(args[0])
		if err != nil {
			return err
		}
		var r *datasets.Report
		if dir == "" && l.Name == mnist.Fashion.Name {
			r, err = fashion.Verify()
		} else {
			if dir, err = needDirectory(dir, "that holds the files"); err != nil {
				return err
			}
			r, err = datasets.Verify(dir, l)
		}
		if err != nil {
			return err
		}
		v := verification{Set: r.Set, OK: r.OK(), Structure: message(r.Structure)}
		for _, f := range r.Files {
			v.Files = append(v.Files, fileInfo{f.Name, f.Path, f.Present, message(f.Structure), f.Digest.String()})
		}
		if err := show(cmd, asJSON, v, func(w io.Writer) { describeReport(w, l, r) }); err != nil {
			return err
		}
		if !r.OK() {
			return fmt.Errorf("the files of %s are not whole: see the report, then mend them or fetch them again", l.Name)
		}
		return nil
	}
	return cmd
}

func message(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}

func describeReport(w io.Writer, l *datasets.Layout, r *datasets.Report) {
	table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "file\tstructure\tdigest")
		for _, f := range r.Files {
			structure, digest := "sound", f.Digest.String()
			switch {
			case !f.Present:
				structure, digest = "missing", "–"
			case f.Structure != nil:
				structure = "broken"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Path, structure, digest)
		}
	})
	for _, f := range r.Files {
		if f.Structure != nil {
			fmt.Fprintf(w, "\n%v\n", f.Structure)
		}
	}
	if r.Structure != nil {
		fmt.Fprintf(w, "\n%v\n", r.Structure)
	}
	if r.Private == nil {
		return
	}
	private(w, func(w io.Writer) {
		fmt.Fprintln(w, "\ttraining\ttest")
		row := func(name string, of func(datasets.RecordReport) int) {
			fmt.Fprintf(w, "%s\t%d\t%d\n", name, of(r.Private.Train), of(r.Private.Test))
		}
		row("records", func(r datasets.RecordReport) int { return r.Records })
		row("labels that are no class", func(r datasets.RecordReport) int { return r.OutOfRange })
		for class, name := range l.ClassNames {
			row("class "+name, func(r datasets.RecordReport) int { return r.PerClass[class] })
		}
	})
}

// private shows a table of what is computed from records, between banners.
func private(w io.Writer, rows func(io.Writer)) {
	fmt.Fprint(w, "\n*** PRIVATE: computed from the records, for their owner only ***\n\n")
	table(w, 0, rows)
	fmt.Fprint(w, "\n*** end of PRIVATE ***\n")
}
