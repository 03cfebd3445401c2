// Package config has the settings of a run as a user writes them, in flags or a file: which there are, which values they
// take, which go together, and what may change when a run is resumed.
package config

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/bassily"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/dpoptim/lbfgs"
	"github.com/privgrad/privgrad/dpoptim/local"
	"github.com/privgrad/privgrad/dpoptim/majority"
	"github.com/privgrad/privgrad/dpoptim/nesterov"
	"github.com/privgrad/privgrad/dpoptim/objpert"
	"github.com/privgrad/privgrad/dpoptim/outpert"
	"github.com/privgrad/privgrad/dpoptim/privgene"
	"github.com/privgrad/privgrad/dpoptim/pur"
	"github.com/privgrad/privgrad/dpoptim/rrpsgd"
	"github.com/privgrad/privgrad/dpoptim/sgd"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/yamlfile"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// Config is a whole run as a user writes it, in flags or YAML. Zero values of
// pointers and empty strings stand for "not given"; a plan fills them in.
//
// Its fields that are a dpoptim.Family are methods with settings of their own.
type Config struct {
	dpoptim.Settings `yaml:",inline"` // what a method of training may read, and settle where it was left open

	Data    string `yaml:"data"`
	DataDir string `yaml:"data_dir,omitempty"`

	ClassNames []string `yaml:"class_names,omitempty,flow"`
	ImageSize  string   `yaml:"image_size,omitempty"`
	Positive   string   `yaml:"positive,omitempty"`

	PublicN   *int   `yaml:"public_n,omitempty"`
	Schema    string `yaml:"schema,omitempty"`
	Folds     int    `yaml:"folds,omitempty"`
	Fold      int    `yaml:"fold,omitempty"`
	DropFirst bool   `yaml:"drop_first,omitempty"`

	CountRecords *bool `yaml:"count_records,omitempty"` // nil: where it makes sense

	PrivacyUnit `yaml:",inline"`

	PublishedSet bool `yaml:"published_set,omitempty"`
	TestIsPublic bool `yaml:"test_is_public,omitempty"`

	Recipe         string `yaml:"recipe,omitempty"`
	RecipeChosenOn string `yaml:"recipe_chosen_on,omitempty"` // filled in

	Features string `yaml:"features,omitempty"`
	Whiten   string `yaml:"whiten,omitempty"`
	Mirror   bool   `yaml:"mirror,omitempty"`
	Deskew   bool   `yaml:"deskew,omitempty"`

	Views   int      `yaml:"views,omitempty"` // 0: one
	Augment []string `yaml:"augment,omitempty,flow"`

	ClassWeights []float64 `yaml:"class_weights,omitempty,flow"`

	ModelVersion int `yaml:"model_version,omitempty"` // 0: the last; filled in of a name that has stood for several networks

	NetworkFile `yaml:",inline"`

	Init       string   `yaml:"init,omitempty"`
	InitLayers []string `yaml:"init_layers,omitempty,flow"`

	Optimizer string `yaml:"optimizer"`

	Adam     sgd.Settings      `yaml:",inline"`
	Search   blsgd.Settings    `yaml:"search,omitempty"`
	L2P      l2p.Settings      `yaml:",inline"`
	PUR      pur.Settings      `yaml:",inline"`
	Outpert  outpert.Settings  `yaml:",inline"`
	Objpert  objpert.Settings  `yaml:",inline"`
	PrivGene privgene.Settings `yaml:",inline"`
	Local    local.Settings    `yaml:",inline"`
	RRPSGD   rrpsgd.Settings   `yaml:",inline"`

	Sampling  string `yaml:"sampling,omitempty"`
	EvalEvery int    `yaml:"eval_every,omitempty"`

	ClipFloor    *float64 `yaml:"clip_floor,omitempty"`
	ClipCeiling  *float64 `yaml:"clip_ceiling,omitempty"`
	ClipQuantile *float64 `yaml:"clip_quantile,omitempty"`

	TensorBoard        bool `yaml:"tensorboard,omitempty"` // package report attaches it
	PrivateDiagnostics bool `yaml:"private_diagnostics,omitempty"`
	DataIsPublic       bool `yaml:"data_is_public,omitempty"`

	Budget string `yaml:"budget,omitempty"` // file of what several runs may cost together

	Canaries int `yaml:"canaries,omitempty"` // made-up records, by which the run can be audited

	Machine `yaml:",inline"`

	Unwritten `yaml:"-"`
}

// plain are the methods without settings of their own.
var plain = []dpoptim.Family{bassily.Family, nesterov.Family, lbfgs.Family, majority.Family}

// Machine says where a run computes, and how fast. It cannot change ε.
type Machine struct {
	Strategy         string `yaml:"strategy"`
	Device           string `yaml:"device"`
	GEMM             string `yaml:"gemm"`
	Precision        string `yaml:"precision,omitempty"`
	Threads          int    `yaml:"threads"`
	Memory           string `yaml:"memory,omitempty"`
	MaxPhysicalBatch int    `yaml:"max_physical_batch,omitempty"`
}

// Unwritten is what goes with a configuration and is written to no file.
type Unwritten struct {
	OwnMethod  dpoptim.Method // in the place of a named one
	SchemaText string         // that a model keeps, in the place of the schema beside its table

	Given map[string]bool // keys that a file or a flag set

	// File is what a recipe's file said, and Flags are what was given beside it; nil where ε is the same.
	File       *Config
	Flags      map[string]bool
	LeftRecipe string // the flag by which a user left the recipe of a file
}

// Default is the run that a user gets who says nothing but ε or σ. With ε alone that is the best recipe for the data: set Recipe to
// "none" for the other settings as they stand here.
func Default() Config {
	return Config{
		Settings: dpoptim.Settings{
			LRSchedule: dpoptim.Constant, Seed: 1, Clip: 1, Clipping: string(perexample.Flat),
			Accountant: accountant.PLD, Neighbouring: string(accountant.AddRemove), Noise: dpoptim.Secure,
		},
		Data: "fmnist", Recipe: AutoRecipe, Optimizer: sgd.DPSGD,
		Machine: Machine{Strategy: string(perexample.Auto), Device: "auto", GEMM: devices.GEMMOwn, Precision: device.Float32.String()},
	}
}

// Read reads a YAML file over a configuration; unknown keys are errors. Americans may
// write neighboring. A file beside a ledger is a run's own.
func Read(path string, into *Config) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return usage.Errorf("configuration %s cannot be read (%w): give the path of a YAML file, such as a run's %s", path, usage.Cause(err), rundir.Config)
	}
	if err := Parse(b, path, into); err != nil {
		return err
	}
	if filepath.Base(path) == rundir.Config && rundir.Dir(filepath.Dir(path)).Has(rundir.Ledger) {
		into.OfRun()
	}
	return nil
}

// Parse is Read of the text of a file.
func Parse(text []byte, path string, into *Config) error {
	b := yamlfile.Rename(text, "neighboring", "neighbouring")
	err := yamlfile.Decode(b, into)
	if errors.Is(err, yamlfile.ErrEmpty) {
		return nil // it sets nothing
	}
	if err == nil {
		err = into.giveAll(b)
	}
	if err != nil {
		return usage.Errorf("configuration %s: %w: correct that; a run's own %s shows the keys", path, err, rundir.Config)
	}
	if into.Recipe == AutoRecipe && !into.Given["recipe"] {
		into.Recipe = "" // a file says all that it wants
	}
	return nil
}

// OfRun completes the settings of a run's own file with what earlier versions of this project did not write into it: which
// network its model's name stood for.
func (c *Config) OfRun() {
	if slices.ContainsFunc(nn.Names(), func(m nn.Info) bool { return m.Name == c.Model && m.Versions > 1 }) {
		c.ModelVersion = cmp.Or(c.ModelVersion, 1)
	}
}

// giveAll notes the keys of a YAML file.
func (c *Config) giveAll(text []byte) error {
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		return err
	}
	for key := range keys {
		c.give(key)
	}
	return nil
}

// Open reports whether nobody chose a setting, nor the one whose place it takes.
func (c *Config) Open(key string, initial *Config) bool {
	return c.Untouched(key, initial) && (row(key).Instead == "" || c.Untouched(row(key).Instead, initial))
}

// Untouched reports whether nobody gave a setting a value.
func (c *Config) Untouched(key string, initial *Config) bool {
	return !c.Given[key] && reflect.DeepEqual(row(key).Field(c), row(key).Field(initial))
}

// row is that of a key.
func row(key string) setting.Row {
	if i := slices.IndexFunc(rows, func(r setting.Row) bool { return r.Key == key }); i >= 0 {
		return rows[i]
	}
	return setting.Row{Key: key}
}

// Override replaces the settings whose keys are given. What a given one excludes goes,
// and what belongs to a value that is replaced by another.
func (c *Config) Override(by *Config, given map[string]bool) {
	before := *c
	moves := func(key string) bool {
		r := setting.Row{Key: key}
		return given[key] && !reflect.DeepEqual(r.Field(by), r.Field(&before))
	}
	for _, r := range rows {
		switch {
		case given[r.Key]:
			r.Value(c).Set(r.Value(by))
			c.give(r.Key)
		case given[r.Instead], r.With != "" && moves(r.With):
			r.Value(c).SetZero()
			c.forget(r.Key)
		}
	}
	moved := func(key string) bool { return moves(key) && !slices.Contains(Looking, key) }
	keys := recipes.Keys(recipes.Of(c.RecipeChosenOn))
	if i := slices.IndexFunc(keys, moved); i >= 0 && c.RecipeChosenOn != "" {
		c.RecipeChosenOn, c.LeftRecipe = "", setting.Row{Key: keys[i]}.Flag()
	}
	if moves("epsilon") {
		c.File, c.Flags = &before, given
	}
}

// Which recipe fills in what is left open. A configuration without a word takes none: so does one that was resolved.
const (
	AutoRecipe = "auto" // the best, where nothing else was chosen
	NoRecipe   = "none"
)

// Looking are a recipe's ways to look at an image.
var Looking = []string{"whiten", "mirror", "deskew"}

// NoFeatures is the word for images as they are.
const NoFeatures = "none"

// DataDirVariable names the environment variable that stands in for --data-dir
// where a data set is read from files.
const DataDirVariable = "PRIVGRAD_DATA"

// give notes that a key was set on purpose, and forget that it was not.
func (c *Config) give(key string)   { c.note(key, true) }
func (c *Config) forget(key string) { c.note(key, false) }

func (c *Config) note(key string, given bool) {
	all := map[string]bool{} // copies of the configuration share the old one
	maps.Copy(all, c.Given)
	all[key] = given
	c.Given = all
}

// YAML writes the configuration so that it can be run again. Fingerprints are of these bytes.
func (c Config) YAML() ([]byte, error) {
	n, err := yaml.ValueToNode(c)
	if err != nil {
		return nil, err
	}
	keys := n.(*ast.MappingNode).Values
	place := func(v *ast.MappingValueNode) int {
		i := slices.Index(fileOrder, v.Key.GetToken().Value)
		if i < 0 {
			i = len(fileOrder)
		}
		return i
	}
	slices.SortStableFunc(keys, func(a, b *ast.MappingValueNode) int { return place(a) - place(b) })
	return []byte(n.String() + "\n"), nil
}

// fileOrder is in which order files have keys, whatever the order of fields; others follow, in that of the fields.
var fileOrder = strings.Fields(`
	data data_dir classes class_names image_size positive public_n schema folds fold drop_first count_records
	published_set test_is_public recipe recipe_chosen_on features whiten mirror deskew views augment feature_norm objpert_form
	model model_version network network_sha256 weights_are_public batchnorm normalize new_head freeze activation init seed init_layers optimizer lr momentum l2 class_weights search protector protector_sha256 norm_noise
	radius rho pur_k pur_sigma outpert_form outpert_average step_decay local_noise rrpsgd_form smoothness
	lr_schedule warmup beta1 beta2 adam_epsilon subtract_noise_variance average
	batch sampling_rate sampling steps epochs eval_every epsilon noise_multiplier delta
	clip clipping clip_floor clip_ceiling clip_quantile accountant neighbouring noise train_loss_noise
	tensorboard private_diagnostics data_is_public
	strategy device gemm precision threads memory max_physical_batch`)

// Bounds that keep a machine within reason.
const mostThreads, mostFolds, mostCanaries = 1024, 1000, 10_000

// Exact reports whether sums and noise are of integers, which hides records
// whatever the rounding of floating-point numbers.
func (c *Config) Exact() bool { return c.Noise == dpoptim.Exact && c.Private() }

// Seeded reports whether all that is drawn follows from the seed: such a run protects nobody.
func (c *Config) Seeded() bool { return c.Noise == dpoptim.Seeded }

// Private reports whether the optimizer clips and noises.
func (c *Config) Private() bool { return c.Traits().Private }

// Adapts reports whether the clip norm moves.
func (c *Config) Adapts() bool { return c.Clipping == string(perexample.AdaptiveFlat) }

// Adaptive is the rule by which the clip norm moves, with defaults for what was
// not given.
func (c *Config) Adaptive() perexample.Adaptive {
	a := perexample.Adaptive{
		Quantile: perexample.AdaptiveQuantile,
		Floor:    max(c.Clip/perexample.AdaptiveRange, dpoptim.LeastScale),
		Ceiling:  min(c.Clip*perexample.AdaptiveRange, dpoptim.MostScale),
	}
	for _, given := range []struct{ from, to *float64 }{{c.ClipQuantile, &a.Quantile}, {c.ClipFloor, &a.Floor}, {c.ClipCeiling, &a.Ceiling}} {
		if given.from != nil {
			*given.to = *given.from
		}
	}
	return a
}

// FrontSpec names the front end for images of a shape.
func (c *Config) FrontSpec(shape [3]int) features.Spec {
	return features.Spec{Kind: c.Features, Whiten: features.Whitening(c.Whiten), Mirror: c.Mirror, Deskew: c.Deskew, Shape: shape}
}

// Norm is the most that the norm of a record's features is; 0: they are as they are.
func (c *Config) Norm() float64 {
	if c.FeatureNorm != nil {
		return *c.FeatureNorm
	}
	return 0
}

// NormText is the bound on the norm of features in words of a model's file.
func (c *Config) NormText() string {
	if c.FeatureNorm == nil {
		return "none"
	}
	return strconv.FormatFloat(*c.FeatureNorm, 'g', -1, 64)
}

// checkClipping finds faults of the clipping.
func (c *Config) checkClipping() error {
	if !c.Private() && c.Clipping != string(perexample.Flat) {
		return usage.Errorf("clipping %s: optimizer %s is not private and clips nothing; leave --clipping at its default or use dp-sgd", c.Clipping, c.Optimizer)
	}
	if !(c.Clip >= dpoptim.LeastScale) || c.Clip > dpoptim.MostScale {
		return usage.Errorf("clip norm %v: must be in [%g, %g], so that single-precision arithmetic keeps to it", c.Clip, dpoptim.LeastScale, dpoptim.MostScale)
	}
	if !c.Adapts() {
		for _, given := range []struct {
			name  string
			value *float64
		}{{"floor", c.ClipFloor}, {"ceiling", c.ClipCeiling}, {"quantile", c.ClipQuantile}} {
			if given.value != nil {
				return usage.Errorf("clip %s %v: clipping %s keeps the clip norm as it is; leave it out or use --clipping %s", given.name, *given.value, c.Clipping, perexample.AdaptiveFlat)
			}
		}
		return nil
	}
	a := c.Adaptive()
	if a.Floor < dpoptim.LeastScale || a.Ceiling > dpoptim.MostScale {
		return usage.Errorf("clip floor %v and clip ceiling %v: must lie in [%g, %g], so that single-precision arithmetic keeps to them", a.Floor, a.Ceiling, dpoptim.LeastScale, dpoptim.MostScale)
	}
	return usage.Wrap(a.Validate(c.Clip))
}

// Check finds every fault that shows without the data, and settles what follows from the method alone.
func (c *Config) Check() error {
	if err := c.CheckValues(); err != nil {
		return err
	}
	if err := errors.Join(c.checkFront(), c.checkNetwork(), c.checkViews(), c.checkUnit(), c.checkClipping(), c.checkInit(), c.checkClassWeights()); err != nil {
		return usage.Wrap(err)
	}
	if err := c.checkMethod(); err != nil {
		return err
	}
	if err := c.checkBudget(); err != nil {
		return err
	}
	return c.checkSampling()
}

// CheckValues finds every value that is wrong by itself. A user's own network has a
// name and activations of its own, and a user's own method a name.
func (c *Config) CheckValues() error {
	var faults []error
	for _, r := range rows {
		if (c.OwnNetwork || c.Network != "") && (r.Key == "model" || r.Key == "activation") || c.OwnMethod != nil && r.Key == "optimizer" {
			continue
		}
		faults = append(faults, r.Fault(c))
	}
	return usage.Wrap(errors.Join(faults...))
}

// checkFront finds settings of a front end that do not go together.
func (c *Config) checkFront() error {
	if c.Features == NoFeatures {
		c.Features = ""
	}
	switch {
	case c.Features == "" && c.Whiten != "":
		return usage.Errorf("whiten %s has no effect without features; give --features, or leave it out", c.Whiten)
	case c.Features == "" && c.Mirror:
		return usage.Errorf("mirror has no effect without features; give --features, or leave it out")
	case c.Features == "" && c.Deskew:
		return usage.Errorf("deskew has no effect without features; give --features, or leave it out")
	}
	return nil
}

// checkInit finds settings of the first weights that do not go together.
func (c *Config) checkInit() error {
	if len(c.InitLayers) > 0 && c.Init == "" {
		return usage.Errorf("init-layers %s: they are layers of the file of --init: give one, or leave it out", strings.Join(c.InitLayers, ","))
	}
	return nil
}

// checkBudget finds settings of the noise that do not go together.
func (c *Config) checkBudget() error {
	switch {
	case c.Exact() && c.Precision != device.Float32.String():
		return usage.Errorf("precision %s: exact noise is for sums of float32 gradients; use --precision float32, or --noise secure", c.Precision)
	case c.Epsilon != nil && c.NoiseMultiplier != nil:
		return usage.Errorf("epsilon %v and noise multiplier %v were both given: give one, the other follows", *c.Epsilon, *c.NoiseMultiplier)
	case c.Private() && c.Epsilon == nil && c.NoiseMultiplier == nil && c.PUR.Rho == nil:
		return usage.Errorf("no privacy budget given; try `privgrad train --epsilon 3`, or set the noise with --noise-multiplier")
	case !c.Private() && (c.Epsilon != nil || c.NoiseMultiplier != nil):
		private := "dp-" + c.Optimizer
		if !slices.Contains(Optimizers(), private) {
			private = "dp-sgd"
		}
		return usage.Errorf("optimizer %s is not private and takes neither epsilon nor noise multiplier: use %s for a private run", c.Optimizer, private)
	case !c.Private() && c.TrainLossNoise != nil:
		return usage.Errorf("train-loss-noise %v: optimizer %s is not private; use --data-is-public to see its training loss", *c.TrainLossNoise, c.Optimizer)
	}
	return nil
}

// checkSampling finds settings of batches, steps and folds that do not go together.
func (c *Config) checkSampling() error {
	switch {
	case c.Batch != nil && c.SamplingRate != nil:
		return usage.Errorf("batch %v and sampling rate %v were both given: give one, the other follows", *c.Batch, *c.SamplingRate)
	case c.Steps != nil && c.Epochs != nil:
		return usage.Errorf("steps %d and epochs %v were both given: give one", *c.Steps, *c.Epochs)
	case c.Fold < min(c.Folds, 1) || c.Fold > c.Folds:
		return usage.Errorf("fold %d of %d: give the number of folds by --folds, and the fold to hold out, from 1 on, by --fold", c.Fold, c.Folds)
	}
	return nil
}
