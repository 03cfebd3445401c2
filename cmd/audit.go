package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/audit"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/audited"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// errConvicted ends an audit that refuted the claim.
var errConvicted = errors.New("convicted: the releases tell the canary better than the claimed ε allows, so either clipping, sampling, noise or accounting is wrong; do not rely on this configuration, and please report the command line")

// An auditor is the audit command, with what runs audits.
type auditor struct {
	run    func(context.Context, audit.Config) (*audit.Result, error)
	config audit.Config
	canary string
}

func newAudit() *cobra.Command { return auditCommand(audit.Run) }

func auditCommand(run func(context.Context, audit.Config) (*audit.Result, error)) *cobra.Command {
	a := &auditor{run: run, config: audit.Default()}
	return cli.Command{
		Use:   "audit [RUN]",
		Short: "Try to refute the ε of a run or of a configuration by experiment",
		Long: `audit tries to refute the ε that privgrad claims.

With the directory of a run that was trained with --canaries, audit tests that run. For each
canary, an adversary guesses from the releases of the run whether the canary took part. More
right guesses than the claimed ε allows refute the claim, and the exit code is 1. audit also
prints the least ε that the guesses prove. No other flag but --json applies.

Without a directory, audit tests a configuration. It makes thousands of short private
training runs on synthetic records, by the same code as train. Half of the runs have one
more record, a canary. (Under replace-one, each half has a canary of its own.) An
adversary sees every released gradient and knows everything else. It guesses to which half
a run belongs. If it guesses better than the claimed ε allows, the claim is refuted, and
the exit code is 1. audit also prints the least ε that the guesses prove.

With --optimizer, audit plays against another optimizer. Some ask the records for more than
gradients: which step size lowers the loss, which class has most records, or parameters that
were fitted to all of them. Then the adversary hears every answer, on the smallest data set
and with the settings under which an answer says most. (Such an audit takes --epsilon,
--delta and --neighbouring, and no settings of gradients.) It hears

` + heard() + `
A canary looks for one kind of fault in gradients:

  gradient    a gradient that is many clip norms long
  zero-input  a record that gives only the biases a gradient
  difference  noise used twice, which vanishes in the difference of two releases
  digits      floats that noise added to a given sum cannot produce
  coordinates noise that coordinates of one release share
  order       batches that are not drawn afresh at every step
  divisor     a mean that is taken by a number that depends on a record, such as the batch size
  opposite    replace-one: two gradients that point in opposite directions

For coordinates, order and divisor, half of the runs show the adversary what to look for, and
the others are judged. For divisor, it sees how the parameters move in place of the gradient.

A run that is not convicted is no proof of privacy. It means that these runs, this canary
and this adversary found nothing. "power" says how likely they would have found half the
noise. No data set is read, so all that an audit prints is public.`,
		Example: `  privgrad audit
  privgrad audit runs/mine
  privgrad audit --neighbouring replace-one --noise exact
  privgrad audit --model cnn-mnist --clipping per-layer --strategy ghost --sampling-rate 0.5 --runs 2000
  privgrad audit --optimizer dp-blsgd --epsilon 4
  privgrad audit --canary zero-input --strategy ghost --json
  privgrad audit --canary divisor
  privgrad audit --canary digits --sampling-rate 1 --steps 1 --noise-multiplier 20 --clip 0.15 --runs 2000`,
		Args:     audited.Args,
		Flags:    a.define,
		Progress: true,
		Run:      a.audit,
	}.New()
}

func (a *auditor) define(f *pflag.FlagSet) {
	claiming := slices.DeleteFunc(accountant.Names(), func(name string) bool { return name == accountant.Paper })
	var models, clippings []string
	for _, m := range nn.Names() {
		models = append(models, m.Name)
	}
	for _, k := range perexample.Clippings() {
		clippings = append(clippings, string(k))
	}
	c := &a.config
	f.SortFlags = false
	f.StringVar(&c.Optimizer, "optimizer", c.Optimizer, "private optimizer that is audited")
	f.Float64Var(&c.Epsilon, "epsilon", 0, "claimed ε of an optimizer whose answers are heard (default as above)")
	f.Float64Var(&c.NoiseMultiplier, "noise-multiplier", c.NoiseMultiplier, "claimed noise multiplier σ/C")
	f.Float64Var(&c.SamplingRate, "sampling-rate", c.SamplingRate, "probability that a record joins a batch; 1: all records")
	f.IntVar(&c.Steps, "steps", c.Steps, "steps per run")
	f.Float64Var(&c.Delta, "delta", c.Delta, "δ at which ε is stated; of an optimizer whose answers are heard as above")
	f.StringVar(&c.Neighbouring, "neighbouring", c.Neighbouring, "how two data sets may differ: add-remove or replace-one")
	f.StringVar(&c.Accountant, "accountant", c.Accountant, "accountant whose claim is tested: "+strings.Join(claiming, ", "))
	f.StringVar(&c.Model, "model", c.Model, "model: "+strings.Join(models, ", "))
	f.StringVar(&c.Activation, "activation", c.Activation, strings.Join(nn.Activations(), ", "))
	f.Float64Var(&c.Clip, "clip", c.Clip, "clip norm C; small, so that the gradient of the canary is longer")
	f.StringVar(&c.Clipping, "clipping", c.Clipping, "clipping: "+strings.Join(clippings, ", "))
	f.StringVar(&c.Strategy, "strategy", c.Strategy, cli.Help("strategy"))
	f.IntVar(&c.Views, "views", 0, "views of each record, as of train; all records are then images of even color")
	f.StringSliceVar(&c.Augment, "augment", nil, "how views are drawn, as of train: "+strings.Join(ir.Augmentations(), ","))
	f.IntVar(&c.RecordsPerUser, "records-per-user", 0, "protect users, each with this many records, as train does; 0: records")
	f.StringVar(&c.Noise, "noise", c.Noise, "secure, exact, or seeded (to repeat an audit)")
	f.StringVar(&a.canary, "canary", "", "canary: "+strings.Join(audit.Canaries(), ", ")+" (default gradient; opposite under replace-one)")
	f.IntVar(&c.Runs, "runs", 0, "number of runs; 0: 16000, and up to 64000 if half the noise would not be convicted with probability 0.99")
	f.StringVar(&c.Device, "device", c.Device, "auto, cpu, cuda, cuda:N or reference (slow)")
	f.IntVar(&c.Threads, "threads", 0, "runs at a time; 0: all cores; does not change the result")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of first weights and synthetic records; with --noise seeded, of everything")
}

func (a *auditor) audit(call *cli.Call) error {
	if len(call.Arguments) == 1 {
		return audited.Run(call, call.Arguments[0])
	}
	c := a.config
	c.Canary = a.canary
	if err := c.Incline(call.Given); err != nil {
		return err
	}
	ctx, con, err := call.Interruptible("stopping the audit")
	if err != nil {
		return err
	}
	defer con.Release()
	var once sync.Once
	c.Progress = func(done, total int) {
		once.Do(func() { con.Start(total) })
		con.Update(done, fmt.Sprintf("run %d/%d", done, total))
	}
	r, err := a.run(ctx, c)
	con.Finish()
	if err != nil {
		return err
	}
	if err := cli.Show(call, r, audited.Describe); err != nil {
		return err
	}
	if r.Convicted {
		return errConvicted
	}
	return nil
}

// heard is what audits hear of optimizers that answer with more than gradients of batches.
func heard() string {
	var b strings.Builder
	cli.Table(&b, 0, func(w io.Writer) {
		for _, o := range audit.Optimizers() {
			if o.Epsilon > 0 {
				fmt.Fprintf(w, "  %s\t%v\n", o.Name, o)
			}
		}
	})
	return b.String()
}
