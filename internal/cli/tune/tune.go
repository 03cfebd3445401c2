// Package tune is the command that chooses settings by private trials.
package tune

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/budget"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/tune"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
	"github.com/privgrad/privgrad/report"
	"github.com/privgrad/privgrad/train"
)

// A Trainer is what the command shares with train.
type Trainer struct {
	Flags     func(f *pflag.FlagSet) func(file string) (train.Config, error) // defines the settings, and reads them
	Resume    func(f *pflag.FlagSet, into *train.Resume)
	Summarise func(w io.Writer, r *train.Result)
	Alone     func() error // refuses several processes
}

// command is a command line.
type command struct {
	Trainer
	settings     func(file string) (train.Config, error)
	flags        *pflag.FlagSet
	file, out    string
	grid, trials string
	resume       train.Resume
	dry          bool
}

// New is the command.
func New(t Trainer) *cobra.Command {
	c := &command{Trainer: t}
	return cli.Command{
		Use:   "tune --epsilon E --grid \"lr=.1,.5,2;clip=.5,1\"",
		Short: "Choose settings by private trials, within one ε",
		Long: `tune trains a random number of private models. Each has settings from your grid, drawn by
chance, and the best one is released as a run directory. ε is the price of it all: of every
trial, and of choosing among them (docs/guides/tune.md). Each trial gets more noise than a
single run of that ε. --dry-run shows how much.

Trials are compared by their accuracy on the public test set. Without one, each releases a
noisy training loss, which ε includes. The number of trials and all that lost stay secret, in
OUT.private. Nothing is shown until the last trial has ended, and an unfinished tuning
releases nothing: go on by the same command with --resume.`,
		Example: `  privgrad tune --epsilon 3 --grid "lr=.5,1,2;clip=.5,1" --dry-run
  privgrad tune --epsilon 3 --grid "lr=.5,1,2;clip=.5,1" --model logistic --out runs/tuned
  privgrad tune --epsilon 2 --grid "lr=.1,.5,2" --data csv:mine.csv --public-n 5000 --delta 1e-5`,
		Required: []string{"grid"},
		Flags:    c.define,
		Sections: c.sections,
		Progress: true,
		Run:      c.run,
	}.New()
}

func (c *command) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&c.grid, "grid", "", "settings of trials: a key of train, =, and its values; all combinations are tried")
	cli.NameArgument(f.Lookup("grid"), "KEY=V,V;…")
	f.StringVar(&c.trials, "trials", tune.DefaultTrials, "distribution of the number of trials: poisson:MEAN, or tnb:ETA,GAMMA (from 1 on)")
	cli.NameArgument(f.Lookup("trials"), "DIST")
	c.settings = c.Flags(f)
	f.StringVarP(&c.file, "config", "c", "", "read settings from a YAML file; flags win")
	cli.NameArgument(f.Lookup("config"), "FILE")
	f.StringVar(&c.out, "out", "", "run directory (default runs/<UTC>-<data>-tuned)")
	cli.NameArgument(f.Lookup("out"), "DIR")
	c.Resume(f, &c.resume)
	f.BoolVar(&c.dry, "dry-run", false, "show what the tuning costs; read no record, write nothing")
	c.flags = f
}

// sections are the flags of the command; those of train stand on the pages of train.
func (c *command) sections() []cli.Section {
	own := cli.Section{Title: "Tuning"}
	for _, name := range []string{"epsilon", "grid", "trials", "config", "out", "resume", "dry-run", "progress", "log-format", "json", "help"} {
		if f := c.flags.Lookup(name); f != nil {
			own.Flags = append(own.Flags, f)
		}
	}
	return []cli.Section{own, {Title: "All settings of train, which each trial has: `privgrad train --help`"}}
}

func (c *command) run(call *cli.Call) error {
	if err := c.Alone(); err != nil {
		return err
	}
	config, err := c.settings(c.file)
	if err != nil {
		return err
	}
	switch {
	case c.dry && c.resume != train.ResumeNever:
		return usage.Errorf("--dry-run plans a new tuning and cannot resume one: leave out --dry-run or --resume")
	case c.dry:
		return c.rehearse(call, config)
	case c.resume != train.ResumeNever && c.out == "":
		return usage.Errorf("--resume needs the directory of a tuning: name it by --out")
	}
	ctx, con, err := call.Interruptible("finishing this step and saving")
	if err != nil {
		return err
	}
	defer con.Release()
	var reported train.Options
	report.Attach(config, &reported)
	result, err := tune.Run(ctx, config, tune.Options{
		Grid: c.grid, Trials: c.trials, Sources: data.Sources(), Out: written.Path(c.out), Resume: c.resume, Log: slog.New(con),
		Watch: reported.Watch, Report: reported.Report,
	})
	if err != nil && !errors.Is(err, train.ErrReport) {
		return err
	}
	return errors.Join(cli.Show(call, result, c.Summarise), err)
}

// An Estimate is what a tuning would cost.
type Estimate struct {
	Epsilon        float64      `json:"epsilon"`       // of the whole
	TrialEpsilon   *float64     `json:"trial_epsilon"` // for which each trial gets its noise; null where the grid has all noise
	Delta          float64      `json:"delta"`
	Accountant     string       `json:"accountant"`
	Neighbouring   string       `json:"neighbouring"`
	Trials         string       `json:"trials"`
	ExpectedTrials float64      `json:"expected_trials"`
	Grid           string       `json:"grid"`
	Choices        int          `json:"choices"`
	Score          string       `json:"score"`
	Noise          []float64    `json:"noise_multipliers"`                // of trials, the smallest and the largest
	Alone          float64      `json:"noise_multiplier_of_a_single_run"` // that costs ε with settings chosen elsewhere
	Budget         *budget.Cost `json:"budget,omitempty"`
}

// rehearse shows what a tuning would cost, beside a run with settings that were chosen on public data.
func (c *command) rehearse(call *cli.Call, config train.Config) error {
	con, err := call.Console()
	if err != nil {
		return err
	}
	p, err := tune.Make(config, c.grid, c.trials, data.Sources())
	if err != nil {
		return err
	}
	for _, w := range p.Warnings {
		slog.New(con).Warn(w)
	}
	e := &Estimate{
		Epsilon: p.Epsilon, TrialEpsilon: p.TrialEpsilon, Delta: p.Delta, Accountant: "rdp", Neighbouring: string(p.Neighbouring),
		Trials: p.Trials, ExpectedTrials: p.Expected, Grid: p.Grid, Choices: p.Choices, Score: p.Score, Alone: p.Alone, Budget: p.Budget,
	}
	least, most := p.Candidates[0].NoiseMultiplier, p.Candidates[0].NoiseMultiplier
	for _, c := range p.Candidates {
		least, most = min(least, c.NoiseMultiplier), max(most, c.NoiseMultiplier)
	}
	e.Noise = []float64{least, most}
	return cli.Show(call, e, describe)
}

func describe(w io.Writer, e *Estimate) {
	fmt.Fprintf(w, "Dry run of a tuning over %s: no record was read, nothing was written or charged\n\n", cli.Plural(e.Choices, "choice")+" of settings")
	cli.Table(w, 0, func(w io.Writer) {
		row := func(name, format string, a ...any) { cli.Row(w, "  "+name, format, a...) }
		row("Privacy", "ε = %.6g, δ = %g for all trials and the choice together (%s, %s)", e.Epsilon, e.Delta, e.Neighbouring, e.Accountant)
		if e.TrialEpsilon != nil {
			row("One trial", "ε = %.4g", *e.TrialEpsilon)
		}
		if e.Budget != nil {
			row("Budget", "%s", e.Budget)
		}
		row("Trials", "%.3g on average, each as long as one run; how many is secret (%s)", e.ExpectedTrials, e.Trials)
		noise := fmt.Sprintf("%.5g", e.Noise[0])
		if e.Noise[1] != e.Noise[0] {
			noise += fmt.Sprintf(" to %.5g", e.Noise[1])
		}
		row("Noise multiplier", "%s in a trial", noise)
		if e.Alone > 0 {
			row("", "%.5g in one run of this ε, with settings chosen on public data", e.Alone)
		}
		row("Compared by", "%s", scores[e.Score])
	})
}

// scores are what trials are compared by, in words.
var scores = map[string]string{
	"test_accuracy": "accuracy on the public test records",
	"test_loss":     "loss on the public test records",
	"train_loss":    "a noisy training loss, which ε includes, as no test set is public",
}
