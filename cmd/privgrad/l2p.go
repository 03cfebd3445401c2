package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/dpoptim/l2p/meta"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/reproduce"
	"github.com/privgrad/privgrad/train"
)

func newL2P() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "l2p",
		Short: "Meta-train a protector, or list those that are shipped",
		Long: `l2p is about protectors: a scheduler that chooses the noise of private steps, and a
projector that makes updates of noised gradients, both small LSTMs (Hong et al.
2021). They are trained on public tasks, by simulated private runs. A private run
uses one by train --optimizer l2p --protector NAME|FILE, and its guarantee does
not rest on what the protector has learned.`,
		Example: `  privgrad l2p list
  privgrad l2p train --tasks quadratic --out protectors/mine.safetensors`,
	}
	cmd.AddCommand(newL2PTrain(), newL2PList())
	return cmd
}

// listed is a protector in l2p list.
type listed struct {
	Name         string     `json:"name"`
	Tasks        []string   `json:"tasks"`
	EpsilonRange [2]float64 `json:"epsilon_range"`
	Neighbouring string     `json:"neighbouring"`
	Path         string     `json:"path"`
	Summary      string     `json:"summary"`
	Steps        int        `json:"steps"`
	Delta        float64    `json:"delta"`
	Adapts       bool       `json:"adapts"`
	Recipe       string     `json:"recipe"`
}

func newL2PList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [FILE...]",
		Short: "List the protectors that are shipped, and those in files",
		Long: `list shows what each protector was trained on, for which ε and steps, and the command
that made it: those that are built in, then those in the files that are named.`,
		Example: `  privgrad l2p list
  privgrad l2p list protectors/mine.safetensors --json`,
	}
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := l2p.Shipped()
		if err != nil {
			return err
		}
		paths := make([]string, len(all))
		for i := range paths {
			paths[i] = "built in"
		}
		for _, file := range args {
			p, err := l2p.Read(file)
			if err != nil {
				return usage.Wrap(err)
			}
			all, paths = append(all, p), append(paths, file)
		}
		list := struct {
			Protectors []listed `json:"protectors"`
		}{[]listed{}}
		for i, p := range all {
			c := &p.Card
			list.Protectors = append(list.Protectors, listed{c.Name, c.Tasks, c.EpsilonRange, c.Neighbouring, paths[i], c.Summary, c.Steps, c.Delta, p.Adapts(), c.Recipe})
		}
		return show(cmd, asJSON, list, func(w io.Writer) {
			for _, p := range list.Protectors {
				fmt.Fprintf(w, "%s (%s)\n", p.Name, p.Path)
				table(w, 0, func(w io.Writer) {
					row(w, "  what", "%s", p.Summary)
					row(w, "  trained on", "%s", strings.Join(p.Tasks, ", "))
					row(w, "  for", "ε %g to %g, δ %g, %s; %s", p.EpsilonRange[0], p.EpsilonRange[1], p.Delta, p.Neighbouring, plural(p.Steps, "step"))
					row(w, "  noise", "%s", map[bool]string{true: "of each step follows released values", false: "the same in all steps"}[p.Adapts])
					row(w, "  made by", "%s", p.Recipe)
				})
			}
			fmt.Fprintln(w, "\nNext:\n  privgrad train --optimizer l2p --protector NAME --epsilon 0.2")
		})
	}
	return cmd
}

// A metaTask is a kind of tasks, with its settings where no flag changes them.
type metaTask struct {
	name, about string
	images      bool
	defaults    map[string]string
}

var metaTasks = []metaTask{
	{"quadratic", "sums of 60 random quadratics of two parameters", false, map[string]string{"records": "60", "sampling-rate": "1"}},
	{"logistic", "logistic regression between two random Gaussians", false, nil},
	{"svm", "linear support vector machines on the same", false, nil},
	{"mlp", "networks of one hidden layer of sigmoids on the same", false, networks},
	{"mnist", "such networks on pairs of digits (--data-dir)", true, networks},
	{"fmnist", "such networks on pairs of articles of clothing", true, networks},
}

// networks are longer runs than the rest, of fewer and costlier updates.
var networks = map[string]string{"odd": "true", "curvature": "true", "steps": "60", "batches": "6", "lr": "0.002", "gamma": "4", "validation": "16"}

// metaFlags are those of l2p train.
type metaFlags struct {
	tasks, out, name, start                   string
	epsilons                                  []string
	epochs, classes                           []int
	steps, records, pool, units               int
	batches, runs, validation, block, store   int
	rate, clip, delta, scale, cardScale       float64
	lr, gamma                                 float64
	neighbouring, accountant, scheduler, data string
	layers, hidden, threads                   int
	logSign, odd, curvature                   bool
	seed                                      uint64
}

func newL2PTrain() *cobra.Command {
	o := &metaFlags{}
	var asJSON bool
	var progress string
	var tasks strings.Builder
	table(&tasks, 0, func(w io.Writer) {
		for _, t := range metaTasks {
			fmt.Fprintf(w, "  %s\t%s\n", t.name, t.about)
		}
	})
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Meta-train a protector on public tasks",
		Long: `train makes a protector for train --optimizer l2p. It simulates private training of
public tasks, with the noise that each --epsilons asks for, and descends the loss
that they end with through the unrolled runs. The tasks are one of

` + tasks.String() + `
It begins without noise and goes to ever smaller ε (incremental pre-training), in
each stage from the best of the last. Choose --steps, --clip and the noise of a
parameter beside its gradient as your private run will have them; the LSTMs run over
every parameter by itself, so the size of the network may differ.

It writes the weights to --out, a card beside them that says what they were trained
on, the history as .csv, and its picture as .png. A private run whose records are among
the tasks' has no guarantee: name tasks of other data, or of other --classes. The same
command goes on after an interruption, from FILE.checkpoint.`,
		Example: `  privgrad l2p train --tasks quadratic --out protectors/mine.safetensors
  privgrad l2p train --tasks mnist --classes 0,1,2,4,6,7,8,9 --data-dir data/mnist --out protectors/digits.safetensors`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.tasks, "tasks", "", "kind of tasks, one of the above")
	f.StringVar(&o.out, "out", "", "file of the protector, ending in .safetensors")
	f.StringVar(&o.name, "name", "", "name in the card (default the file's)")
	f.StringSliceVar(&o.epsilons, "epsilons", []string{"inf", "1.6", "0.4", "0.2", "0.05"}, "ε of each stage, falling; inf is no noise")
	f.IntSliceVar(&o.epochs, "epochs", []int{10}, "epochs of each stage, or one number for all")
	f.IntVar(&o.steps, "steps", 20, "steps T of a private run")
	f.Float64Var(&o.rate, "sampling-rate", 0.25, "Poisson sampling rate q of a step")
	f.Float64Var(&o.clip, "clip", 1, "clip norm C")
	f.Float64Var(&o.delta, "delta", 1e-8, "δ of the private runs")
	f.StringVar(&o.neighbouring, "neighbouring", string(accountant.AddRemove), "add-remove or replace-one")
	f.StringVar(&o.accountant, "accountant", accountant.RDP, "accountant that gives the noise of an ε")
	f.IntVar(&o.records, "records", 2500, "records of a task")
	f.StringVar(&o.start, "start", "ones", "quadratic: where runs start, ones or normal (random)")
	f.IntSliceVar(&o.classes, "classes", nil, "images: classes that tasks are pairs of (default all)")
	f.IntVar(&o.pool, "pool", 2, "images: average squares of so many pixels a side into one")
	f.IntVar(&o.units, "units", 4, "networks: hidden units")
	f.StringVar(&o.data, "data-dir", "", "directory of the image files (or "+train.DataDirVariable+")")
	f.IntVar(&o.layers, "layers", 2, "layers of each LSTM")
	f.IntVar(&o.hidden, "hidden", 20, "hidden units of each LSTM's layers")
	f.BoolVar(&o.logSign, "log-sign", false, "the projector reads a gradient as logarithm and sign")
	f.BoolVar(&o.odd, "odd", false, "opposite gradients get opposite updates, so that no drift is learned (default for networks)")
	f.BoolVar(&o.curvature, "curvature", false, "keep second derivatives of the tasks, which learning to learn drops (default for networks)")
	f.StringVar(&o.scheduler, "scheduler", l2p.Learned, "lstm, or constant: the same noise in all steps")
	f.Float64Var(&o.scale, "scale", 0.1, "what the projector's output is multiplied by")
	f.Float64Var(&o.cardScale, "card-scale", 0, "the same in the card, for networks larger than the tasks' (default --scale)")
	f.IntVar(&o.batches, "batches", 20, "updates of the LSTMs in an epoch")
	f.IntVar(&o.runs, "runs", 8, "simulated runs that an update averages over")
	f.Float64Var(&o.lr, "lr", 0.005, "learning rate of the meta-training (Adam), falling within a stage")
	f.Float64Var(&o.gamma, "gamma", 1, "the objective is the loss of the last 1/γ of the budget, weighted towards its end")
	f.IntVar(&o.block, "block", 0, "steps after which backpropagation is cut, with a budget for each block; 0: not cut")
	f.IntVar(&o.store, "store-every", 0, "store the state of one step in so many and make the others again; 0: store all")
	f.IntVar(&o.validation, "validation", 50, "held-out tasks that choose the best epoch, of each ε")
	f.Uint64Var(&o.seed, "seed", 1, "of everything; the same seed makes the same protector")
	f.IntVar(&o.threads, "threads", 0, "simulations at a time, 0 for all cores; changes no result")
	progressFlag(cmd, &progress)
	jsonFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := require(cmd, "tasks", "out"); err != nil {
			return err
		}
		options, err := o.options(cmd)
		if err != nil {
			return usage.Wrap(err)
		}
		con, err := newConsole(cmd.ErrOrStderr(), progress)
		if err != nil {
			return err
		}
		ctx, stop := interruptible(cmd.Context(), con, "stopping after this epoch; the same command goes on from there")
		defer stop()
		total := 0
		for _, s := range options.Stages {
			total += s.Epochs
		}
		con.start(int64(total), false)
		options.Progress = func(done, total int, e meta.Epoch) {
			con.update(int64(done), fmt.Sprintf("epoch %d/%d, ε %.3g, validation loss %.4g", done, total, float64(e.Epsilon), e.Validation))
		}
		p, history, err := meta.Train(ctx, options)
		con.finish()
		if err != nil {
			return err
		}
		if o.cardScale > 0 {
			p.Card.Scale = o.cardScale
		}
		return o.finish(cmd, asJSON, p, history, options.Checkpoint)
	}
	return cmd
}

// options are those of meta-training.
func (o *metaFlags) options(cmd *cobra.Command) (meta.Options, error) {
	at := slices.IndexFunc(metaTasks, func(t metaTask) bool { return t.name == o.tasks })
	if at < 0 {
		return meta.Options{}, fmt.Errorf("unknown tasks %q: `%s --help` lists them", o.tasks, cmd.CommandPath())
	}
	kind := metaTasks[at]
	for name, value := range kind.defaults {
		if !cmd.Flags().Changed(name) {
			if err := cmd.Flags().Set(name, value); err != nil {
				return meta.Options{}, err
			}
		}
	}
	if !strings.HasSuffix(o.out, ".safetensors") {
		return meta.Options{}, fmt.Errorf("--out %s: its name must end in .safetensors", o.out)
	}
	if err := o.free(); err != nil {
		return meta.Options{}, err
	}
	if cmd.Flags().Changed("card-scale") && !(o.cardScale > 0) {
		return meta.Options{}, fmt.Errorf("--card-scale %v: must be above 0, or left out for --scale", o.cardScale)
	}
	if o.name == "" {
		o.name = strings.TrimSuffix(filepath.Base(o.out), ".safetensors")
	}
	if len(o.epochs) != 1 && len(o.epochs) != len(o.epsilons) {
		return meta.Options{}, fmt.Errorf("--epochs has %d numbers and --epsilons %d: give one number, or one for each", len(o.epochs), len(o.epsilons))
	}
	if o.threads < 1 {
		o.threads = runtime.GOMAXPROCS(0)
	}
	m := meta.Options{
		Plan: meta.Plan{
			Steps: o.steps, Rate: o.rate, Clip: o.clip, Delta: o.delta,
			Neighbouring: accountant.Neighbouring(o.neighbouring), Accountant: o.accountant,
		},
		Batches: o.batches, Tasks: o.runs, LearningRate: o.lr, GradientNorm: 1, Gamma: o.gamma, Odd: o.odd, Curvature: o.curvature,
		Block: o.block, Every: o.store, Validation: o.validation, Seed: o.seed, Workers: o.threads,
		Checkpoint: o.out + ".checkpoint",
		Card: l2p.Card{
			Name: o.name, Tasks: []string{kind.name}, Scale: o.scale, Recipe: o.recipe(cmd),
			Projector: l2p.Part{Kind: l2p.Learned, Layers: o.layers, Hidden: o.hidden, LogSign: o.logSign},
			Scheduler: l2p.Part{Kind: o.scheduler},
		},
	}
	switch o.scheduler {
	case l2p.Learned:
		m.Card.Scheduler = l2p.Part{Kind: l2p.Learned, Layers: o.layers, Hidden: o.hidden}
	case l2p.Constant:
	default:
		return m, fmt.Errorf("--scheduler %q: choose %s or %s", o.scheduler, l2p.Learned, l2p.Constant)
	}
	for i, text := range o.epsilons {
		epsilon, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return m, fmt.Errorf("--epsilons %q: must be numbers, or inf", text)
		}
		m.Stages = append(m.Stages, meta.Stage{Epsilon: epsilon, Epochs: o.epochs[i*min(1, len(o.epochs)-1)]})
	}
	var err error
	m.Family, m.Card.Public, m.Card.Summary, err = o.family(kind.images)
	if err == nil {
		err = m.Validate()
	}
	return m, err
}

// recipe is the command, with every setting that is not its tasks' own, and without what changes no result.
func (o *metaFlags) recipe(cmd *cobra.Command) string {
	words := []string{cmd.CommandPath()}
	for _, name := range []string{
		"tasks", "epsilons", "epochs", "steps", "sampling-rate", "clip", "delta", "neighbouring", "accountant", "records", "start", "classes", "pool", "units",
		"layers", "hidden", "log-sign", "odd", "curvature", "scheduler", "scale", "card-scale", "batches", "runs", "lr", "gamma", "block", "validation", "seed",
	} {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			words = append(words, fmt.Sprintf("--%s=%s", name, strings.Trim(flag.Value.String(), "[]")))
		}
	}
	return strings.Join(words, " ")
}

// family gives the tasks, the published data among them, and a line about them.
func (o *metaFlags) family(images bool) (meta.Family, []l2p.Public, string, error) {
	public, about := []l2p.Public{}, ""
	if o.records < 4 || o.units < 1 {
		return nil, nil, "", fmt.Errorf("--records %d and --units %d: at least 4 and 1 are needed", o.records, o.units)
	}
	const judged = 500
	model := meta.Classifiers{Source: meta.Gaussians{Width: 20, Train: o.records, Judged: judged}, Model: o.tasks, Hidden: o.units}
	switch {
	case o.tasks == "quadratic":
		if o.start != "ones" && o.start != "normal" {
			return nil, nil, "", fmt.Errorf("--start %q: choose ones or normal", o.start)
		}
		about = fmt.Sprintf("sums of %d random quadratics of two parameters, started at %s", o.records, map[string]string{"ones": "(1, 1)", "normal": "random"}[o.start])
		return meta.Quadratics{Records: o.records, Random: o.start == "normal"}, public, about, nil
	case !images:
		about = fmt.Sprintf("two random Gaussians of 20 columns, %d records", o.records)
		return model, public, about, nil
	}
	source := sources()[o.tasks]
	dir := o.data
	if dir != "" && source.BuiltIn {
		return nil, nil, "", fmt.Errorf("--data-dir %s: %s is built in; leave it out", dir, o.tasks)
	}
	if dir == "" && !source.BuiltIn {
		dir = os.Getenv(train.DataDirVariable)
	}
	set, err := source.Open(dir)
	if err != nil {
		return nil, nil, "", err
	}
	classes := slices.Clone(o.classes)
	if len(classes) == 0 {
		for k := range set.Classes {
			classes = append(classes, k)
		}
	}
	for _, k := range classes {
		if k < 0 || k >= set.Classes {
			return nil, nil, "", fmt.Errorf("--classes names %d: %s has 0 to %d", k, o.tasks, set.Classes-1)
		}
	}
	pixels, labels := decode(set.Train)
	model.Model = meta.MLP
	if model.Source, err = meta.NewImages(pixels, labels, set.Train.Shape[1], o.pool, classes, o.records, judged); err != nil {
		return nil, nil, "", err
	}
	about = fmt.Sprintf("networks of %s on pairs of classes of %s, %d images of %d×%[4]d", plural(o.units, "sigmoid"), o.tasks, o.records, set.Train.Shape[1]/max(o.pool, 1))
	return model, append(public, l2p.Public{Data: o.tasks, Classes: o.classes}), about, nil
}

// decode gives pixels their values, as training does.
func decode(s datasets.Split) (pixels []float64, labels []int) {
	pixels, labels = make([]float64, len(s.Features)), make([]int, len(s.Labels))
	for i, b := range s.Features {
		pixels[i] = float64(b)/127.5 - 1
	}
	for i, l := range s.Labels {
		labels[i] = int(l)
	}
	return pixels, labels
}

// finish writes the files, and says what came out.
// endings of the files that a meta-training leaves.
var endings = []string{".safetensors", ".json", ".csv", ".png"}

// free checks that the files can be written and that none would be overwritten but those
// of an interrupted call.
func (o *metaFlags) free() error {
	if _, err := os.Stat(o.out + ".checkpoint"); err == nil {
		return nil
	}
	for _, ending := range endings {
		if path := strings.TrimSuffix(o.out, endings[0]) + ending; exists(path) {
			return fmt.Errorf("%s is there: remove it, or choose another --out", path)
		}
	}
	dir := filepath.Dir(o.out)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--out %s: %w", o.out, err)
	}
	f, err := os.CreateTemp(dir, ".privgrad-*")
	if err != nil {
		return fmt.Errorf("--out %s: %w", o.out, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (o *metaFlags) finish(cmd *cobra.Command, asJSON bool, p *l2p.Protector, history []meta.Epoch, checkpoint string) error {
	base := strings.TrimSuffix(o.out, ".safetensors")
	if err := p.Write(o.out); err != nil {
		return err
	}
	if err := durable.WriteFile(base+".csv", func(w io.Writer) error { return writeHistory(w, history) }); err != nil {
		return err
	}
	if err := durable.WriteFile(base+".png", func(w io.Writer) error { return drawHistory(w, p.Card.Name, history) }); err != nil {
		return err
	}
	if err := os.Remove(checkpoint); err != nil {
		return err
	}
	best := math.Inf(1)
	last := history[len(history)-1]
	for _, e := range history {
		if e.Stage == last.Stage {
			best = min(best, e.Validation)
		}
	}
	result := struct {
		Protector  string  `json:"protector"`
		Path       string  `json:"path"`
		Card       string  `json:"card"`
		History    string  `json:"history"`
		Picture    string  `json:"picture"`
		Epochs     int     `json:"epochs"`
		Validation float64 `json:"validation_loss"`
		Recipe     string  `json:"recipe"`
	}{p.Card.Name, o.out, l2p.CardPath(o.out), base + ".csv", base + ".png", len(history), best, p.Card.Recipe}
	return show(cmd, asJSON, result, func(w io.Writer) {
		fmt.Fprintf(w, "Protector %s: %s.\n", p.Card.Name, p.Card.Summary)
		table(w, 0, func(w io.Writer) {
			row(w, "loss on held-out tasks", "%.6g", best)
			row(w, "files", "%s, %s, %s, %s", result.Path, result.Card, result.History, result.Picture)
		})
		fmt.Fprintf(w, "\nNext:\n  privgrad train --optimizer l2p --protector %s --epsilon %g\n", quote(o.out), p.Card.EpsilonRange[0])
	})
}

func writeHistory(w io.Writer, history []meta.Epoch) error {
	c := csv.NewWriter(w)
	rows := [][]string{{"stage", "epsilon", "epoch", "loss", "spent", "validation", "steps", "best"}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, e := range history {
		rows = append(rows, []string{
			strconv.Itoa(e.Stage), number(float64(e.Epsilon)), strconv.Itoa(e.Epoch),
			number(e.Loss), number(e.Spent), number(e.Validation), number(e.Steps), strconv.FormatBool(e.Best),
		})
	}
	return c.WriteAll(rows)
}

func drawHistory(w io.Writer, name string, history []meta.Epoch) error {
	curve := func(name string, value func(e meta.Epoch) float64) reproduce.Line {
		l := reproduce.Line{Name: name}
		for i, e := range history {
			l.X, l.Y = append(l.X, float64(i+1)), append(l.Y, value(e))
		}
		return l
	}
	return reproduce.Draw(w, []string{"meta-training of " + name}, [][]reproduce.Chart{{
		{Title: "loss", X: "epoch", Y: "loss", Lines: []reproduce.Line{
			curve("training", func(e meta.Epoch) float64 { return e.Loss }),
			curve("held out, budget spent", func(e meta.Epoch) float64 { return e.Validation }),
		}},
		{Title: "budget", X: "epoch", Y: "share of the budget", Lines: []reproduce.Line{
			curve("spent by T steps", func(e meta.Epoch) float64 { return e.Spent }),
		}},
	}})
}
