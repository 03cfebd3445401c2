package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/perexample"
)

func newBenchLineSearch() *cobra.Command {
	o := bench.LineSearchOptions{StepOptions: bench.StepOptions{Images: benchImages, Strategy: string(perexample.Auto)}}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "linesearch",
		Short: "Time a private line search beside a DP-SGD step",
		Long: `linesearch times DP-SGD steps and, in turns with them, DP-SGD steps followed by
a line search: on a fresh batch of --batch rows, the clipped losses at the
parameters and at --tried less one step sizes along the released gradient, each
0.8 of the one before, are summed, noised and read. It needs no data directory:
models of 28×28 images get Fashion-MNIST, the others synthetic bytes.`,
		Example: `  privgrad bench linesearch --model cnn-mnist --batch 300
  privgrad bench linesearch --model mlp-mnist --batch 300 --tried 20 --json`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Model, "model", "cnn-mnist", "model; privgrad info lists them")
	f.IntVar(&o.Batch, "batch", 256, "rows of every batch")
	f.IntVar(&o.Tried, "tried", 8, "points that a search evaluates, the present parameters among them")
	f.StringVar(&o.Activation, "activation", "relu", "relu or tanh")
	f.StringVar(&o.Device, "device", "auto", "auto, cpu, cuda, cuda:N or reference (slow)")
	f.IntVar(&o.Threads, "threads", 0, "processor threads, 0 for all")
	f.Float64Var(&o.Seconds, "seconds", 5, "time to measure for")
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Threads < 0 {
			return usagef("threads %d: must be 1 or more, or 0 for all", o.Threads)
		}
		r, err := bench.LineSearch(o)
		if err != nil {
			return err
		}
		return show(cmd, asJSON, r, func(w io.Writer) { describeLineSearch(w, r) })
	}
	return cmd
}

func describeLineSearch(w io.Writer, r *bench.LineSearchResult) {
	fmt.Fprintf(w, "%s (%s): batch %d of %s, on %s with %s\n\n", r.Model, r.Activation, r.Batch, r.Data, r.Device, plural(r.Threads, "thread"))
	table(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "  a DP-SGD step\t%.4g s, median of %d\n", r.DPSGDStepSeconds, r.Steps)
		fmt.Fprintf(w, "  with a line search\t%.4g s, %d points\n", r.StepSeconds, r.Tried)
		fmt.Fprintf(w, "  ratio\t%.3g\n", r.Ratio)
	})
}
