package l2p

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/meta"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// settings are the flags of l2p train, and what they make of meta-training's options.
type settings struct {
	meta.Options
	tasks, out, start, data string
	model, schema           string
	epsilons, tables        []string
	epochs, classes         []int
	records, pool, units    int
	cardScale               float64
}

func (o *settings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	card := &o.Card
	f.StringVar(&o.tasks, "tasks", "", "kind of tasks; see above")
	f.StringVar(&o.out, "out", "", "file of the protector, ending in .safetensors")
	f.StringVar(&card.Name, "name", "", "name in the card (default the file's)")
	f.StringSliceVar(&o.epsilons, "epsilons", []string{"inf", "1.6", "0.4", "0.2", "0.05"}, "ε of each stage, falling; inf: no noise")
	f.IntSliceVar(&o.epochs, "epochs", []int{10}, "epochs of each stage, or one number for all")
	f.IntVar(&o.Steps, "steps", 20, "steps T of a private run")
	f.Float64Var(&o.Rate, "sampling-rate", 0.25, "Poisson sampling rate q of a step")
	f.Float64Var(&o.Clip, "clip", 1, "clip norm C")
	f.Float64Var(&o.Delta, "delta", 1e-8, "δ of the private runs")
	f.StringVar((*string)(&o.Neighbouring), "neighbouring", string(accountant.AddRemove), "add-remove or replace-one")
	f.StringVar(&o.Accountant, "accountant", accountant.RDP, "accountant that computes the noise for an ε")
	f.IntVar(&o.records, "records", 2500, "records per task")
	f.StringVar(&o.start, "start", "ones", "quadratic: where runs start; ones, or normal (random)")
	f.IntSliceVar(&o.classes, "classes", nil, "images: classes of which tasks are pairs (default all)")
	f.IntVar(&o.pool, "pool", 2, "images: side of the squares of pixels that are averaged into one")
	f.IntVar(&o.units, "units", 4, "networks: hidden units")
	f.StringVar(&o.data, "data-dir", "", "directory of the image files (or "+plan.DataDirVariable+")")
	f.StringSliceVar(&o.tables, "tables", nil, "csv: public tables with two classes; each task is records of one")
	f.StringVar(&o.schema, "schema", "", "csv: schema of the tables, a name or a file (default PATH.schema.yaml, or the known one)")
	f.StringVar(&o.model, "task-model", meta.Logistic, "csv: logistic, svm, or mlp (--units)")
	f.IntVar(&card.Projector.Layers, "layers", 2, "layers of each LSTM")
	f.IntVar(&card.Projector.Hidden, "hidden", 20, "hidden units of each LSTM's layers")
	f.BoolVar(&card.Projector.LogSign, "log-sign", false, "give the projector the logarithm and the sign of a gradient")
	f.BoolVar(&o.Odd, "odd", false, "make updates of opposite gradients opposite, so that no drift is learned (default for networks)")
	f.BoolVar(&o.Curvature, "curvature", false, "keep the second derivatives of the tasks, which are often left out (default for networks)")
	f.StringVar(&card.Scheduler.Kind, "scheduler", l2p.Learned, "lstm, or constant (the same noise in all steps)")
	f.Float64Var(&card.Scale, "scale", 0.1, "factor on the output of the projector")
	f.Float64Var(&o.cardScale, "card-scale", 0, "factor to store in the card, for networks larger than those of the tasks (default --scale)")
	f.IntVar(&o.Batches, "batches", 20, "updates of the LSTMs per epoch")
	f.IntVar(&o.Tasks, "runs", 8, "simulated runs per update")
	f.Float64Var(&o.LearningRate, "lr", 0.005, "learning rate of the LSTMs (Adam); falls within a stage")
	f.Float64Var(&o.Gamma, "gamma", 1, "γ: the objective is the loss over the last 1/γ of the budget, weighted towards the end")
	f.IntVar(&o.Block, "block", 0, "steps after which backpropagation is cut, with a budget per block; 0: not cut")
	f.IntVar(&o.Every, "store-every", 0, "store the state of every Nth step and compute the others again; 0: store all")
	f.IntVar(&o.Validation, "validation", 50, "held-out tasks per ε, which choose the best epoch")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything; the same seed makes the same protector")
	f.IntVar(&o.Workers, "threads", 0, "simulations at a time; 0: all cores; does not change the result")
}

func metaTrain() *cobra.Command {
	o := &settings{}
	return cli.Command{
		Use:   "train",
		Short: "Train a protector on public tasks",
		Long: `train makes a protector for "privgrad train --optimizer l2p". It simulates private
training on public tasks, with the noise of each ε in --epsilons. It lowers the loss at the
end of these runs by gradient descent through all their steps. --tasks is one of

` + taskList() + `
Training starts without noise and goes on to smaller and smaller ε. Each stage starts from
the best protector of the stage before. Choose --steps and --clip as in your private run.
Choose the other settings so that noise and gradient have the same ratio per parameter as
there. The LSTMs treat each parameter by itself, so your network may have another size.

train writes the weights to --out. Beside them it writes a card (.json) that says what they
were trained on, the history (.csv) and its picture (.png). A private run on records that
the tasks contain has NO GUARANTEE: choose tasks of other data, or of other --classes.
After an interruption, the same command continues from FILE.checkpoint.`,
		Example: `  privgrad l2p train --tasks quadratic --out protectors/mine.safetensors
  privgrad l2p train --tasks mnist --classes 0,1,2,4,6,7,8,9 --data-dir data/mnist --out protectors/digits.safetensors
  privgrad l2p train --tasks csv --tables data/adult.data --steps 60 --sampling-rate 0.05 --records 20000 --out protectors/census.safetensors`,
		Flags:    o.define,
		Required: []string{"tasks", "out"},
		Progress: true,
		Run:      o.run,
	}.New()
}

func (o *settings) run(c *cli.Call) error {
	if err := o.complete(c.Command); err != nil {
		return usage.Wrap(err)
	}
	ctx, con, err := c.Interruptible("stopping after this epoch; the same command goes on from there")
	if err != nil {
		return err
	}
	defer con.Release()
	total := 0
	for _, s := range o.Stages {
		total += s.Epochs
	}
	con.Start(total)
	o.Progress = func(done, total int, e meta.Epoch) {
		con.Update(done, fmt.Sprintf("epoch %d/%d, ε %.3g, validation loss %.4g", done, total, float64(e.Epsilon), e.Validation))
	}
	p, history, err := meta.Train(ctx, o.Options)
	con.Finish()
	if err != nil {
		return err
	}
	if o.cardScale > 0 {
		p.Card.Scale = o.cardScale
	}
	return o.finish(c, p, history)
}

// complete checks the flags, and gives the options what no flag is by itself.
func (o *settings) complete(cmd *cobra.Command) error {
	at := slices.IndexFunc(metaTasks, func(t metaTask) bool { return t.name == o.tasks })
	if at < 0 {
		return usage.Unknown("tasks", o.tasks, taskNames())
	}
	kind := metaTasks[at]
	for name, value := range kind.defaults {
		if !cmd.Flags().Changed(name) {
			if err := cmd.Flags().Set(name, value); err != nil {
				return err
			}
		}
	}
	o.out = written.Path(o.out)
	if !strings.HasSuffix(o.out, ".safetensors") {
		return fmt.Errorf("--out %s: its name must end in .safetensors", o.out)
	}
	if err := o.free(); err != nil {
		return err
	}
	if cmd.Flags().Changed("card-scale") && !(o.cardScale > 0) {
		return fmt.Errorf("--card-scale %v: must be above 0, or left out for --scale", o.cardScale)
	}
	if o.Card.Name == "" {
		o.Card.Name = strings.TrimSuffix(filepath.Base(o.out), ".safetensors")
	}
	if len(o.epochs) != 1 && len(o.epochs) != len(o.epsilons) {
		return fmt.Errorf("--epochs has %d numbers and --epsilons %d: give one number, or one for each", len(o.epochs), len(o.epsilons))
	}
	if o.Workers < 1 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	o.GradientNorm, o.Checkpoint = 1, o.out+".checkpoint"
	card := &o.Card
	card.Tasks, card.Recipe, card.Projector.Kind = []string{kind.name}, o.recipe(cmd), l2p.Learned
	switch card.Scheduler.Kind {
	case l2p.Learned:
		card.Scheduler.Layers, card.Scheduler.Hidden = card.Projector.Layers, card.Projector.Hidden
	case l2p.Constant:
	default:
		return usage.Unknown("--scheduler", card.Scheduler.Kind, []string{l2p.Learned, l2p.Constant})
	}
	for i, text := range o.epsilons {
		epsilon, err := written.Number(text)
		if err != nil {
			return fmt.Errorf("--epsilons %q: must be numbers in decimal digits, or inf", text)
		}
		o.Stages = append(o.Stages, meta.Stage{Epsilon: epsilon, Epochs: o.epochs[i*min(1, len(o.epochs)-1)]})
	}
	var err error
	if o.Family, card.Public, card.Summary, err = o.family(kind.images); err != nil {
		return err
	}
	return o.Validate()
}

// recipe is the command, with every setting that is not its tasks' own, and without what changes no result.
func (o *settings) recipe(cmd *cobra.Command) string {
	words := []string{cmd.CommandPath()}
	for _, name := range []string{
		"tasks", "epsilons", "epochs", "steps", "sampling-rate", "clip", "delta", "neighbouring", "accountant", "records", "start", "classes", "pool", "units", "tables", "schema", "task-model",
		"layers", "hidden", "log-sign", "odd", "curvature", "scheduler", "scale", "card-scale", "batches", "runs", "lr", "gamma", "block", "validation", "seed",
	} {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			value := strings.Trim(flag.Value.String(), "[]")
			switch name { // which file, and not where it lies
			case "tables":
				value = strings.Join(bases(o.tables), ",")
			case "schema":
				value = filepath.Base(o.schema)
			}
			words = append(words, fmt.Sprintf("--%s=%s", name, value))
		}
	}
	return strings.Join(words, " ")
}

func bases(paths []string) (names []string) {
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}
