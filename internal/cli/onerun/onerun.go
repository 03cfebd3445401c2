// Package onerun is the command that audits a run by its canaries.
package onerun

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/audit/onerun"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/usage"
)

// errConvicted ends an audit of a run whose canaries refuted the claim.
var errConvicted = errors.New("convicted: the releases of this run tell which canaries took part better than the claimed ε allows, so either clipping, sampling, noise or accounting is wrong; do not publish the run, and please report it")

// Args are a run directory or none.
func Args(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage.Errorf("audit takes one run directory or none, not %d", len(args))
	}
	return nil
}

// Audit tests a run by its canaries.
func Audit(call *cli.Call, dir string) error {
	var other []string
	call.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "json" {
			other = append(other, "--"+f.Name)
		}
	})
	if len(other) > 0 {
		return usage.Errorf("%s: the settings of the run in %s are those with which it was trained; leave %[1]s out", strings.Join(other, ", "), dir)
	}
	r, err := onerun.Audit(dir)
	if err != nil {
		return err
	}
	if err := cli.Show(call, r, describe); err != nil {
		return err
	}
	if r.Convicted {
		return errConvicted
	}
	return nil
}

// describe tells a person what the canaries of a run show.
func describe(w io.Writer, r *onerun.Result) {
	fmt.Fprintf(w, "audit of the run in %s, by its canaries: %d of %d took part\n\n", r.Run, r.Partaking, r.Canaries)
	if r.NotPrivate != "" {
		fmt.Fprintln(w, r.NotPrivate)
	}
	cli.Table(w, 0, func(w io.Writer) {
		row := func(name, format string, a ...any) { cli.Row(w, "  "+name, format, a...) }
		row("claim", "ε = %.4g at δ = %g, by %s: a guess is right with a probability of at most %.2f%%", r.Epsilon, r.Delta, r.Accountant, 100*r.Chance)
		row("guesses", "%d of %d are right (%.2f%%); %d or more would refute the claim", r.Right, r.Canaries, 100*float64(r.Right)/float64(r.Canaries), r.Refuting)
		row("shown", "ε is at least %.4g at δ = %g, with confidence %g%%", r.EpsilonLower, r.Delta, 100*r.Confidence)
		row("power", "%.4g against half the noise", r.Power)
	})
	if r.Convicted {
		fmt.Fprintf(w, "\nCONVICTED: more guesses are right than (ε, δ) allows. A correct run ends here once in %.0f audits at most.\n", 1/(1-r.Confidence))
	} else {
		fmt.Fprintln(w, "\nNot convicted: nothing that was seen contradicts the claim. That is no proof of it; the guarantee, where there is one, is the accountant's.")
	}
}
