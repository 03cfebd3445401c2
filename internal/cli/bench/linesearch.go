package bench

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/perexample"
)

func lineSearch() *cobra.Command {
	o := bench.LineSearchOptions{StepOptions: bench.StepOptions{Images: data.OfShape, Strategy: string(perexample.Auto)}}
	return cli.Command{
		Use:   "linesearch",
		Short: "Time a private line search beside a DP-SGD step",
		Long: `linesearch times DP-SGD steps and, in turns with them, DP-BLSGD steps: a released
direction, a search that finds its candidate number --tried (or a curve of so
many), and the step along it, on batches of --batch rows. The limit is what the
forward passes at the candidates, and on a fresh batch at the present
parameters, may cost. It needs no data directory: models of 28×28 images get
Fashion-MNIST, the others synthetic bytes.`,
		Example: `  privgrad bench linesearch --model cnn-mnist --batch 300
  privgrad bench linesearch --model mlp-mnist --batch 300 --batches shared --form losses --tried 20 --json`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.StringVar(&o.Model, "model", "cnn-mnist", "model; privgrad info lists them")
			f.IntVar(&o.Batch, "batch", 256, "rows of every batch")
			f.StringVar(&o.Form, "form", bench.SearchForms()[0], "what is asked of the losses: "+strings.Join(bench.SearchForms(), ", "))
			f.StringVar(&o.Batches, "batches", string(accountant.Fresh), "fresh: the search has a batch of its own; shared: it has the gradient's")
			f.IntVar(&o.Tried, "tried", 8, "candidates that a search goes through")
			besideFlags(f, &o.StepOptions)
		},
		Run: func(c *cli.Call) error {
			if err := cli.CheckThreads(o.Threads); err != nil {
				return err
			}
			return measure(&o, bench.LineSearch, describeLineSearch)(c)
		},
	}.New()
}

func describeLineSearch(w io.Writer, r *bench.LineSearchResult) {
	fmt.Fprintf(w, "%s (%s): batch %d of %s, on %s with %s\n\n", r.Model, r.Activation, r.Batch, r.Data, r.Device, cli.Plural(r.Threads, "thread"))
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "  a DP-SGD step\t%.4g s, median of %d\n", r.DPSGDStepSeconds, r.Steps)
		fmt.Fprintf(w, "  with a line search\t%.4g s, %s on a %s batch, form %s\n", r.StepSeconds, cli.Plural(r.Tried, "candidate"), r.Batches, r.Form)
		fmt.Fprintf(w, "  ratio\t%.3g (limit %.3g)\n", r.Ratio, r.Limit)
	})
}
