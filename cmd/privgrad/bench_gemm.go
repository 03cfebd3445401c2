package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/bench"
)

func newBenchGEMM() *cobra.Command {
	var o bench.GEMMOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "gemm",
		Short: "Time matrix products beside the processor's peak",
		Long: `gemm times float32 matrix products m×k times k×n on one thread and on all of
--threads. In between it measures how fast the processor multiplies and adds in
registers alone, with the widest instructions that it has, and states each
product as a share of that. A dense product is cut among the threads; of the others every thread
has examples of its own. Packing of operands is included as in training.`,
		Example: `  privgrad bench gemm
  privgrad bench gemm --model cifar-small --threads 2 --json`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Model, "model", "", "products of this model's layers, instead of large shapes")
	f.IntVar(&o.Batch, "batch", 256, "with --model: rows of the dense layers' products")
	f.IntVar(&o.Threads, "threads", 0, "processor threads, 0 for all")
	f.Float64Var(&o.Seconds, "seconds", 0.5, "time to measure each product for, on one and on all threads")
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := bench.GEMM(o)
		if err != nil {
			return err
		}
		return show(cmd, asJSON, r, func(w io.Writer) { describeGEMM(w, r) })
	}
	return cmd
}

func describeGEMM(w io.Writer, r *bench.GEMMResult) {
	fmt.Fprintf(w, "float32 products by %s kernels", r.ISA)
	if r.PeakISA != "" {
		fmt.Fprintf(w, "; peak: %s multiply-adds in registers", r.PeakISA)
	}
	fmt.Fprint(w, "\n\n")
	table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "m×k×n\tkind\tthreads\tGFLOP/s\tpeak\tof peak\t")
		for _, p := range r.Products {
			peak, fraction := "unknown", "unknown"
			if p.Peak != nil {
				peak, fraction = fmt.Sprintf("%.0f", *p.Peak), fmt.Sprintf("%.0f %%", 100**p.Fraction)
			}
			fmt.Fprintf(w, "%d×%d×%d\t%s\t%d\t%.1f\t%s\t%s\t\n", p.M, p.K, p.N, p.Kind, p.Threads, p.GFLOPS, peak, fraction)
		}
	})
}
