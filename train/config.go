package train

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/yamlfile"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// Config is a whole run as a user writes it, in flags or YAML. Zero values of
// pointers and empty strings stand for "not given"; Resolve fills them in.
type Config struct {
	Data    string `yaml:"data"`
	DataDir string `yaml:"data_dir,omitempty"`
	Classes []int  `yaml:"classes,omitempty,flow"`
	PublicN *int   `yaml:"public_n,omitempty"`
	Schema  string `yaml:"schema,omitempty"`
	Folds   int    `yaml:"folds,omitempty"`
	Fold    int    `yaml:"fold,omitempty"`

	PublishedSet bool `yaml:"published_set,omitempty"`
	TestIsPublic bool `yaml:"test_is_public,omitempty"`

	Model      string `yaml:"model"`
	Activation string `yaml:"activation"`
	Init       string `yaml:"init,omitempty"`
	Seed       uint64 `yaml:"seed"`

	Optimizer string   `yaml:"optimizer"`
	LR        *float64 `yaml:"lr,omitempty"`
	Momentum  float64  `yaml:"momentum"`
	L2        float64  `yaml:"l2"`
	Search    *Search  `yaml:"search,omitempty"`
	Protector string   `yaml:"protector,omitempty"`
	Weights   string   `yaml:"protector_sha256,omitempty"` // of the protector; filled in, and checked where given
	NormNoise *float64 `yaml:"norm_noise,omitempty"`

	LRSchedule            string   `yaml:"lr_schedule"`
	Warmup                int      `yaml:"warmup,omitempty"`
	Beta1                 *float64 `yaml:"beta1,omitempty"`
	Beta2                 *float64 `yaml:"beta2,omitempty"`
	AdamEpsilon           *float64 `yaml:"adam_epsilon,omitempty"`
	SubtractNoiseVariance bool     `yaml:"subtract_noise_variance,omitempty"`
	Average               float64  `yaml:"average,omitempty"`

	Batch        *float64 `yaml:"batch,omitempty"`
	SamplingRate *float64 `yaml:"sampling_rate,omitempty"`
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
}

// Default is the run that a user gets who says nothing but ε or σ.
func Default() Config {
	return Config{
		Data: "fmnist", Activation: "tanh", Optimizer: "dp-sgd", LRSchedule: dpoptim.Constant, Seed: 1,
		Clip: 1, Clipping: string(perexample.Flat), Accountant: accountant.PLD, Neighbouring: "add-remove", Noise: "secure",
		Strategy: string(perexample.Auto), Device: "auto", GEMM: GEMMOwn, Precision: device.Float32.String(),
	}
}

// ReadConfig reads a YAML file over a configuration; unknown keys are errors.
func ReadConfig(path string, into *Config) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return usage.Errorf("configuration: %w: give the path of a YAML file, such as a run's %s", err, rundir.Config)
	}
	if err := yamlfile.Decode(b, into); err != nil && !errors.Is(err, yamlfile.ErrEmpty) {
		return usage.Errorf("configuration %s: %w: correct that; a run's own %s shows the keys", path, err, rundir.Config)
	}
	return nil // an empty file sets nothing
}

// YAML writes the configuration so that it can be run again.
func (c Config) YAML() ([]byte, error) { return yaml.Marshal(c) }

// fingerprint identifies everything that must not change between a run and its
// resumption. Where the data lie, and what computes, may change.
func (c Config) fingerprint() (string, error) {
	c.DataDir, c.Device, c.Threads = "", "", 0
	if c.Precision == device.Float32.String() {
		c.Precision = "" // as in runs from before there were others
	}
	if c.Noise != noiseSeeded {
		c.Memory, c.MaxPhysicalBatch, c.GEMM = "", 0, "" // they move rounding only, which nothing but a seeded run promises
	}
	b, err := c.YAML()
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:]), nil
}

// The ways to draw noise.
const (
	noiseSecure = dpoptim.Secure
	noiseExact  = dpoptim.Exact
	noiseSeeded = dpoptim.Seeded

	// SeededLabel goes with everything that a seeded run shows or stores.
	SeededLabel = "NOT PRIVATE: seeded noise, whoever knows the seed can subtract it"
)

// Bounds that keep a run within single precision and a machine within reason.
const (
	leastScale, mostScale = dpoptim.LeastScale, dpoptim.MostScale
	leastNoise, mostNoise = 1e-6, 1e9
	leastBatch            = 1e-6
	mostThreads           = 1024
	mostFolds             = 1000
	mostSteps             = 1_000_000_000
)

// exact reports whether sums and noise are of integers, which hides records
// whatever the rounding of floating-point numbers.
func (c *Config) exact() bool { return c.Noise == noiseExact && c.private() }

// precision is that of the products; check has parsed it.
func (c *Config) precision() device.Precision {
	p, _ := device.ParsePrecision(c.Precision)
	return p
}

// private reports whether the optimizer clips and noises.
func (c *Config) private() bool { return c.traits().Private }

// fixedSize reports whether batches are subsets of a fixed size, which the
// accountant of the paper needs.
func (c *Config) fixedSize() bool { return c.traits().Subsets && c.Accountant == accountant.CTCDP }

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
	if !c.private() && c.Clipping != string(perexample.Flat) {
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

// check finds every fault that shows without the data. A user's own network
// has a name and activations of its own.
func (c *Config) check(ownNetwork bool) error {
	oneOf := func(what, got string, choices ...string) error {
		if slices.Contains(choices, got) {
			return nil
		}
		return fmt.Errorf("unknown %s %q: choose one of %s", what, got, strings.Join(choices, ", "))
	}
	positive := func(what string, v *float64) error {
		if v != nil && (!(*v > 0) || math.IsInf(*v, 0)) {
			return fmt.Errorf("%s %v: must be a finite number above 0", what, *v)
		}
		return nil
	}
	var clippings []string
	for _, k := range perexample.Clippings() {
		clippings = append(clippings, string(k))
	}
	err := errors.Join(
		oneOf("optimizer", c.Optimizer, c.optimizers()...),
		oneOf("clipping", c.Clipping, clippings...),
		oneOf("accountant", c.Accountant, accountant.Names()...),
		oneOf("neighbouring relation", c.Neighbouring, "add-remove", "replace-one"),
		oneOf("gemm", c.GEMM, GEMMOwn, GEMMCuBLAS),
		oneOf("noise", c.Noise, noiseSecure, noiseExact, noiseSeeded),
		perexample.Check(perexample.Strategy(c.Strategy)),
		oneOf("precision", c.Precision, device.Precisions()...),
		positive("learning rate", c.LR),
		positive("epsilon", c.Epsilon),
		positive("batch", c.Batch),
		positive("epochs", c.Epochs),
	)
	if err != nil {
		return usage.Wrap(err)
	}
	if err := errors.Join(c.checkClipping(), c.checkMoments()); err != nil {
		return usage.Wrap(err)
	}
	if err := c.checkMethod(ownNetwork); err != nil {
		return err
	}
	switch {
	case c.exact() && c.precision() != device.Float32:
		return usage.Errorf("precision %s: exact noise is for sums of float32 gradients; use --precision float32, or --noise secure", c.Precision)
	case c.Momentum < 0 || c.Momentum >= 1 || math.IsNaN(c.Momentum):
		return usage.Errorf("momentum %v: must be in [0, 1)", c.Momentum)
	case !(c.L2 >= 0) || math.IsInf(c.L2, 0):
		return usage.Errorf("l2 %v: must be a finite number, 0 or more", c.L2)
	case c.NoiseMultiplier != nil && *c.NoiseMultiplier != 0 && (!(*c.NoiseMultiplier >= leastNoise) || *c.NoiseMultiplier > mostNoise):
		return usage.Errorf("noise multiplier %v: must be in [%g, %g], or 0 for no noise", *c.NoiseMultiplier, leastNoise, mostNoise)
	case c.Epsilon != nil && c.NoiseMultiplier != nil:
		return usage.Errorf("epsilon %v and noise multiplier %v were both given: give one, the other follows", *c.Epsilon, *c.NoiseMultiplier)
	case c.private() && c.Epsilon == nil && c.NoiseMultiplier == nil:
		return usage.Errorf("optimizer %s needs a privacy budget: give --epsilon (the noise is calibrated) or --noise-multiplier (ε follows)", c.Optimizer)
	case !c.private() && (c.Epsilon != nil || c.NoiseMultiplier != nil):
		return usage.Errorf("optimizer %s is not private and takes neither epsilon nor noise multiplier: use dp-sgd for a private run", c.Optimizer)
	case c.Delta != nil && (!(*c.Delta > 0) || *c.Delta >= 1):
		return usage.Errorf("delta %v: must be in (0, 1), and well below one over the number of records", *c.Delta)
	case c.Batch != nil && c.SamplingRate != nil:
		return usage.Errorf("batch %v and sampling rate %v were both given: give one, the other follows", *c.Batch, *c.SamplingRate)
	case c.SamplingRate != nil && (!(*c.SamplingRate > 0) || *c.SamplingRate > 1):
		return usage.Errorf("sampling rate %v: must be in (0, 1]", *c.SamplingRate)
	case c.Steps != nil && c.Epochs != nil:
		return usage.Errorf("steps %d and epochs %v were both given: give one", *c.Steps, *c.Epochs)
	case c.Steps != nil && (*c.Steps < 1 || *c.Steps > mostSteps):
		return usage.Errorf("steps %d: must be 1 to %d", *c.Steps, mostSteps)
	case c.EvalEvery < 0:
		return usage.Errorf("eval-every %d: must be a number of steps, or 0 for once an epoch", c.EvalEvery)
	case c.MaxPhysicalBatch < 0:
		return usage.Errorf("max-physical-batch %d: must be a number of records, or 0 to choose by memory", c.MaxPhysicalBatch)
	case c.Threads < 0 || c.Threads > mostThreads:
		return usage.Errorf("threads %d: must be 1 to %d, or 0 for all cores", c.Threads, mostThreads)
	case c.PublicN != nil && *c.PublicN < 1:
		return usage.Errorf("public-n %d: must be the public number of training records, 1 or more", *c.PublicN)
	case c.Average != 0 && (!(c.Average > 0) || c.Average >= 1):
		return usage.Errorf("average %v: must be a decay in (0, 1), or 0 for no average", c.Average)
	case c.Folds < 0 || c.Folds == 1 || c.Folds > mostFolds:
		return usage.Errorf("folds %d: must be 2 to %d, or 0 for none", c.Folds, mostFolds)
	case c.Folds == 0 && c.Fold != 0 || c.Folds != 0 && (c.Fold < 1 || c.Fold > c.Folds):
		return usage.Errorf("fold %d of %d: name the one to hold out, from 1 on, by --fold, and the number of all by --folds", c.Fold, c.Folds)
	case c.TrainLossNoise != nil && (!(*c.TrainLossNoise >= leastNoise) || *c.TrainLossNoise > mostNoise):
		return usage.Errorf("train-loss-noise %v: must be a noise multiplier in [%g, %g]", *c.TrainLossNoise, leastNoise, mostNoise)
	case c.TrainLossNoise != nil && !c.private():
		return usage.Errorf("train-loss-noise %v: optimizer %s is not private; use --data-is-public to see its training loss", *c.TrainLossNoise, c.Optimizer)
	}
	if !ownNetwork {
		if err := oneOf("activation", c.Activation, "tanh", "relu", "sigmoid"); err != nil {
			return usage.Wrap(err)
		}
	}
	if c.Model != "" && !ownNetwork {
		var models []string
		for _, m := range nn.Names() {
			models = append(models, m.Name)
		}
		if err := oneOf("model", c.Model, models...); err != nil {
			return usage.Wrap(err)
		}
	}
	_, err = c.memory()
	return err
}

// memory parses the budget for a batch's values and gradients; 0 if there is none yet.
func (c *Config) memory() (int64, error) {
	if c.Memory == "" {
		return 0, nil
	}
	var n float64
	var unit string
	if k, _ := fmt.Sscanf(c.Memory, "%g%s", &n, &unit); k < 1 || !(n > 0) {
		return 0, usage.Errorf("memory %q: write a size such as 2GiB or 512MiB", c.Memory)
	}
	scale, ok := map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
	if !ok || n*scale > 1<<50 {
		return 0, usage.Errorf("memory %q: write a size such as 2GiB or 512MiB", c.Memory)
	}
	return int64(n * scale), nil
}
