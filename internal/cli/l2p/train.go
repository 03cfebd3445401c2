package l2p

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/meta"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// settings are the flags of l2p train, and what they make of meta-training's options.
type settings struct {
	meta.Options
	kind                    metaTask
	out, dir, model, schema string
	data, epsilons          []string
	epochs, classes         []int
	records                 int
}

func (o *settings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringSliceVar(&o.data, "data", nil, "what tasks are made of; see above")
	f.StringVar(&o.out, "out", "", "file of the protector, ending in .safetensors; its name is the protector's")
	f.StringVar(&o.model, "model", "", "what tasks train: "+strings.Join(models, ", ")+" (default mlp for images, else logistic)")
	f.StringSliceVar(&o.epsilons, "epsilon", []string{"inf", "1.6", "0.4", "0.2", "0.05"}, "ε of each stage, falling; inf: no noise")
	f.IntSliceVar(&o.epochs, "epochs", []int{10}, "epochs of each stage, or one number for all")
	f.IntVar(&o.Steps, "steps", 20, "steps T of a private run")
	f.Float64Var(&o.Rate, "sampling-rate", 0.25, "Poisson sampling rate q of a step")
	f.Float64Var(&o.Clip, "clip", 1, "clip norm C")
	f.Float64Var(&o.Delta, "delta", 1e-8, "δ of the private runs")
	f.StringVar((*string)(&o.Neighbouring), "neighbouring", string(accountant.AddRemove), "add-remove or replace-one")
	f.StringVar(&o.Accountant, "accountant", accountant.RDP, "accountant that computes the noise for an ε")
	f.IntVar(&o.records, "public-n", 2500, "records per task")
	f.IntSliceVar(&o.classes, "classes", nil, "images: classes of which tasks are pairs (default all)")
	f.StringVar(&o.dir, "data-dir", "", "directory of the image files (or "+config.DataDirVariable+")")
	f.StringVar(&o.schema, "schema", "", "csv: schema of the tables, a name or a file (default PATH.schema.yaml, or the known one)")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything; the same seed makes the same protector")
	f.IntVar(&o.Workers, "threads", 0, "simulations at a time; 0: all cores; does not change the result")
}

func metaTrain() *cobra.Command {
	o := &settings{}
	return cli.Command{
		Use:   "train",
		Short: "Train a protector on public tasks",
		Long: `train makes a protector for "privgrad train --optimizer l2p". It simulates private
training on public tasks, with the noise of each ε in --epsilon. It lowers the loss at the
end of these runs by gradient descent through all their steps. --data is one of

` + taskList() + `
Tasks train a --model on it: logistic, svm (linear), or mlp, a network with one hidden layer
of 4 sigmoids. Networks have other defaults: those of the built-in protector mnist.

Training goes on to smaller and smaller ε. Each stage starts from
the best protector of the stage before. Choose --steps and --clip as in your private run.
Choose the other settings so that noise and gradient have the same ratio per parameter as
there. The LSTMs treat each parameter by itself, so your network may have another size.

train writes the weights to --out. Beside them it writes a card (.json) that says what they
were trained on, the history (.csv) and its picture (.png). A private run on records that
the tasks contain has NO GUARANTEE: choose tasks of other data, or of other --classes.
After an interruption, the same command continues from FILE.checkpoint.`,
		Example: `  privgrad l2p train --data quadratic --out protectors/mine.safetensors
  privgrad l2p train --data mnist --classes 0,1,2,4,6,7,8,9 --data-dir data/mnist --out protectors/digits.safetensors
  privgrad l2p train --data csv:data/adult.data --steps 60 --sampling-rate 0.05 --public-n 20000 --out protectors/census.safetensors`,
		Flags:    o.define,
		Required: []string{"data", "out"},
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
	if o.network() {
		p.Card.Scale = networkScale
	}
	return o.finish(c, p, history)
}

// networkScale is the factor on updates of private runs of networks, which are larger than those of
// the tasks. It was chosen on pairs of digits.
const networkScale = 0.024

// network says whether tasks train networks.
func (o *settings) network() bool { return o.model == meta.MLP }

// fix gives the options what no flag has, but package meta: what the built-in protectors were made with.
func (o *settings) fix() {
	lstm := l2p.Part{Kind: l2p.Learned, Layers: 1, Hidden: 12}
	o.Card.Projector, o.Card.Scheduler, o.Card.Scale = lstm, lstm, 0.1
	o.Batches, o.Tasks, o.LearningRate, o.GradientNorm, o.Gamma, o.Validation = 20, 8, 0.005, 1, 1, 50
	switch {
	case o.network():
		o.Card.Scheduler, o.Card.Scale = l2p.Part{Kind: l2p.Constant}, 0.06
		o.Odd, o.Curvature = true, true
		o.Batches, o.LearningRate, o.Gamma, o.Validation = 6, 0.001, 4, 16
	case o.kind.name == tables:
		o.Card.Scale = 0.6 // linear models of features in [0, 1] need large weights
	}
}

// complete checks the flags, and gives the options what no flag is by itself.
func (o *settings) complete(cmd *cobra.Command) error {
	if err := o.choose(); err != nil {
		return err
	}
	for name, value := range o.defaults() {
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
	if len(o.epochs) != 1 && len(o.epochs) != len(o.epsilons) {
		return fmt.Errorf("--epochs has %d numbers and --epsilon %d: give one number, or one for each", len(o.epochs), len(o.epsilons))
	}
	if o.Workers < 1 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	o.fix()
	o.Checkpoint = o.out + ".checkpoint"
	card := &o.Card
	card.Name = strings.TrimSuffix(filepath.Base(o.out), ".safetensors")
	card.Tasks, card.Recipe = []string{o.kind.name}, o.recipe(cmd)
	if o.kind.name == gaussians {
		card.Tasks = []string{o.model}
	}
	for i, text := range o.epsilons {
		epsilon, err := written.Number(text)
		if err != nil {
			return fmt.Errorf("--epsilon %q: must be numbers in decimal digits, or inf", text)
		}
		o.Stages = append(o.Stages, meta.Stage{Epsilon: epsilon, Epochs: o.epochs[i*min(1, len(o.epochs)-1)]})
	}
	var err error
	if o.Family, card.Public, card.Summary, err = o.family(); err != nil {
		return err
	}
	return o.Validate()
}

// recipe is the command, with every setting that was given or is of its tasks, and without what changes no result.
func (o *settings) recipe(cmd *cobra.Command) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		value := strings.Trim(flag.Value.String(), "[]")
		switch flag.Name {
		case "out", "data-dir", "threads", "progress", "log-format", "json":
			return
		case "data": // which file, and not where it lies
			value = strings.Join(o.names(), ",")
		case "schema":
			value = filepath.Base(o.schema)
		}
		if flag.Changed {
			words = append(words, fmt.Sprintf("--%s=%s", flag.Name, value))
		}
	})
	return strings.Join(words, " ")
}
