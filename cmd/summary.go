package cmd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/dryrun"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/perexample"
	"github.com/privgrad/privgrad/report"
	"github.com/privgrad/privgrad/train"
)

// configOf is the configuration of a run; nil where its file cannot be read.
func configOf(r *train.Result) *train.Config {
	c := train.Default()
	if train.ReadConfig(filepath.Join(r.Run, train.ConfigFile), &c) != nil {
		return nil
	}
	return &c
}

// summarise tells a person how a run ended.
func summarise(w io.Writer, r *train.Result) {
	c := configOf(r)
	if !r.Guarantee {
		for _, why := range r.NoGuarantee {
			fmt.Fprintln(w, plan.Labeled(why))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "Trained %s on %s with %s: %s (%s, %s)\n\n", r.Model, r.Dataset, r.Optimizer, steps(r), r.Device, cli.Plural(r.Threads, "thread"))
	cli.Table(w, 0, func(w io.Writer) { summary{w, r}.write() })
	if r.Guarantee {
		fmt.Fprintln(w, "\n  This is a guarantee if")
		rests := "you chose no setting by looking at the training data"
		if r.Tuning != nil {
			rests = r.Tuning.RestsOn()
		}
		fmt.Fprintf(w, "    - %s;\n      privgrad's defaults were chosen on %s\n", rests, plan.ChosenOn(r.DefaultsFrom))
		for _, a := range r.Assumptions {
			fmt.Fprintln(w, "    - "+train.Assumption(a))
		}
	}
	next(w, r, c)
}

// next are the commands that make use of the run, each above a line that says what for: lined up, they
// would be as long as the longest.
func next(w io.Writer, r *train.Result, c *train.Config) {
	fmt.Fprintf(w, "\nNext\n")
	line := func(what, command string) { fmt.Fprintf(w, "  %s\n    %s\n", command, what) }
	run := cli.Quote(r.Run)
	page := filepath.Join(r.Run, report.PageFile)
	if info, err := os.Stat(page); err == nil && info.Mode().IsRegular() {
		line("report for people", page)
	}
	switch { // eval refuses test records that are not public
	case r.TestAccuracy != nil:
		line("confusion matrix", "privgrad eval "+run)
	case r.RMSE != nil:
		line("errors of the saved model", "privgrad eval "+run)
	case r.TestLoss != nil:
		line("loss of the saved model", "privgrad eval "+run)
	}
	if s, _, own := strings.Cut(r.Dataset, ":"); own && s+":" == source.TablePrefix {
		line("predictions for other records", "privgrad predict "+run+" new.csv --csv predictions.csv")
	}
	if r.Canaries > 0 && r.Epsilon != nil {
		line("what the canaries of the run show", "privgrad audit "+run)
	}
	line("the model for other programs", "privgrad export "+run+" --onnx model.onnx")
	if c != nil && r.Delta != nil && !c.Kind().ByBudget && affordable(r, c) {
		line(another(r, c))
	}
}

// affordable says whether half the ε pays for the run, also where something beside its steps costs a part of it.
func affordable(r *train.Result, c *train.Config) bool {
	if c.Epsilon == nil || c.TrainLossNoise == nil && c.Clipping != string(perexample.AdaptiveFlat) {
		return true
	}
	half := *c
	half.Epsilon = new(*c.Epsilon / 2)
	_, err := plan.Reprice(half, r.PublicN, r.Parameters, len(r.Classes))
	return err == nil
}

// another is the command of the same run with another budget, in the terms in which this one's was given,
// and what it is. The run's own file has all other settings.
func another(r *train.Result, c *train.Config) (what, command string) {
	const adds = ": on the same private data, the ε of both add up"
	change, flag, value := "another ε"+adds, "epsilon", 3.0
	switch {
	case c.NoiseMultiplier != nil && *c.NoiseMultiplier == 0: // whose ε is infinite
		change, flag, value = "noise", "noise-multiplier", 1
	case c.NoiseMultiplier != nil:
		change, flag, value = "twice the noise"+adds, "noise-multiplier", 2**c.NoiseMultiplier
	case c.Epsilon != nil:
		value = *c.Epsilon / 2
	}
	file := cli.Quote(filepath.Join(r.Run, train.ConfigFile))
	return "the same run with " + change, fmt.Sprintf("privgrad train -c %s --%s %.3g", file, flag, value)
}

// steps are those of the run and how long they took. Seconds are of the last process alone.
func steps(r *train.Result) string {
	all := cli.Plural(r.Steps, "step")
	if r.Iterations != nil {
		all += " of " + cli.Plural(*r.Iterations, "iteration")
	}
	switch r.StepsNow {
	case r.Steps:
		return fmt.Sprintf("%s in %.0f s", all, r.Seconds)
	case 0: // an earlier process made them
		return all
	}
	return fmt.Sprintf("%s, the last %d in %.0f s after a resume", all, r.StepsNow, r.Seconds)
}

// A summary is the table of a result's figures.
type summary struct {
	io.Writer
	*train.Result
}

func (s summary) row(name, format string, a ...any) { cli.Row(s, "  "+name, format, a...) }

func (s summary) write() {
	s.losses()
	s.privacy()
	if s.Recipe != "" {
		s.row("Recipe", "%s", s.Recipe)
	}
	if t := s.Tuning; t != nil {
		s.row("Settings", "%s", t.Settings())
		s.row("", "the best of a secret number of trials, %.3g on average; ε covers them all", t.Expected)
	}
	s.sampling()
	if s.Counted != nil {
		s.row(titled(s.Noun()), "about %.0f usable, give or take %d, by a noisy count that ε includes", max(*s.Counted, 0), price.CountDoubt(s.PublicN))
	}
	if s.NoiseMultiplier != nil {
		s.row("Noise", "%.5g × %s", *s.NoiseMultiplier, s.clip())
	}
	if s.Committed != nil && s.Steps < *s.Committed {
		s.row("Steps", "%s", report.StepsMade(s.Result))
	}
	if s.Initial != nil {
		s.row("Weights", "%s", s.Initial)
	}
	s.row("Saved to", "%s", s.Run)
}

func (s summary) losses() {
	if s.TestAccuracy != nil {
		s.row("Test accuracy", "%.1f%%%s", 100**s.TestAccuracy, s.baseline())
	}
	if s.AverageAccuracy != nil {
		s.row("of the average", "%.1f%%", 100**s.AverageAccuracy)
	}
	for _, x := range cli.Figures(s.Figures) {
		s.row("Test "+x.Name, "%s", x.Text)
	}
	if s.TestLoss != nil && s.TestAccuracy == nil {
		s.row("Test loss", "%.4f", *s.TestLoss)
	}
	if s.TrainLoss != nil && s.TrainLossIs != nil {
		s.row("Training loss", "%.4f (%s)", *s.TrainLoss, *s.TrainLossIs)
	}
}

// baseline is what the accuracy of the last evaluation is to be compared with; empty where nobody counted classes.
func (s summary) baseline() string {
	if len(s.Evaluations) == 0 {
		return ""
	}
	records, most := 0, 0
	for _, row := range s.Evaluations[len(s.Evaluations)-1].Confusion {
		class := 0
		for _, n := range row {
			class += n
		}
		records, most = records+class, max(most, class)
	}
	if records == 0 {
		return ""
	}
	return fmt.Sprintf(" of %d test records (always the most frequent class: %.1f%%)", records, 100*float64(most)/float64(records))
}

// privacy is what one record has been promised. Its lines stand together.
func (s summary) privacy() {
	switch seeded := slices.Contains(s.NoGuarantee, plan.SeededLabel); {
	case !s.Private(), s.Epsilon == nil:
		s.row("Privacy", "%s", promised(&s.Claim))
	case seeded && len(s.NoGuarantee) == 1:
		s.row("Privacy", "none (with --noise secure: %s)", promised(&s.Claim))
	case seeded:
		s.row("Privacy", "none")
	case !s.Guarantee:
		s.row("Privacy", "no guarantee (stated: %s)", promised(&s.Claim))
	default:
		one := "training record"
		if noun := s.Noun(); noun != "record" {
			one = noun + ", with all records"
		}
		s.row("Privacy", "%s for any one %s (%s, %s)", promised(&s.Claim), one, *s.Neighbouring, *s.Accountant)
	}
	if s.Risk != nil {
		s.row("Attacks", "%s", cli.AttackGuess(s.Risk, "a "+s.Noun()+" was"))
		s.row("", "%s", cli.AttackFinds(s.Risk, s.Noun()+"s"))
	}
}

// titled begins a row about units.
func titled(unit string) string { return strings.ToUpper(unit[:1]) + unit[1:] + "s" }

// promised is what was spent of privacy, in a line.
func promised(c *train.Claim) string {
	switch {
	case !c.Private():
		return "none"
	case c.Epsilon == nil:
		return "none: ε is infinite"
	}
	return fmt.Sprintf("ε = %s, δ = %g", c.Stated(func(x float64) string { return fmt.Sprintf("%.6g", x) }), *c.Delta)
}

func (s summary) sampling() {
	if s.SamplingRate == 1 {
		s.row("Batch", "all %d %ss at every step (their public number)", s.PublicN, s.Noun())
		return
	}
	drawn, each := batches.Words(s.Sampling)
	with := ""
	if s.Canaries > 0 {
		with = fmt.Sprintf(" and %d canaries", s.Canaries)
	}
	s.row("Batch", "%.6g of %d %ss%s %s (%s)", s.ExpectedBatch, s.PublicN, s.Noun(), with, each, drawn)
}

func (s summary) clip() string {
	if s.Clip == nil {
		return "the most that one record changes"
	}
	switch perexample.Clipping(*s.Clipping) {
	case perexample.Flat:
		return fmt.Sprintf("clip norm %g", *s.Clip)
	case perexample.AdaptiveFlat:
		return fmt.Sprintf("adaptive clip norm, %.4g at the end", *s.Clip)
	}
	return fmt.Sprintf("clip norm %g (%s clipping)", *s.Clip, *s.Clipping)
}

// describeEstimate tells a person what a run would cost.
func describeEstimate(w io.Writer, e *dryrun.Estimate) {
	fmt.Fprintf(w, "Dry run of %s on %s with %s (%s, %s): no record was read, nothing was written or charged\n\n", e.Model, e.Dataset, e.Optimizer, e.Device, cli.Plural(e.Threads, "thread"))
	cli.Table(w, 0, func(w io.Writer) {
		row := func(name, format string, a ...any) { cli.Row(w, "  "+name, format, a...) }
		by := ""
		if c := &e.Claim; c.Epsilon != nil {
			by = fmt.Sprintf(" (%s, %s)", *c.Neighbouring, *c.Accountant)
		}
		row("Privacy", "%s%s", promised(&e.Claim), by)
		for _, why := range e.NoGuarantee {
			row("", "%s", plan.Labeled(why))
		}
		if e.Budget != nil {
			row("Budget", "%s", e.Budget)
		}
		if e.NoiseMultiplier != nil {
			row("Noise multiplier", "%.5g", *e.NoiseMultiplier)
		}
		if e.Recipe != "" {
			row("Recipe", "%s", e.Recipe)
		}
		row("Batch", "%.6g of %d %ss per step", e.ExpectedBatch, e.PublicN, e.Claim.Noun())
		if e.Count {
			row(titled(e.Claim.Noun()), "a noisy count of the usable ones comes first; ε includes it")
		}
		row("Steps", "%d", e.Steps)
		if e.Iterations != nil {
			row("Iterations", "%d, in the one step", *e.Iterations)
		}
		row("Parameters", "%d", e.Parameters)
		if e.Initial != nil {
			row("Weights", "%s", e.Initial)
		}
		row("Memory", "about %s for records, features and a batch (result.json will say %s)", cli.ByteSize(e.Memory), cli.ByteSize(e.Rounded))
		if e.Seconds != nil {
			row("Time", "about %v, as busy as this machine is now", time.Duration(*e.Seconds)*time.Second)
			if e.Fitting > 0 {
				row("", "%v of this to prepare the features for such images", time.Duration(e.Fitting)*time.Second)
			}
		} else {
			row("Time", "unknown: %s is no sequence of steps", e.Optimizer)
		}
	})
}
