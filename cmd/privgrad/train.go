package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

const trainLong = `train trains a model and writes a run directory: the complete configuration
(config.yaml), the model (model.safetensors), metrics.jsonl, accuracy.png and
result.json, with all that a crash needs to be resumed from.

Give --epsilon, and the noise is calibrated to that budget, or
--noise-multiplier, and ε follows. Settings come from flags or, with -c, from a
YAML file whose keys are the flags' names with underscores; flags win.

--data csv:PATH is a table of numbers and categories. A schema beside it,
PATH.schema.yaml, gives public bounds and categories; docs/guides/own-table.md shows one.
Records that do not fit it count as fixed valid ones or as zero, in silence: ask
"privgrad data verify csv:PATH".

Fashion-MNIST is built in and public. Files count as private unless you say
otherwise: --published-set says that those of mnist, cifar10 or a known table are
the published ones, so that their size and test set are public. For data of your
own give --public-n and --delta, and --test-is-public if the test records are.
--public-n is the number of records of a whole table, also where a share or a fold
of it is held out. With --classes it is the number of records of these classes.

--recipe best fills in what you leave open with the settings that were most accurate
on public images at your ε: features, model, optimizer, learning rate, batch. It needs
--epsilon 0.5 or more. --features alone puts fixed features of an image in the place of
its pixels. They are a public function of that image, and cost no privacy
(docs/explain/accuracy.md, docs/guides/features.md).

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
model-average.safetensors, beside the last ones.`

const trainExample = `  privgrad train --epsilon 3 --out runs/first           # a CNN on Fashion-MNIST at ε = 3, δ = 1e-5
  privgrad train -c runs/first/config.yaml --epsilon 8  # the same with a larger budget
  privgrad train --epsilon 3 --recipe best              # our most accurate settings for images
  privgrad train --epsilon 1 --model logistic --classes 3,5 --batch 256 --epochs 5
  privgrad train --epsilon 3 --clipping adaptive --clip 0.5 --clip-quantile 0.7
  privgrad train --epsilon 3 --optimizer dp-adam --lr-schedule cosine --average 0.99
  privgrad train -c runs/first/config.yaml --out runs/first --resume
  privgrad train --epsilon 3 --out runs/job --resume=auto  # for a job that is started again and again
  privgrad train --data csv:adult.data --published-set --epsilon 1  # a published table, by a built-in schema
  privgrad train --data mnist --data-dir data/mnist --published-set --epsilon 3
  privgrad train --data csv:mine.csv --public-n 5000 --delta 1e-5 --epsilon 1
  privgrad train --data csv:mine.csv --public-n 5000 --optimizer lbfgs
  privgrad train --optimizer sgd --epochs 5             # without privacy, to compare`

// A trainer is the train command's flags.
type trainer struct {
	settings  *settings
	file, out string
	resume    train.Resume
}

func newTrain() *cobra.Command {
	t := &trainer{}
	return cli.Command{
		Use:      "train",
		Short:    "Train a model and write a run directory",
		Long:     trainLong,
		Example:  trainExample,
		Flags:    t.define,
		Progress: true,
		Run:      t.train,
	}.New()
}

func (t *trainer) define(f *pflag.FlagSet) {
	t.settings = newSettings(f)
	f.StringVarP(&t.file, "config", "c", "", "read settings from a YAML file")
	f.StringVar(&t.out, "out", "", "run directory (default runs/<UTC>-<data>-<model>-<optimizer>)")
	resumeFlag(f, &t.resume)
}

func (t *trainer) train(call *cli.Call) error {
	c, err := t.settings.config(t.file)
	if err != nil {
		return err
	}
	if t.resume != train.ResumeNever && t.out == "" {
		return usage.Errorf("--resume continues the run in a directory: name it by --out")
	}
	ctx, con, err := call.Interruptible("finishing this step and saving")
	if err != nil {
		return err
	}
	defer con.Release()
	result, err := train.Run(ctx, c, train.Options{
		Sources: data.Sources(), Out: t.out, Resume: t.resume,
		Progress: &cli.Steps{Console: con, NotPrivate: notPrivate(c)}, Log: slog.New(con),
	})
	if err != nil {
		return err
	}
	return cli.Show(call, result, summarise)
}

// resumeFlag defines --resume and --resume=auto.
func resumeFlag(f *pflag.FlagSet, resume *train.Resume) {
	f.Var(flagValue{"bool", func(text string) error {
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
	f.Lookup("resume").NoOptDefVal = "true"
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
