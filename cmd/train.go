package cmd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/cli/tune"
	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/launch"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/dryrun"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
	"github.com/privgrad/privgrad/report"
	"github.com/privgrad/privgrad/train"
)

const trainExample = `  privgrad train --epsilon 3                              # Fashion-MNIST, a minute
  privgrad train --epsilon 3 --dry-run                    # ε, noise, memory and time beforehand
  privgrad train --epsilon 1 --data csv:mine.csv --public-n 5000 --delta 1e-5
  privgrad train --epsilon 3 --data dir:photos --class-names cat,dog --public-n 5000 --delta 1e-5
  privgrad train -c runs/plain/config.yaml --epsilon 8    # another run, with an ε of its own`

// A trainer is the train command's flags.
type trainer struct {
	settings  *settings
	flags     *pflag.FlagSet
	file, out string
	resume    train.Resume
	dry       bool
}

func newTrain() *cobra.Command {
	t := &trainer{}
	return cli.Command{
		Use:      "train --epsilon E",
		Short:    "Train a model and write a run directory",
		Long:     "Train a model under a privacy budget and write a run directory.",
		Example:  trainExample,
		Flags:    t.define,
		Sections: t.sections,
		Progress: true,
		Run:      t.train,
	}.New()
}

func (t *trainer) define(f *pflag.FlagSet) {
	t.settings, t.flags = newSettings(f, everySetting), f
	f.StringVarP(&t.file, "config", "c", "", "read settings from a YAML file; flags win")
	cli.NameArgument(f.Lookup("config"), "FILE")
	f.StringVar(&t.out, "out", "", "run directory (default runs/<UTC>-<data>-<model>-<optimizer>)")
	cli.NameArgument(f.Lookup("out"), "DIR")
	resumeFlag(f, &t.resume)
	f.BoolVar(&t.dry, "dry-run", false, "show ε, noise, memory and time; read no record, write nothing")
}

// sections are the settings, what belongs to the one run, and the settings that the optimizer
// alone reads, where one is given.
func (t *trainer) sections() []cli.Section {
	run := cli.Section{Title: "Run"}
	t.flags.VisitAll(func(f *pflag.Flag) {
		if !t.settings.has(f.Name) {
			run.Flags = append(run.Flags, f)
		}
	})
	all := append(t.settings.sections(""), run)
	if !t.settings.given["optimizer"] {
		return all
	}
	name := t.settings.values.Optimizer
	own := cli.Section{Title: "Settings of optimizer " + name}
	topic := (&config.Config{Optimizer: name}).Kind().Topic
	flags := t.settings.sections(topic)
	switch {
	case config.CheckOptimizer(name) != nil:
		own.Title = config.CheckOptimizer(name).Error()
	case topic == "":
		own.Title += ": none of its own"
	case len(flags) == 0:
		own.Title += ": in a file alone, given by -c (docs/reference/settings.md)"
	default:
		own.Flags = flags[0].Flags
	}
	return append(all, own)
}

func (t *trainer) train(call *cli.Call) error {
	c, err := t.settings.config(t.file)
	if err != nil {
		return err
	}
	if run := filepath.Dir(t.file); t.file != "" && rundir.Dir(run).Has(rundir.Ledger) { // else a file of the user's, who may have misspelled a name
		if err := foreign(&c, run); err != nil {
			return err
		}
	}
	switch {
	case t.dry && t.resume != train.ResumeNever:
		return usage.Errorf("--dry-run plans a new run and cannot resume one: leave out --dry-run or --resume")
	case t.dry:
		return rehearse(call, c)
	case t.resume != train.ResumeNever && t.out == "":
		return usage.Errorf("--resume needs the directory of a run: name it by --out, or use `privgrad resume RUN`")
	}
	group, err := launch.Open(os.Getenv)
	if err != nil {
		return err
	}
	return trainTo(call, group, c, t.out, t.resume)
}

// trainTo trains, or goes on, in a directory, and shows the result. It closes the group, nil where this process is alone.
func trainTo(call *cli.Call, group collective.Group, c train.Config, out string, resume train.Resume) error {
	ctx, con, err := call.Interruptible("finishing this step and saving")
	if err != nil {
		return err
	}
	defer con.Release()
	steps := &cli.Steps{Console: con, NotPrivate: cli.NotPrivate(c)}
	options := train.Options{
		Sources: data.Sources(), Out: written.Path(out), Resume: resume,
		Progress: steps, Watch: []train.Watcher{steps}, Log: slog.New(con), Group: group,
	}
	report.Attach(c, &options)
	result, err := train.Run(ctx, c, options)
	if errors.Is(err, train.ErrSlice) {
		return call.Show(sliced{out, err.Error()}, func(w io.Writer) { fmt.Fprintln(w, err) })
	}
	late := errors.Is(err, train.ErrReport) // of a run that has its result
	if err = launch.Close(group, err); err != nil && !late || group != nil && group.Rank() > 0 {
		return err
	}
	return errors.Join(cli.Show(call, result, summarise), err)
}

// newTune chooses settings by trials, each of which has all settings of train.
func newTune() *cobra.Command {
	return tune.New(tune.Trainer{
		Flags:  func(f *pflag.FlagSet) func(string) (train.Config, error) { return newSettings(f, everySetting).config },
		Resume: resumeFlag, Summarise: summarise,
		Alone: func() error {
			group, err := launch.Open(os.Getenv)
			if err != nil || group == nil {
				return err
			}
			return launch.Close(group, usage.Errorf("one process makes all trials: start tune without a launcher"))
		},
	})
}

// sliced is the JSON form of a slice that is complete.
type sliced struct {
	Folder  string `json:"folder"`
	Message string `json:"message"`
}

// rehearse shows what a run would cost, in ε, memory and time.
func rehearse(call *cli.Call, c train.Config) error {
	con, err := call.Console()
	if err != nil {
		return err
	}
	trying := func() { con.Doing("measuring the time of some steps on made-up records") }
	estimate, err := dryrun.Run(c, plan.Options{Sources: data.Sources()}, trying)
	if err != nil {
		return err
	}
	for _, w := range estimate.Warnings {
		slog.New(con).Warn(w)
	}
	return cli.Show(call, estimate, describeEstimate)
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
	}}, "resume", "continue the run in --out, with the same settings; =auto: or start it")
	f.Lookup("resume").NoOptDefVal = "true"
}

// foreign refuses the configuration of a run that only a program of the user's own can make.
func foreign(c *train.Config, run string) error {
	what := plan.Foreign(c, nil)
	if what == "" {
		return nil
	}
	return usage.Errorf("%s is a run with the %s, which this program does not have: where a program of your own began it, run that again, with Resume: train.ResumeAuto to go on; else correct its %s", run, what, train.ConfigFile)
}

// newResume continues a run by what its directory says.
func newResume() *cobra.Command {
	var s *settings
	return cli.Command{
		Use:   "resume RUN",
		Short: "Continue a run that was interrupted",
		Long: `resume continues an interrupted run from its last checkpoint, with the settings in its
config.yaml. Steps that a crash lost stay charged. If the run has finished, resume shows
its result again. Only the settings below may differ from the first start.

A folder that "privgrad slice out" wrote is started in the same way, once.`,
		Example: "  privgrad resume runs/first\n  privgrad resume runs/first --threads 4 --json",
		Args:    cli.OneArg("a run directory"),
		Flags: func(f *pflag.FlagSet) {
			f.SortFlags = false
			s = newSettings(f, setting.Row.Movable)
		},
		Progress: true,
		Run: func(call *cli.Call) error {
			run := call.Arguments[0]
			group, err := launch.Open(os.Getenv)
			if err != nil {
				return err
			}
			c := train.Default()
			if err := train.ReadRun(group, run, &c); err != nil {
				return launch.Close(group, err)
			}
			c.Override(&s.values, s.given)
			if err := foreign(&c, run); err != nil {
				return launch.Close(group, err)
			}
			return trainTo(call, group, c, run, train.ResumeRun)
		},
	}.New()
}
