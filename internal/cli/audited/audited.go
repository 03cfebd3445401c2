// Package audited has what audits say, of configurations and of runs, and the audit of a run by its canaries.
package audited

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/audit"
	"github.com/privgrad/privgrad/internal/audit/onerun"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/usage"
)

// errConvicted ends an audit of a run whose canaries refuted the claim.
var errConvicted = errors.New("convicted: the releases of this run tell which canaries took part better than the claimed ε allows. A correct run ends here once in 1,000 times at most, so do not publish the model before you know more: audit the same settings by `privgrad audit` without a directory, or train with them on public data and audit that run. If these are convicted too, please report it")

// Args are a run directory or none.
func Args(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage.Errorf("audit takes one run directory or none, not %d", len(args))
	}
	return nil
}

// Run tests a run by its canaries.
func Run(call *cli.Call, dir string) error {
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
	if err := cli.Show(call, r, ofRun); err != nil {
		return err
	}
	if r.Convicted {
		return errConvicted
	}
	return nil
}

// ofRun tells a person what the canaries of a run show.
func ofRun(w io.Writer, r *onerun.Result) {
	fmt.Fprintf(w, "audit of the run in %s, by its canaries: %d of %d took part\n\n", r.Run, r.Partaking, r.Canaries)
	if r.NotPrivate != "" {
		fmt.Fprintln(w, r.NotPrivate)
	}
	cli.Table(w, 0, func(w io.Writer) {
		row := func(name, format string, a ...any) { cli.Row(w, "  "+name, format, a...) }
		row("claim", "ε = %.4g at δ = %g, by %s: a guess is right with a probability of at most %.2f%%", r.Epsilon, r.Delta, r.Accountant, 100*r.Chance)
		refute := fmt.Sprintf("%d or more would refute the claim", r.Refuting)
		if r.Refuting > r.Canaries {
			refute = "no number of so few would refute the claim"
		}
		row("guesses", "%d of %d are right (%.2f%%); %s", r.Right, r.Canaries, 100*float64(r.Right)/float64(r.Canaries), refute)
		row("shown", "ε is at least %.4g at δ = %g, with confidence %g%%", r.EpsilonLower, r.Delta, 100*r.Confidence)
		row("power", "%.4g against half the noise", r.Power)
		if r.Signal < .95 {
			row("", "canaries were heard at %.0f%% of their length: the learning rate, the clip norm or a class weight makes their gradients short", 100*r.Signal)
		}
	})
	if r.Convicted {
		fmt.Fprintf(w, "\nCONVICTED: more guesses are right than (ε, δ) allows. So many have a probability of at most %.2g in a correct run; one in %.0f is convicted.\n", r.PValue, 1/(1-r.Confidence))
	} else {
		fmt.Fprintln(w, "\nNot convicted: nothing that was seen contradicts the claim. That is no proof of it; the guarantee, where there is one, is the accountant's.")
	}
}

// Describe tells a person what was tried and what it shows.
func Describe(w io.Writer, r *audit.Result) {
	fmt.Fprintf(w, "audit of %s: %s (%d parameters) on %s, %s of %s at sampling rate %g,\nnoise multiplier %g (%s), clip norm %g (%s clipping, strategy %s), on synthetic records\n",
		r.Optimizer, r.Model, r.Parameters, r.Device, cli.Plural(r.Runs, "run"), cli.Plural(r.Steps, "step"), r.SamplingRate, r.NoiseMultiplier, r.Noise, r.Clip, r.Clipping, r.Strategy)
	if r.Views > 1 {
		fmt.Fprintf(w, "%d views of each record, which is of even color, so that all its views are the same\n", r.Views)
	}
	if r.RecordsPerUser > 0 {
		fmt.Fprintf(w, "the unit is one user, with %s, which are alike\n", cli.Plural(r.RecordsPerUser, "record"))
	}
	if r.NotPrivate != "" {
		fmt.Fprintln(w, r.NotPrivate)
	}
	fmt.Fprintln(w)
	cli.Table(w, 0, func(w io.Writer) {
		row := func(name, format string, a ...any) { cli.Row(w, "  "+name, format, a...) }
		row("claim", "ε = %.4g at δ = %g, %s neighbors, by %s", r.EpsilonClaimed, r.Delta, r.Neighbouring, r.Accountant)
		if r.Canary == audit.Tight {
			row("heard", "%s, where each says as much as its bound allows", r.Heard)
		} else {
			row("canary", "%s: its gradient is %.3g clip norms long, and moves a sum by %.3g", r.Canary, r.CanaryNorm, r.CanaryShare)
		}
		if r.LearningRuns > 0 {
			row("learned", "from %s of which the adversary knows whether they hold the canary", cli.Plural(r.LearningRuns, "run"))
		}
		row("false positives", "%.4g%% of %s, at most %.4g%%", 100*r.FPR, cli.Plural(r.FPRRuns, "run"), 100*r.FPRUpper)
		row("false negatives", "%.4g%% of %s, at most %.4g%%", 100*r.FNR, cli.Plural(r.FNRRuns, "run"), 100*r.FNRUpper)
		row("", "the claim allows no less than %.3g%% of these at that many of those", 100*r.FNRLeastAllowed)
		row("shown", "ε is at least %.4g at δ = %g, with confidence %g%%", r.EpsilonLowerBound, r.Delta, 100*r.Confidence)
		if p := r.PowerAgainstTwiceMu; p != nil {
			row("power", "%.4g against half the noise (twice the claimed μ)", *p)
		}
	})
	if r.Convicted {
		fmt.Fprintf(w, "\nCONVICTED: the adversary errs less often than (ε, δ) allows. A correct configuration ends here once in %.0f audits at most.\n", 1/(1-r.Confidence))
		if r.EpsilonLowerBound <= r.EpsilonClaimed {
			fmt.Fprintf(w, "What is refuted is a smaller ε with a larger δ, which the claim implies: runs show more there than at δ = %g.\n", r.Delta)
		}
	} else {
		fmt.Fprintln(w, "\nNot convicted: nothing that was seen contradicts the claim. That is no proof of it; the guarantee, where there is one, is the accountant's.")
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "Note: "+n)
	}
}
