package cmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/report"
)

// errDiffers is how a verification ends that found something.
var errDiffers = errors.New("the files of the run disagree, or cannot all be checked here: the lines with DIFFERS say where; do not rely on the run until nothing differs")

func newVerify() *cobra.Command {
	return cli.Command{
		Use:   "verify RUN...",
		Short: "Check a run's files against each other, without its data",
		Long: `verify is for an auditor who has a run directory but no data. It computes ε again from
the releases that result.json lists, by every accountant that can. It compares result.json
with the configuration, the ledger and the evaluations. It compares the digests of files
with the files. Exit code 1 means that something differs.

With several runs, verify also says which directories are copies of one run, and fails where
both copies went on: steps were run twice then.

verify shows that the files agree. It does not show that the training took place: invented
files can agree as well. It does not read report.html and model-card.md; "privgrad report
RUN" writes them again.`,
		Example: `  privgrad verify runs/first
  privgrad verify runs/first --json
  privgrad verify runs/*`,
		Args: someArgs,
		Run: func(c *cli.Call) error {
			if len(c.Arguments) > 1 {
				return verifyAll(c)
			}
			v, err := report.Verify(c.Arguments[0])
			if err != nil {
				return err
			}
			if err := cli.Show(c, v, describeVerification); err != nil || v.OK {
				return err
			}
			return errDiffers
		},
	}.New()
}

func verifyAll(c *cli.Call) error {
	all, err := report.VerifyAll(c.Arguments...)
	if err != nil {
		return err
	}
	if err := cli.Show(c, all, describeVerifications); err != nil || all.OK {
		return err
	}
	return errDiffers
}

func describeVerifications(w io.Writer, all *report.Verifications) {
	for _, v := range all.Runs {
		describeVerification(w, v)
		fmt.Fprintln(w)
	}
	describeTwins(w, all.Copies, all.Forks)
}

func describeVerification(w io.Writer, v *report.Verification) {
	fmt.Fprintf(w, "%s\n\n%s\n\n", v.Run, v.Statement)
	cli.Table(w, 0, func(w io.Writer) {
		for _, c := range v.Checks {
			verdict := "ok"
			if !c.OK {
				verdict = "DIFFERS"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", verdict, c.Name, c.Detail)
		}
	})
	if len(v.Epsilon) > 0 {
		fmt.Fprint(w, "\nε, computed again\n")
		cli.Table(w, 0, func(w io.Writer) {
			for _, name := range append(accountant.Names(), accountant.Pure{}.Name()) {
				epsilon, there := v.Epsilon[name]
				switch {
				case !there:
				case epsilon == nil:
					cli.Row(w, "  "+name, "infinite")
				default:
					note := ""
					if name != (accountant.Pure{}).Name() && accountant.NoGuarantee(name) != "" {
						note = " (no guarantee)"
					}
					cli.Row(w, "  "+name, "%.6g%s", *epsilon, note)
				}
			}
		})
	}
	fmt.Fprintf(w, "\n%s\n", v.Shows)
}
