package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/perexample"
	"github.com/privgrad/privgrad/train"
)

func newTrain() *cobra.Command {
	var file, out, progress string
	var resume train.Resume
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Train a model and write a run directory",
		Long: `train trains a model and writes a run directory: the complete configuration
(config.yaml), the model (model.safetensors), metrics.jsonl, accuracy.png and
result.json, with all that a crash needs to be resumed from.

Give --epsilon, and the noise is calibrated to that budget, or
--noise-multiplier, and ε follows. Settings come from flags or, with -c, from a
YAML file whose keys are the flags' names with underscores; flags win.

--data csv:PATH is a table of numbers and categories. A schema beside it,
PATH.schema.yaml, gives public bounds and categories; docs/tabular.md shows one.
Records that do not fit it count as fixed valid ones or as zero, in silence: ask
"privgrad data verify csv:PATH".

Fashion-MNIST is built in and public. Files count as private unless you say
otherwise: --published-set says that those of mnist, cifar10 or a known table are
the published ones, so that their size and test set are public. For data of your
own give --public-n and --delta, and --test-is-public if the test records are.
--public-n is the number of records of a whole table, also where a share or a fold
of it is held out. With --classes it is the number of records of these classes.

Two optimizers use all records at once; --batch and --epochs do not apply. lbfgs
finds the minimum without privacy, in at most --steps iterations. majority releases
only the class of most records.

No record moves a sum by more than the clip norm C, whatever the --clipping:
flat scales a longer gradient down to C; per-layer does so for every layer at
C/√(number of layers); automatic multiplies every gradient by C/(norm + 0.01);
adaptive is flat at a C that follows a quantile of the norms, by a noisy count
that is part of the price. The step size acts on what clipping leaves, so --lr
may want another value with another clipping.

Learning rates that are fixed beforehand, momentum, Adam's moments and averages
work on noisy values alone, and cost nothing more. A line search (dp-blsgd and its
kin, dp-agd) and a released norm (--norm-noise) ask the records again, which is
part of ε. --lr is the largest step size: --warmup and --lr-schedule cosine make it
rise and fall over the run. --average keeps a moving average of the parameters,
model-average.safetensors, beside the last ones.`,
		Example: `  privgrad train --epsilon 3 --out runs/first           # a CNN on Fashion-MNIST at ε = 3, δ = 1e-5
  privgrad train -c runs/first/config.yaml --epsilon 8  # the same with a larger budget
  privgrad train --epsilon 1 --model logistic --classes 3,5 --batch 256 --epochs 5
  privgrad train --epsilon 3 --clipping adaptive --clip 0.5 --clip-quantile 0.7
  privgrad train --epsilon 3 --optimizer dp-adam --lr-schedule cosine --average 0.99
  privgrad train -c runs/first/config.yaml --out runs/first --resume
  privgrad train --epsilon 3 --out runs/job --resume=auto  # for a job that is started again and again
  privgrad train --data csv:adult.data --published-set --epsilon 1  # a published table, by a built-in schema
  privgrad train --data mnist --data-dir data/mnist --published-set --epsilon 3
  privgrad train --data csv:mine.csv --public-n 5000 --delta 1e-5 --epsilon 1
  privgrad train --data csv:mine.csv --public-n 5000 --optimizer lbfgs
  privgrad train --optimizer sgd --epochs 5             # without privacy, to compare`,
		Args: noArgs,
	}
	s := newSettings(cmd)
	cmd.Flags().StringVarP(&file, "config", "c", "", "read settings from a YAML file")
	cmd.Flags().StringVar(&out, "out", "", "run directory (default runs/<UTC>-<data>-<model>-<optimizer>)")
	resumeFlag(cmd, &resume)
	progressFlag(cmd, &progress)
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := s.config(file)
		if err != nil {
			return err
		}
		if resume != train.ResumeNever && out == "" {
			return usage.Errorf("--resume continues the run in a directory: name it by --out")
		}
		con, err := newConsole(cmd.ErrOrStderr(), progress)
		if err != nil {
			return err
		}
		ctx, stop := interruptible(cmd.Context(), con, "finishing this step and saving")
		defer stop()
		result, err := train.Run(ctx, c, train.Options{
			Sources: sources(), Out: out, Resume: resume,
			Progress: &steps{console: con, notPrivate: notPrivate(c)}, Log: slog.New(con),
		})
		if err != nil {
			return err
		}
		return show(cmd, asJSON, result, func(w io.Writer) { summarise(w, result) })
	}
	return cmd
}

// resumeFlag defines --resume and --resume=auto.
func resumeFlag(cmd *cobra.Command, resume *train.Resume) {
	cmd.Flags().Var(flagValue{"bool", func(text string) error {
		if text == string(train.ResumeAuto) {
			*resume = train.ResumeAuto
			return nil
		}
		on, err := booleanKind.parse(text)
		if err != nil {
			return errors.New("not auto, true or false")
		}
		if *resume = train.ResumeNever; on {
			*resume = train.ResumeRun
		}
		return nil
	}}, "resume", "continue the run in --out, with the same settings; --resume=auto also starts it where there is none yet")
	cmd.Flags().Lookup("resume").NoOptDefVal = "true"
}

// notPrivate is what the progress bar says beside an ε that is none.
func notPrivate(c train.Config) string {
	switch {
	case c.Noise == "seeded":
		return "NOT PRIVATE: seeded noise"
	case accountant.NoGuarantee(c.Accountant) != "", c.Search != nil && c.Search.Batches == string(accountant.PaperBatches):
		return "NOT A GUARANTEE"
	}
	return ""
}

// summarise tells a person how a run ended.
func summarise(w io.Writer, r *train.Result) {
	fmt.Fprintf(w, "%s on %s by %s: %s in %.0f s on %s (%s)\n\n", r.Model, r.Dataset, r.Optimizer, plural(r.Steps, "step"), r.Seconds, r.Device, plural(r.Threads, "thread"))
	if !r.Guarantee {
		fmt.Fprintln(w, "NO PRIVACY GUARANTEE, because")
		for _, why := range r.NoGuarantee {
			fmt.Fprintln(w, "  - "+why)
		}
		fmt.Fprintln(w)
	}
	table(w, 0, func(w io.Writer) {
		row := func(name, format string, a ...any) { fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, a...)) }
		if r.TestAccuracy != nil {
			row("test accuracy", "%.2f %%", 100**r.TestAccuracy)
		}
		if r.AverageAccuracy != nil {
			row("of the average", "%.2f %%", 100**r.AverageAccuracy)
		}
		if r.TestLoss != nil {
			row("test loss", "%.4f", *r.TestLoss)
		}
		if r.TrainLoss != nil && r.TrainLossIs != nil {
			row("training loss", "%.4f (%s)", *r.TrainLoss, *r.TrainLossIs)
		}
		if r.Delta != nil { // the optimizer is a private one
			if r.Epsilon == nil {
				row("privacy", "ε is infinite")
			} else {
				row("privacy", "ε = %.6g at δ = %g for %s, %s neighbours, by %s", *r.Epsilon, *r.Delta, r.PrivacyUnit, *r.Neighbouring, *r.Accountant)
			}
		}
		if r.Guarantee {
			row("guarantee", "yes, provided that")
			for _, a := range r.Assumptions {
				row("", "  %s", train.Assumption(a))
			}
			row("", "  the settings were not chosen by looking at the private data")
			row("", "  (the defaults were chosen on the %s)", r.DefaultsFrom)
		} else {
			row("guarantee", "no")
		}
		switch {
		case r.SamplingRate == 1:
			row("sampling", "none: all records at once (publicly %d)", r.PublicN)
		case r.Sampling == "poisson":
			row("sampling", "Poisson at rate %.4g: %.6g of %d records expected a step", r.SamplingRate, r.ExpectedBatch, r.PublicN)
		default:
			row("sampling", "subsets of a fixed size: %g of %d records a step", r.ExpectedBatch, r.PublicN)
		}
		if r.NoiseMultiplier != nil {
			clip := fmt.Sprintf("clip norm %g", *r.Clip)
			switch perexample.Clipping(*r.Clipping) {
			case perexample.Flat:
			case perexample.AdaptiveFlat:
				clip = fmt.Sprintf("adaptive clip norm, %.4g at the end", *r.Clip)
			default:
				clip += " (" + *r.Clipping + " clipping)"
			}
			row("noise multiplier", "%.6g, of the %s", *r.NoiseMultiplier, clip)
		}
		if r.Committed != nil && r.Steps < *r.Committed {
			row("steps", "%d of %d: the others were lost to interruptions, and stay charged", r.Steps, *r.Committed)
		}
		row("run directory", "%s", r.Run)
	})
	fmt.Fprintf(w, "\nNext:\n")
	table(w, 0, func(w io.Writer) {
		if r.TestAccuracy != nil { // eval refuses test records that are not public, too
			fmt.Fprintf(w, "  confusion matrix\tprivgrad eval %s\n", quote(r.Run))
			fmt.Fprintf(w, "  accuracy picture\t%s\n", filepath.Join(r.Run, train.PictureFile))
		}
		if r.Delta != nil {
			fmt.Fprintf(w, "  another budget\tprivgrad train -c %s --epsilon 8\n", quote(filepath.Join(r.Run, train.ConfigFile)))
		}
		fmt.Fprintln(w, "  other models, data\tprivgrad info")
	})
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// quote makes a path one word of a shell.
func quote(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
