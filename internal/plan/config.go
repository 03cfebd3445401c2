// Package plan makes a plan of a configuration: all that a run is, before any record has
// been looked at.
package plan

import (
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/yamlfile"
	"github.com/privgrad/privgrad/perexample"
)

// Config is a whole run as a user writes it, in flags or YAML. Zero values of
// pointers and empty strings stand for "not given"; Resolve fills them in.
type Config struct {
	Data    string `yaml:"data"`
	DataDir string `yaml:"data_dir,omitempty"`
	Classes []int  `yaml:"classes,omitempty,flow"`

	ClassNames []string `yaml:"class_names,omitempty,flow"`
	ImageSize  string   `yaml:"image_size,omitempty"`
	Positive   string   `yaml:"positive,omitempty"`

	PublicN *int   `yaml:"public_n,omitempty"`
	Schema  string `yaml:"schema,omitempty"`
	schema  string // that a model keeps
	Folds   int    `yaml:"folds,omitempty"`
	Fold    int    `yaml:"fold,omitempty"`

	DropFirst bool `yaml:"drop_first,omitempty"`

	CountRecords *bool `yaml:"count_records,omitempty"` // nil: where it makes sense

	PublishedSet bool `yaml:"published_set,omitempty"`
	TestIsPublic bool `yaml:"test_is_public,omitempty"`

	Recipe         string `yaml:"recipe,omitempty"`
	RecipeChosenOn string `yaml:"recipe_chosen_on,omitempty"` // filled in

	Features string `yaml:"features,omitempty"`
	Whiten   string `yaml:"whiten,omitempty"`
	Mirror   bool   `yaml:"mirror,omitempty"`
	Deskew   bool   `yaml:"deskew,omitempty"`

	FeatureNorm *float64 `yaml:"feature_norm,omitempty"`

	ObjpertForm string `yaml:"objpert_form,omitempty"`

	Model      string `yaml:"model"`
	Activation string `yaml:"activation"`
	Init       string `yaml:"init,omitempty"`
	Seed       uint64 `yaml:"seed"`

	InitLayers []string `yaml:"init_layers,omitempty,flow"`

	Optimizer string   `yaml:"optimizer"`
	LR        *float64 `yaml:"lr,omitempty"`
	Momentum  float64  `yaml:"momentum"`
	L2        float64  `yaml:"l2"`
	Search    *Search  `yaml:"search,omitempty"`
	Protector string   `yaml:"protector,omitempty"`
	Weights   string   `yaml:"protector_sha256,omitempty"` // of the protector; filled in, and checked where given
	NormNoise *float64 `yaml:"norm_noise,omitempty"`

	Radius   *float64 `yaml:"radius,omitempty"`
	Rho      *float64 `yaml:"rho,omitempty"`
	PURK     *float64 `yaml:"pur_k,omitempty"`
	PURSigma *float64 `yaml:"pur_sigma,omitempty"`

	OutpertForm    string   `yaml:"outpert_form,omitempty"`
	OutpertAverage bool     `yaml:"outpert_average,omitempty"`
	StepDecay      *float64 `yaml:"step_decay,omitempty"`
	LocalNoise     string   `yaml:"local_noise,omitempty"`

	RRPSGDForm string   `yaml:"rrpsgd_form,omitempty"`
	Smoothness *float64 `yaml:"smoothness,omitempty"`

	LRSchedule            string   `yaml:"lr_schedule"`
	Warmup                int      `yaml:"warmup,omitempty"`
	Beta1                 *float64 `yaml:"beta1,omitempty"`
	Beta2                 *float64 `yaml:"beta2,omitempty"`
	AdamEpsilon           *float64 `yaml:"adam_epsilon,omitempty"`
	SubtractNoiseVariance bool     `yaml:"subtract_noise_variance,omitempty"`
	Average               float64  `yaml:"average,omitempty"`

	Batch        *float64 `yaml:"batch,omitempty"`
	SamplingRate *float64 `yaml:"sampling_rate,omitempty"`
	Sampling     string   `yaml:"sampling,omitempty"`
	Steps        *int     `yaml:"steps,omitempty"`
	Epochs       *float64 `yaml:"epochs,omitempty"`
	EvalEvery    int      `yaml:"eval_every,omitempty"`

	Epsilon         *float64 `yaml:"epsilon,omitempty"`
	NoiseMultiplier *float64 `yaml:"noise_multiplier,omitempty"`
	Delta           *float64 `yaml:"delta,omitempty"`
	Clip            float64  `yaml:"clip"`
	Clipping        string   `yaml:"clipping"`
	ClipFloor       *float64 `yaml:"clip_floor,omitempty"`
	ClipCeiling     *float64 `yaml:"clip_ceiling,omitempty"`
	ClipQuantile    *float64 `yaml:"clip_quantile,omitempty"`
	Accountant      string   `yaml:"accountant"`
	Neighbouring    string   `yaml:"neighbouring"`
	Noise           string   `yaml:"noise"`
	TrainLossNoise  *float64 `yaml:"train_loss_noise,omitempty"`

	TensorBoard        bool `yaml:"tensorboard,omitempty"` // package report attaches it
	PrivateDiagnostics bool `yaml:"private_diagnostics,omitempty"`
	DataIsPublic       bool `yaml:"data_is_public,omitempty"`

	Strategy         string `yaml:"strategy"`
	Device           string `yaml:"device"`
	GEMM             string `yaml:"gemm"`
	Precision        string `yaml:"precision,omitempty"`
	Threads          int    `yaml:"threads"`
	Memory           string `yaml:"memory,omitempty"`
	MaxPhysicalBatch int    `yaml:"max_physical_batch,omitempty"`

	own dpoptim.Method // in the place of a named one

	// file is what a recipe's file said, and flags are what was given beside it; nil where ε is the same.
	file       *Config
	flags      map[string]bool
	leftRecipe string // the flag by which a user left the recipe of a file

	given map[string]bool // keys that a file or a flag set
}

// Default is the run that a user gets who says nothing but ε or σ. With ε alone that is the best recipe for the data: set Recipe to
// "none" for the other settings as they stand here.
func Default() Config {
	return Config{
		Data: "fmnist", Recipe: autoRecipe, Activation: "tanh", Optimizer: "dp-sgd", LRSchedule: dpoptim.Constant, Seed: 1,
		Clip: 1, Clipping: string(perexample.Flat), Accountant: accountant.PLD, Neighbouring: "add-remove", Noise: "secure",
		Strategy: string(perexample.Auto), Device: "auto", GEMM: devices.GEMMOwn, Precision: device.Float32.String(),
	}
}

// ReadConfig reads a YAML file over a configuration; unknown keys are errors. Americans may
// write neighboring.
func ReadConfig(path string, into *Config) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return usage.Errorf("configuration %s cannot be read (%w): give the path of a YAML file, such as a run's %s", path, usage.Cause(err), rundir.Config)
	}
	return ParseConfig(b, path, into)
}

// ParseConfig is ReadConfig of the text of a file.
func ParseConfig(text []byte, path string, into *Config) error {
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
	if into.Recipe == autoRecipe && !into.given["recipe"] {
		into.Recipe = "" // a file says all that it wants
	}
	return nil
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

// give notes that a key was set on purpose, and forget that it was not.
func (c *Config) give(key string)   { c.note(key, true) }
func (c *Config) forget(key string) { c.note(key, false) }

func (c *Config) note(key string, given bool) {
	all := map[string]bool{} // copies of the configuration share the old one
	maps.Copy(all, c.given)
	all[key] = given
	c.given = all
}

// YAML writes the configuration so that it can be run again.
func (c Config) YAML() ([]byte, error) { return yaml.Marshal(c) }

// The ways to draw noise.
const (
	noiseSecure = dpoptim.Secure
	noiseExact  = dpoptim.Exact
	noiseSeeded = dpoptim.Seeded

	// SeededLabel goes with everything that a seeded run shows or stores.
	SeededLabel = notPrivate + "seeded noise, whoever knows the seed can subtract it"
)

// Bounds that keep a run within single precision and a machine within reason.
const (
	leastScale, mostScale = dpoptim.LeastScale, dpoptim.MostScale
	leastNoise, mostNoise = 1e-6, 1e9
	// Of features and of weights, whose products and squares have to fit, too.
	leastLength, mostLength = 1e-12, 1e12
	leastBatch              = 1e-6
	mostThreads             = 1024
	mostFolds               = 1000
	mostSteps               = accountant.MostSteps
)

// exact reports whether sums and noise are of integers, which hides records
// whatever the rounding of floating-point numbers.
func (c *Config) exact() bool { return c.Noise == noiseExact && c.Private() }

// Private reports whether the optimizer clips and noises.
func (c *Config) Private() bool { return c.traits().Private }

// drawn is how batches are drawn: as the accountant or the method needs them, or by choice.
func (c *Config) drawn() *batches.Kind {
	t := c.traits()
	for _, k := range []*batches.Kind{batches.PricedBy(c.Accountant), batches.Named(c.Sampling)} {
		if k != nil && t.CanDraw(k) {
			return k
		}
	}
	if k := t.Draws(); k != batches.Full || t.Private {
		return k
	}
	return batches.Poisson // at rate 1, as runs without privacy have always called it
}

// adapts reports whether the clip norm moves.
func (c *Config) adapts() bool { return c.Clipping == string(perexample.AdaptiveFlat) }

// adaptive is the rule by which the clip norm moves, with defaults for what was
// not given.
func (c *Config) adaptive() perexample.Adaptive {
	a := perexample.Adaptive{
		Quantile: perexample.AdaptiveQuantile,
		Floor:    max(c.Clip/perexample.AdaptiveRange, leastScale),
		Ceiling:  min(c.Clip*perexample.AdaptiveRange, mostScale),
	}
	for _, given := range []struct{ from, to *float64 }{{c.ClipQuantile, &a.Quantile}, {c.ClipFloor, &a.Floor}, {c.ClipCeiling, &a.Ceiling}} {
		if given.from != nil {
			*given.to = *given.from
		}
	}
	return a
}

// checkClipping finds faults of the clipping.
func (c *Config) checkClipping() error {
	if !c.Private() && c.Clipping != string(perexample.Flat) {
		return usage.Errorf("clipping %s: optimizer %s is not private and clips nothing; leave --clipping at its default or use dp-sgd", c.Clipping, c.Optimizer)
	}
	if !(c.Clip >= leastScale) || c.Clip > mostScale {
		return usage.Errorf("clip norm %v: must be in [%g, %g], so that single-precision arithmetic keeps to it", c.Clip, leastScale, mostScale)
	}
	if !c.adapts() {
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
	a := c.adaptive()
	if a.Floor < leastScale || a.Ceiling > mostScale {
		return usage.Errorf("clip floor %v and clip ceiling %v: must lie in [%g, %g], so that single-precision arithmetic keeps to them", a.Floor, a.Ceiling, leastScale, mostScale)
	}
	return usage.Wrap(a.Validate(c.Clip))
}

// check finds every fault that shows without the data.
func (c *Config) check(ownNetwork bool) error {
	if err := c.checkSettings(ownNetwork); err != nil {
		return err
	}
	if err := errors.Join(c.checkFront(), c.checkClipping(), c.checkMoments(), c.checkInit()); err != nil {
		return usage.Wrap(err)
	}
	if err := c.checkMethod(ownNetwork); err != nil {
		return err
	}
	if err := c.checkBudget(); err != nil {
		return err
	}
	return c.checkSampling()
}

// checkSettings finds every value that is wrong by itself. A user's own network has a
// name and activations of its own, and a user's own method a name.
func (c *Config) checkSettings(ownNetwork bool) error {
	read := *c
	var faults []error
	for _, s := range settings {
		if ownNetwork && (s.Key == "model" || s.Key == "activation") || c.own != nil && s.Key == "optimizer" {
			continue
		}
		faults = append(faults, s.fault(&read))
	}
	return usage.Wrap(errors.Join(faults...))
}

// checkBudget finds settings of the noise that do not go together.
func (c *Config) checkBudget() error {
	switch {
	case c.exact() && c.Precision != device.Float32.String():
		return usage.Errorf("precision %s: exact noise is for sums of float32 gradients; use --precision float32, or --noise secure", c.Precision)
	case c.Epsilon != nil && c.NoiseMultiplier != nil:
		return usage.Errorf("epsilon %v and noise multiplier %v were both given: give one, the other follows", *c.Epsilon, *c.NoiseMultiplier)
	case c.Private() && c.Epsilon == nil && c.NoiseMultiplier == nil && c.Rho == nil:
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
