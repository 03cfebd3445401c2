package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/bench"
)

func newBenchSampler() *cobra.Command {
	var o bench.SamplerOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sampler",
		Short: "Time the drawing of batches",
		Long: `sampler times how batches are drawn, on one thread: which of --records join a
batch of --batch expected rows, each independently of the others.`,
		Example: `  privgrad bench sampler
  privgrad bench sampler --records 1000000 --batch 4096 --json`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.Records, "records", 60000, "records to draw from")
	f.Float64Var(&o.Batch, "batch", 1024, "expected rows of a batch")
	f.Float64Var(&o.Seconds, "seconds", 1, "time to measure each sampler for")
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := bench.Sampler(o)
		if err != nil {
			return err
		}
		return show(cmd, asJSON, r, func(w io.Writer) { describeSampler(w, r) })
	}
	return cmd
}

func describeSampler(w io.Writer, r *bench.SamplerResult) {
	table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "sampler\tcipher\trecords\trate\tµs a batch\tmillion rows a second\t")
		for _, s := range r.Samplers {
			fmt.Fprintf(w, "%s\t%s\t%d\t%.4g\t%.1f\t%.2f\t\n", s.Sampler, s.Cipher, s.Records, s.Rate, 1e6*s.BatchSeconds, s.RowsPerSecond/1e6)
		}
	})
}
