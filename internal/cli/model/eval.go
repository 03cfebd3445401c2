// Package model is the commands that use the saved model of a run.
package model

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/trained"
)

// Eval is the command that evaluates a model.
func Eval() *cobra.Command {
	var other, dataDir, device string
	var threads int
	var average, public bool
	return cli.Command{
		Use:   "eval RUN",
		Short: "Evaluate a saved model on the test data",
		Long: `eval measures the saved model of a run on the public test data: accuracy, loss and
confusion matrix, with AUC and balanced accuracy for two classes. For a regression these
are loss, RMSE, MAE and R². It evaluates the parameters after the last step. If the run
was trained with --average, eval --average evaluates their moving average instead.

With --data it evaluates the model on other labelled data, which must be public, as its
figures have no noise: declare that by --test-is-public. They are read as the data of the
run were. Of dir:PATH it reads the images in PATH/test/CLASS, or in PATH/CLASS where there
are no folders train and test; of npz:PATH x_test and y_test; of csv:PATH all records.
Nothing is written.`,
		Example: `  privgrad eval runs/first
  privgrad eval runs/averaged --average
  privgrad eval runs/first --json --device reference
  privgrad eval runs/photos --data dir:new-photos --test-is-public`,
		Args: cli.OneArg("a run directory"),
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&other, "data", "", "evaluate on these labelled data instead, as train --data names them")
			f.BoolVar(&public, "test-is-public", false, "the labelled records of --data are public")
			f.StringVar(&dataDir, "data-dir", "", "folder of the data files, if they have moved")
			f.StringVar(&device, "device", "", "auto, cpu, cuda, cuda:N or reference (default the run's)")
			f.IntVar(&threads, "threads", 0, "CPU threads; 0: all")
			f.BoolVar(&average, "average", false, "evaluate the moving average of the parameters")
		},
		Run: func(c *cli.Call) error {
			if err := cli.CheckThreads(threads); err != nil {
				return err
			}
			switch {
			case other != "" && !public:
				return usage.Errorf("--data %s: accuracy and loss are computed without noise, and would tell of single records: add --test-is-public if all of these are public", other)
			case public && other == "":
				return usage.Errorf("--test-is-public declares that the records of --data are public: name them")
			}
			m, err := trained.Open(c.Arguments[0], trained.Options{Sources: data.Sources(), DataDir: dataDir, Device: device, Threads: threads, Average: average})
			if err != nil {
				return err
			}
			warnUnfinished(c, m)
			evaluate := m.Evaluate
			if other != "" {
				evaluate = func() (*trained.Evaluation, error) { return m.EvaluateOn(other) }
			}
			e, err := evaluate()
			if err != nil {
				return err
			}
			for _, w := range e.Warnings {
				warn(c, w)
			}
			return cli.Show(c, e, describeEvaluation)
		},
	}.New()
}

// warn writes a line on standard error.
func warn(c *cli.Call, text string) { fmt.Fprintln(c.ErrOrStderr(), "privgrad: warning: "+text) }

// warnLabel says if the noise of a model protects nobody, or its ε is not proven.
func warnLabel(c *cli.Call, m *trained.Model) {
	if label := m.Metadata()["noise"]; label != "" {
		warn(c, label)
	}
}

// warnUnfinished says if the run of a model has not finished.
func warnUnfinished(c *cli.Call, m *trained.Model) {
	if text := m.Unfinished(); text != "" {
		warn(c, text)
	}
}

func describeEvaluation(w io.Writer, e *trained.Evaluation) {
	model := e.Model
	if e.Average {
		model += ", moving average of the parameters,"
	}
	fmt.Fprintf(w, "%s on %d test records of %s\n", model, e.Examples, e.Dataset)
	if e.NotPrivate != "" {
		fmt.Fprintln(w, e.NotPrivate)
	}
	fmt.Fprintln(w)
	cli.Table(w, 0, func(w io.Writer) {
		if e.Accuracy != nil {
			fmt.Fprintf(w, "  test accuracy\t%.2f%%\n", 100**e.Accuracy)
		}
		if e.Loss != nil {
			fmt.Fprintf(w, "  test loss\t%.4f\n", *e.Loss)
		}
		for _, x := range cli.Figures(e.Figures) {
			fmt.Fprintf(w, "  test %s\t%s\n", x.Name, x.Text)
		}
	})
	if e.Confusion == nil {
		return
	}
	fmt.Fprintf(w, "\nTrue classes are in rows, what the model said is in columns:\n\n")
	rows, columns := headings(e)
	cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintf(w, "\t%s\tright\t\n", strings.Join(columns, "\t"))
		for class, row := range e.Confusion {
			total := 0
			fmt.Fprint(w, rows[class])
			for _, n := range row {
				fmt.Fprintf(w, "\t%d", n)
				total += n
			}
			if total > 0 {
				fmt.Fprintf(w, "\t%.1f%%\t\n", 100*float64(row[class])/float64(total))
			} else {
				fmt.Fprintln(w, "\t–\t")
			}
		}
	})
}

// widestHead is how many characters the names of all columns may take together.
const widestHead = 100

// headings name the rows and the columns of a confusion matrix: both by the classes or, where
// that is too wide, the columns by numbers, which then stand beside the names of the rows.
func headings(e *trained.Evaluation) (rows, columns []string) {
	width := 0
	for class := range e.Confusion {
		name := fmt.Sprint(class)
		columns = append(columns, name)
		if class < len(e.Classes) {
			name = e.Classes[class]
		}
		rows = append(rows, name)
		width += utf8.RuneCountInString(name) + 2
	}
	if width <= widestHead {
		return rows, rows
	}
	for class, number := range columns {
		if rows[class] != number {
			rows[class] += " " + number
		}
	}
	return rows, columns
}
