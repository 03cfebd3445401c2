package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/bench"
)

func newBenchAccount() *cobra.Command {
	var o bench.AccountOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Time the accountants",
		Long: `account times what a schedule costs to account for and to calibrate, on one
thread: a long run of DP-SGD, a list of a hundred different mechanisms, and the
noise for a given ε. δ is 1e-5 throughout.`,
		Example: `  privgrad bench account
  privgrad bench account --seconds 5 --json`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Float64Var(&o.Seconds, "seconds", 1, "time to measure each task for, at least three times")
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := bench.Account(o)
		if err != nil {
			return err
		}
		return show(cmd, asJSON, r, func(w io.Writer) { describeAccounts(w, r) })
	}
	return cmd
}

func describeAccounts(w io.Writer, r *bench.AccountResult) {
	table(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "task\taccountant\tε\twidth\tmilliseconds")
		for _, a := range r.Accounts {
			width := "–"
			if a.Width != nil {
				width = fmt.Sprintf("%.2g", *a.Width)
			}
			fmt.Fprintf(w, "%s\t%s\t%.5g\t%s\t%.3g\n", a.Task, a.Accountant, a.Epsilon, width, 1e3*a.Seconds)
		}
	})
}
