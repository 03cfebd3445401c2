package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/perexample"
	"github.com/privgrad/privgrad/report"
	"github.com/privgrad/privgrad/train"
)

// summarise tells a person how a run ended.
func summarise(w io.Writer, r *train.Result) {
	fmt.Fprintf(w, "%s on %s by %s: %s in %.0f s on %s (%s)\n\n", r.Model, r.Dataset, r.Optimizer, cli.Plural(r.Steps, "step"), r.Seconds, r.Device, cli.Plural(r.Threads, "thread"))
	if !r.Guarantee {
		fmt.Fprintln(w, "NO PRIVACY GUARANTEE, because")
		for _, why := range r.NoGuarantee {
			fmt.Fprintln(w, "  - "+why)
		}
		fmt.Fprintln(w)
	}
	cli.Table(w, 0, func(w io.Writer) { summary{w, r}.write() })
	fmt.Fprintf(w, "\nNext:\n")
	cli.Table(w, 0, func(w io.Writer) {
		fmt.Fprintf(w, "  report\t%s\n", filepath.Join(r.Run, report.PageFile))
		if r.TestAccuracy != nil { // eval refuses test records that are not public, too
			fmt.Fprintf(w, "  confusion matrix\tprivgrad eval %s\n", cli.Quote(r.Run))
			fmt.Fprintf(w, "  accuracy picture\t%s\n", filepath.Join(r.Run, report.PictureFile))
		}
		if r.Delta != nil {
			fmt.Fprintf(w, "  another budget\tprivgrad train -c %s --epsilon 8\n", cli.Quote(filepath.Join(r.Run, train.ConfigFile)))
		}
		fmt.Fprintln(w, "  other models, data\tprivgrad info")
	})
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
	s.sampling()
	if s.NoiseMultiplier != nil {
		s.row("noise multiplier", "%.6g, of the %s", *s.NoiseMultiplier, s.clip())
	}
	if s.Committed != nil && s.Steps < *s.Committed {
		s.row("steps", "%d of %d: the others were lost to interruptions, and stay charged", s.Steps, *s.Committed)
	}
	s.row("run directory", "%s", s.Run)
}

func (s summary) losses() {
	if s.TestAccuracy != nil {
		s.row("test accuracy", "%.2f %%", 100**s.TestAccuracy)
	}
	if s.AverageAccuracy != nil {
		s.row("of the average", "%.2f %%", 100**s.AverageAccuracy)
	}
	if s.TestLoss != nil {
		s.row("test loss", "%.4f", *s.TestLoss)
	}
	if s.TrainLoss != nil && s.TrainLossIs != nil {
		s.row("training loss", "%.4f (%s)", *s.TrainLoss, *s.TrainLossIs)
	}
}

func (s summary) privacy() {
	switch {
	case s.Delta == nil: // the optimizer is not a private one
	case s.Epsilon == nil:
		s.row("privacy", "ε is infinite")
	default:
		s.row("privacy", "ε = %.6g at δ = %g for %s, %s neighbours, by %s", *s.Epsilon, *s.Delta, s.PrivacyUnit, *s.Neighbouring, *s.Accountant)
	}
	if !s.Guarantee {
		s.row("guarantee", "no")
		return
	}
	s.row("guarantee", "yes, provided that")
	for _, a := range s.Assumptions {
		s.row("", "  %s", train.Assumption(a))
	}
	s.row("", "  the settings were not chosen by looking at the private data")
	s.row("", "  (the defaults were chosen on the %s)", s.DefaultsFrom)
}

func (s summary) sampling() {
	switch {
	case s.SamplingRate == 1:
		s.row("sampling", "none: all records at once (publicly %d)", s.PublicN)
	case s.Sampling == "poisson":
		s.row("sampling", "Poisson at rate %.4g: %.6g of %d records expected a step", s.SamplingRate, s.ExpectedBatch, s.PublicN)
	default:
		s.row("sampling", "subsets of a fixed size: %g of %d records a step", s.ExpectedBatch, s.PublicN)
	}
}

func (s summary) clip() string {
	switch perexample.Clipping(*s.Clipping) {
	case perexample.Flat:
		return fmt.Sprintf("clip norm %g", *s.Clip)
	case perexample.AdaptiveFlat:
		return fmt.Sprintf("adaptive clip norm, %.4g at the end", *s.Clip)
	}
	return fmt.Sprintf("clip norm %g (%s clipping)", *s.Clip, *s.Clipping)
}
