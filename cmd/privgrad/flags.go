package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
	"github.com/privgrad/privgrad/train"
)

// settings are the flags of a configuration. They are applied after the file
// has been read, so that they win over it, and a flag that was not given sets
// nothing.
type settings struct {
	flags *pflag.FlagSet
	apply []func(*train.Config)
}

// alternatives are settings that exclude each other. A flag for one of them
// also replaces the other where the file gave that.
var alternatives = []struct {
	names [2]string
	clear func(*train.Config)
}{
	{[2]string{"epsilon", "noise-multiplier"}, func(c *train.Config) { c.Epsilon, c.NoiseMultiplier = nil, nil }},
	{[2]string{"batch", "sampling-rate"}, func(c *train.Config) { c.Batch, c.SamplingRate = nil, nil }},
	{[2]string{"steps", "epochs"}, func(c *train.Config) { c.Steps, c.Epochs = nil, nil }},
}

// config is the defaults, the file over them where one was given, and the
// flags over both.
func (s *settings) config(file string) (train.Config, error) {
	c := train.Default()
	if file != "" {
		if err := train.ReadConfig(file, &c); err != nil {
			return c, err
		}
	}
	for _, a := range alternatives {
		if s.flags.Changed(a.names[0]) || s.flags.Changed(a.names[1]) {
			a.clear(&c)
		}
	}
	clipping := c.Clipping
	for _, set := range s.apply {
		set(&c)
	}
	if c.Clipping != clipping { // what the file says of a moving clip norm went with the clipping
		for name, field := range map[string]**float64{"clip-floor": &c.ClipFloor, "clip-ceiling": &c.ClipCeiling, "clip-quantile": &c.ClipQuantile} {
			if !s.flags.Changed(name) {
				*field = nil
			}
		}
	}
	return c, nil
}

// A kind is how a flag's values are written.
type kind[T any] struct {
	name  string
	parse func(string) (T, error)
}

var (
	textKind    = kind[string]{"string", func(s string) (string, error) { return s, nil }}
	numberKind  = kind[float64]{"number", parser("a number", func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })}
	integerKind = kind[int]{"int", parser("a whole number", strconv.Atoi)}
	naturalKind = kind[uint64]{"int", parser("a whole number, 0 or more", func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })}
	booleanKind = kind[bool]{"bool", parser("true or false", strconv.ParseBool)}
	listKind    = kind[[]int]{"ints", parser("a list of whole numbers such as 3,5", func(s string) ([]int, error) {
		var all []int
		for field := range strings.SplitSeq(s, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(field))
			if err != nil {
				return nil, err
			}
			all = append(all, n)
		}
		return all, nil
	})}
)

func parser[T any](what string, parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := parse(s)
		if errors.Is(err, strconv.ErrRange) {
			return v, errors.New("out of range")
		}
		if err != nil {
			return v, errors.New("not " + what)
		}
		return v, nil
	}
}

// flagValue is a pflag.Value that hands its text on.
type flagValue struct {
	kind string
	set  func(string) error
}

func (v flagValue) String() string     { return "" }
func (v flagValue) Set(s string) error { return v.set(s) }
func (v flagValue) Type() string       { return v.kind }

// add defines a flag that does set to a configuration.
func add[T any](s *settings, k kind[T], name, usage string, set func(*train.Config, T)) *pflag.Flag {
	s.flags.Var(flagValue{k.name, func(text string) error {
		v, err := k.parse(text)
		if err == nil {
			s.apply = append(s.apply, func(c *train.Config) { set(c, v) })
		}
		return err
	}}, name, usage)
	f := s.flags.Lookup(name)
	if k.name == "bool" {
		f.NoOptDefVal = "true"
	}
	return f
}

// setting is a flag for a field that always has a value.
func setting[T any](s *settings, k kind[T], name, usage string, field func(*train.Config) *T) {
	def := train.Default()
	f := add(s, k, name, usage, func(c *train.Config, v T) { *field(c) = v })
	if text := fmt.Sprint(*field(&def)); text != "[]" {
		f.DefValue = text
	}
}

// optional is a flag for a field that is nil where nothing was said.
func optional[T any](s *settings, k kind[T], name, usage string, field func(*train.Config) **T) {
	add(s, k, name, usage, func(c *train.Config, v T) { *field(c) = &v })
}

func newSettings(flags *pflag.FlagSet) *settings {
	s := &settings{flags: flags}
	s.flags.SortFlags = false
	var models, clippings []string
	for _, m := range nn.Names() {
		models = append(models, m.Name)
	}
	for _, x := range perexample.Clippings() {
		clippings = append(clippings, string(x))
	}
	choice := func(what string, names []string) string { return what + ": " + strings.Join(names, ", ") }

	optional(s, numberKind, "epsilon", "privacy budget ε; the noise is calibrated to it", func(c *train.Config) **float64 { return &c.Epsilon })
	optional(s, numberKind, "noise-multiplier", "noise σ/C instead of a budget; ε follows, 0 means no noise and no privacy", func(c *train.Config) **float64 { return &c.NoiseMultiplier })
	optional(s, numberKind, "delta", "δ of the guarantee, well below one over the number of records (default 1e-05 on built-in and published sets)", func(c *train.Config) **float64 { return &c.Delta })

	setting(s, textKind, "data", choice("data set", data.Names())+", or csv:PATH for a table", func(c *train.Config) *string { return &c.Data })
	setting(s, textKind, "data-dir", "directory of the data set's files, where it is not built in (or "+train.DataDirVariable+")", func(c *train.Config) *string { return &c.DataDir })
	setting(s, listKind, "classes", "keep these classes only, such as 3,5; two make a binary task", func(c *train.Config) *[]int { return &c.Classes })
	optional(s, integerKind, "public-n", "public number of records; required for data of your own. For a table it counts the part held out, too; with --classes only the classes kept", func(c *train.Config) **int { return &c.PublicN })
	setting(s, booleanKind, "published-set", "say that the files are the published data set: their size and test set are then public", func(c *train.Config) *bool { return &c.PublishedSet })
	setting(s, booleanKind, "test-is-public", "say that the test records are public: figures of them are then shown", func(c *train.Config) *bool { return &c.TestIsPublic })

	setting(s, textKind, "schema", choice("table: YAML file of public bounds and categories (default PATH.schema.yaml), or a known one", data.TableNames()), func(c *train.Config) *string { return &c.Schema })
	setting(s, integerKind, "folds", "table: deal the records into so many folds and hold one out", func(c *train.Config) *int { return &c.Folds })
	setting(s, integerKind, "fold", "table: the fold to hold out, from 1 on", func(c *train.Config) *int { return &c.Fold })

	setting(s, textKind, "model", choice("model, by default cnn-mnist, cifar-small, logistic or huber-regression by the data", models), func(c *train.Config) *string { return &c.Model })
	setting(s, textKind, "activation", "tanh, relu or sigmoid", func(c *train.Config) *string { return &c.Activation })
	setting(s, textKind, "init", "start from a model.safetensors; it must not depend on the private data", func(c *train.Config) *string { return &c.Init })
	setting(s, naturalKind, "seed", "of the initial weights; with --noise seeded of everything", func(c *train.Config) *uint64 { return &c.Seed })

	setting(s, textKind, "optimizer", choice("optimizer", train.Optimizers()), func(c *train.Config) *string { return &c.Optimizer })
	setting(s, textKind, "protector", "of optimizer l2p: a name that privgrad l2p list shows, or a file that privgrad l2p train wrote", func(c *train.Config) *string { return &c.Protector })
	setting(s, textKind, "protector-sha256", "refuse a protector of other weights; a run fills it in, and its config.yaml keeps it", func(c *train.Config) *string { return &c.Weights })
	optional(s, numberKind, "norm-noise", "of optimizer l2p: also release the norm of every sum of gradients, for the scheduler of the next noise; its noise multiplier, charged with the sum's", func(c *train.Config) **float64 { return &c.NormNoise })
	optional(s, numberKind, "batch", "expected batch, the sampling rate times the number of records (default 1024)", func(c *train.Config) **float64 { return &c.Batch })
	optional(s, numberKind, "sampling-rate", "probability with which a record joins a batch, instead of --batch", func(c *train.Config) **float64 { return &c.SamplingRate })
	optional(s, numberKind, "epochs", "passes over the data (default 20)", func(c *train.Config) **float64 { return &c.Epochs })
	optional(s, integerKind, "steps", "updates, instead of --epochs", func(c *train.Config) **int { return &c.Steps })
	setting(s, numberKind, "clip", "bound C on the norm of an example's share of a sum; with --clipping adaptive the first one", func(c *train.Config) *float64 { return &c.Clip })
	setting(s, textKind, "clipping", choice("how an example's gradient is brought within --clip", clippings), func(c *train.Config) *string { return &c.Clipping })
	optional(s, numberKind, "clip-quantile", "adaptive clipping: share of gradients to leave unclipped (default 0.5)", func(c *train.Config) **float64 { return &c.ClipQuantile })
	optional(s, numberKind, "clip-floor", "adaptive clipping: public lower bound of the clip norm (default a thousandth of --clip)", func(c *train.Config) **float64 { return &c.ClipFloor })
	optional(s, numberKind, "clip-ceiling", "adaptive clipping: public upper bound of the clip norm (default a thousand times --clip)", func(c *train.Config) **float64 { return &c.ClipCeiling })
	optional(s, numberKind, "lr", "learning rate (default by optimizer and model)", func(c *train.Config) **float64 { return &c.LR })
	setting(s, textKind, "lr-schedule", choice("learning rate over the run", dpoptim.Shapes())+", which falls to 0", func(c *train.Config) *string { return &c.LRSchedule })
	setting(s, integerKind, "warmup", "steps in which the learning rate rises evenly to --lr", func(c *train.Config) *int { return &c.Warmup })
	setting(s, numberKind, "average", "decay of a moving average of the parameters, such as 0.99, kept and evaluated beside the last ones; 0 for none; costs no privacy", func(c *train.Config) *float64 { return &c.Average })
	setting(s, numberKind, "momentum", "heavy-ball momentum", func(c *train.Config) *float64 { return &c.Momentum })
	optional(s, numberKind, "beta1", "decay of Adam's first moment (default 0.9)", func(c *train.Config) **float64 { return &c.Beta1 })
	optional(s, numberKind, "beta2", "decay of Adam's second moment (default 0.999)", func(c *train.Config) **float64 { return &c.Beta2 })
	optional(s, numberKind, "adam-epsilon", "added to the root of Adam's second moment (default 1e-08)", func(c *train.Config) **float64 { return &c.AdamEpsilon })
	setting(s, booleanKind, "subtract-noise-variance", "dp-adam: take the noise's known variance out of the second moment (DP-AdamBC)", func(c *train.Config) *bool { return &c.SubtractNoiseVariance })
	setting(s, numberKind, "l2", "weight decay", func(c *train.Config) *float64 { return &c.L2 })
	searchSettings(s)
	setting(s, integerKind, "eval-every", "steps between evaluations on the test data, 0 for once an epoch", func(c *train.Config) *int { return &c.EvalEvery })

	setting(s, textKind, "accountant", strings.Join(accountant.Names(), ", ")+"; prv (a cross-check) and paper (the papers' own figures) are no guarantee", func(c *train.Config) *string { return &c.Accountant })
	setting(s, textKind, "neighbouring", "relation between data sets: add-remove or replace-one", func(c *train.Config) *string { return &c.Neighbouring })
	setting(s, textKind, "noise", "secure (from the operating system's randomness), exact (likewise, with sums in integers, which are the same in any order; slower), or seeded to reproduce a run, which protects nobody", func(c *train.Config) *string { return &c.Noise })
	optional(s, numberKind, "train-loss-noise", "release the training loss with this noise multiplier; it is charged", func(c *train.Config) **float64 { return &c.TrainLossNoise })
	setting(s, booleanKind, "private-diagnostics", "write un-noised diagnostics for the data's owner to OUT.private", func(c *train.Config) *bool { return &c.PrivateDiagnostics })
	setting(s, booleanKind, "data-is-public", "the training data are public: show un-noised statistics, give no guarantee", func(c *train.Config) *bool { return &c.DataIsPublic })

	setting(s, textKind, "device", "auto, cpu, cuda, cuda:N or reference (slow)", func(c *train.Config) *string { return &c.Device })
	setting(s, textKind, "gemm", cli.GEMMHelp, func(c *train.Config) *string { return &c.GEMM })
	setting(s, textKind, "precision", cli.PrecisionHelp, func(c *train.Config) *string { return &c.Precision })
	setting(s, integerKind, "threads", "processor threads, 0 for all; no result depends on it", func(c *train.Config) *int { return &c.Threads })
	setting(s, textKind, "strategy", cli.StrategyHelp, func(c *train.Config) *string { return &c.Strategy })
	setting(s, textKind, "memory", "bound on a batch's values and stored gradients, such as 2GiB (default a quarter of the machine's)", func(c *train.Config) *string { return &c.Memory })
	setting(s, integerKind, "max-physical-batch", "most records that go through the network together, 0 to go by memory", func(c *train.Config) *int { return &c.MaxPhysicalBatch })
	return s
}
