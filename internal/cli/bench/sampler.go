package bench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/cli"
)

func sampler() *cobra.Command {
	var o bench.SamplerOptions
	return cli.Command{
		Use:   "sampler",
		Short: "Time the drawing of batches",
		Long: `sampler times how batches are drawn, on one thread: which of --records join a
batch of --batch expected rows, each independently of the others.`,
		Example: `  privgrad bench sampler
  privgrad bench sampler --records 1000000 --batch 4096 --json`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.IntVar(&o.Records, "records", 60000, "records to draw from")
			f.Float64Var(&o.Batch, "batch", 1024, "expected rows of a batch")
			f.Float64Var(&o.Seconds, "seconds", 1, "time to measure each sampler for")
		},
		Run: measure(&o, bench.Sampler, describeSampler),
	}.New()
}

func describeSampler(w io.Writer, r *bench.SamplerResult) {
	cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "sampler\tcipher\trecords\trate\tµs a batch\tmillion rows a second\t")
		for _, s := range r.Samplers {
			fmt.Fprintf(w, "%s\t%s\t%d\t%.4g\t%.1f\t%.2f\t\n", s.Sampler, s.Cipher, s.Records, s.Rate, 1e6*s.BatchSeconds, s.RowsPerSecond/1e6)
		}
	})
}
