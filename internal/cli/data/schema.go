package data

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
)

// begun is the JSON form of data schema.
type begun struct {
	Table  string `json:"table"`
	Schema string `json:"schema"` // YAML with placeholders
	File   string `json:"file"`   // that it was written to, else empty
}

func schema() *cobra.Command {
	var label, out string
	return cli.Command{
		Use:   "schema csv:PATH",
		Short: "Print the beginning of a schema for your own table",
		Long: `schema prints a schema (YAML) for a table, with the column names from the first line of the
file. Replace each placeholder with what you know about the data: the bounds of numbers and
dates, the categories, and the classes of the label. Training and data verify refuse a schema
that still has placeholders, and name all of them. With --out it writes a new file:
PATH.schema.yaml is the one that training looks for.

These are the keys of a column:

  bounds       [LOW, HIGH] of a number, or of a date, as [2019-01-01, 2022-12-31]
  missing      what a number or a date counts as that is missing or cannot be read
  kind: date   makes it a column of dates, which have bounds
  format       of dates in the file, such as DD.MM.YYYY (default YYYY-MM-DD)
  categories   [A, B, C]
  ignore       true for a column that is not used

One key is of the whole table: decimal: "," says that the file writes 3,14 for 3.14. The
guide to tables lists all keys (docs/guides/own-table.md).

The command reads that first line and nothing else. If it looks like a record, because a field
is true, NA, or begins with a digit, the command refuses it. It also does so if a field is
empty, except at the beginning: there it is the column without a name that some programs
write for the index, and it is not used. The command cannot tell other words of a record, such
as male or A12, from names of columns. So look at what it prints before you show it to others.`,
		Example: "  privgrad data schema csv:visits.csv --label back --out visits.csv.schema.yaml\n  privgrad data verify csv:visits.csv",
		Args:    cli.OneArg("a table"),
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&label, "label", "", "name of the column to predict (default: a placeholder)")
			f.StringVar(&out, "out", "", "file to write, which must not exist (default: print the schema)")
		},
		Run: func(c *cli.Call) error {
			name := c.Arguments[0]
			if err := datasets.CheckName(name); err != nil {
				return usage.Wrap(err)
			}
			if !strings.HasPrefix(name, source.TablePrefix) {
				return usage.Errorf("data set %s: a schema is for a table: give %sPATH", name, source.TablePrefix)
			}
			path, err := source.Path(&config.Config{Data: name})
			if err != nil {
				return err
			}
			text, err := tabular.Skeleton(path, label)
			if err != nil {
				return usage.Wrap(err)
			}
			if err := cli.NewFile("out", out); err != nil {
				return err
			}
			if out == "" {
				return c.Show(begun{path, text, ""}, func(w io.Writer) { io.WriteString(w, text) })
			}
			if err := durable.WriteFile(out, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
				return err
			}
			return c.Show(begun{path, text, out}, func(w io.Writer) { fmt.Fprintf(w, "wrote %s: replace its placeholders\n", out) })
		},
	}.New()
}
