package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/bench"
)

func newBenchNoise() *cobra.Command {
	var o bench.NoiseOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "noise",
		Short: "Time Gaussian noise, released and exact",
		Long: `noise times exactly rounded Gaussian draws from the cryptographic streams, on
one thread and on all of --threads: releases, which round a float32 to a grid and
add a draw, and draws that are added to an integer. The kinds take turns.`,
		Example: `  privgrad bench noise
  privgrad bench noise --seconds 5 --json`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.Threads, "threads", 0, "processor threads, 0 for all")
	f.Float64Var(&o.Seconds, "seconds", 1, "time to measure each kind for, on one and on all threads")
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := bench.Noise(o)
		if err != nil {
			return err
		}
		return show(cmd, asJSON, r, func(w io.Writer) { describeNoise(w, r) })
	}
	return cmd
}

func describeNoise(w io.Writer, r *bench.NoiseResult) {
	table(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "noise\tcipher\tthreads\tns a draw and core\tmillion draws a second\t")
		for _, c := range r.Ciphers {
			fmt.Fprintf(w, "%s\t%s\t%d\t%.2f\t%.1f\t\n", c.Noise, c.Cipher, c.Threads, 1e9*c.SecondsPerDraw, c.DrawsPerSecond/1e6)
		}
	})
}
