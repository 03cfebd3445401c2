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

func noise() *cobra.Command {
	var o bench.NoiseOptions
	return cli.Command{
		Use:   "noise",
		Short: "Time Gaussian noise, released and exact",
		Long: `noise times exactly rounded Gaussian draws from the cryptographic streams, on
one thread and on all of --threads: releases, which round a float32 to a grid and
add a draw, and draws that are added to an integer. The kinds take turns.`,
		Example: `  privgrad bench noise
  privgrad bench noise --seconds 5 --json`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.IntVar(&o.Threads, "threads", 0, "processor threads, 0 for all")
			f.Float64Var(&o.Seconds, "seconds", 1, "time to measure each kind for, on one and on all threads")
		},
		Run: measure(&o, bench.Noise, describeNoise),
	}.New()
}

func describeNoise(w io.Writer, r *bench.NoiseResult) {
	cli.Table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "noise\tcipher\tthreads\tns a draw and core\tmillion draws a second\t")
		for _, c := range r.Ciphers {
			fmt.Fprintf(w, "%s\t%s\t%d\t%.2f\t%.1f\t\n", c.Noise, c.Cipher, c.Threads, 1e9*c.SecondsPerDraw, c.DrawsPerSecond/1e6)
		}
	})
}
