package bench

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/cli"
)

func account() *cobra.Command {
	var seconds float64
	return cli.Command{
		Use:   "account",
		Short: "Time the accountants",
		Long: `account times what a schedule costs to account for and to calibrate, on one
thread: a long run of DP-SGD, a list of a hundred different mechanisms, and the
noise for a given ε. δ is 1e-5 throughout.`,
		Example: `  privgrad bench account
  privgrad bench account --seconds 5 --json`,
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			f.Float64Var(&seconds, "seconds", 1, "time to measure each task for, at least three times")
		},
		Run: measure(&seconds, bench.Account, describeAccounts),
	}.New()
}

func describeAccounts(w io.Writer, r *bench.AccountResult) {
	cli.Table(w, 0, func(w io.Writer) {
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
