package config

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/usage"
)

// yamlKeys are those of a struct as YAML knows it, with those of the structs within.
func yamlKeys(t reflect.Type, before string) (all []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch key, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); {
		case options == "inline":
			all = append(all, yamlKeys(f.Type, before)...)
		case f.Type.Kind() == reflect.Struct && key != "-":
			all = append(all, yamlKeys(f.Type, key+".")...)
		case key != "-":
			all = append(all, before+key)
		}
	}
	return all
}

func TestEveryKeyIsASetting(t *testing.T) {
	var keys []string
	for _, s := range Rows() {
		keys = append(keys, s.Key)
		if s.Help == "" {
			t.Errorf("%s: nothing helps with it", s.Key)
		}
		for _, other := range []string{s.Instead, s.With} {
			if other != "" && !slices.ContainsFunc(rows, func(s setting.Row) bool { return s.Key == other }) {
				t.Errorf("%s goes with %s, which is no setting", s.Key, other)
			}
		}
	}
	want := yamlKeys(reflect.TypeFor[Config](), "")
	slices.Sort(keys)
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("settings\n%v, the configuration has\n%v", keys, want)
	}
}

// alter gives a setting another value than it has.
func alter(s setting.Row, c *Config, random *rand.Rand) {
	v := s.Value(c)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem())) // what was not given is 0
			return
		}
		p := reflect.New(v.Type().Elem())
		p.Elem().Set(v.Elem())
		v.Set(p)
		v = p.Elem()
	}
	by := 1 + random.IntN(9)
	switch {
	case v.CanInt():
		v.SetInt(v.Int() + int64(by))
	case v.CanUint():
		v.SetUint(v.Uint() + uint64(by))
	case v.CanFloat():
		v.SetFloat(v.Float() + float64(by))
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.String:
		v.SetString(v.String() + strings.Repeat("x", by))
	case v.Type() == reflect.TypeFor[[]string]():
		v.Set(reflect.Append(v, reflect.ValueOf(strings.Repeat("x", by))))
	default:
		v.Set(reflect.Append(v, reflect.ValueOf(by).Convert(v.Type().Elem())))
	}
}

// A run that is resumed may differ in what its settings say may change, and in nothing else.
func TestWhatResumptionMayChange(t *testing.T) {
	free := map[string][]string{
		dpoptim.Secure: {"budget", "data_dir", "device", "tensorboard", "gemm", "threads", "memory", "max_physical_batch"},
		dpoptim.Exact:  {"budget", "data_dir", "device", "tensorboard", "gemm", "threads", "memory", "max_physical_batch"},
		dpoptim.Seeded: {"budget", "data_dir", "device", "tensorboard", "threads"},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for noise, free := range free {
		for _, s := range rows {
			c := small()
			c.Noise = noise
			for _, other := range rows {
				if other.Key != "noise" && random.IntN(2) == 0 {
					alter(other, &c, random)
				}
			}
			if s.Key == "count_records" { // false is as in runs from before there were counts, which have none
				c.CountRecords = new(true)
			}
			if s.Key == "model_version" { // 1 is as in runs from before there were others, which have none
				c.ModelVersion = 2
			}
			was := c
			alter(s, &c, random)
			f1, err1 := was.Fingerprint()
			f2, err2 := c.Fingerprint()
			check(t, errors.Join(err1, err2))
			same := f1 == f2
			if allowed := s.Resume.Allowed(noise == dpoptim.Seeded); same != allowed || allowed != slices.Contains(free, s.Key) {
				t.Errorf("%s, noise %s: the same run: %v; its row says %v", s.Key, noise, same, allowed)
			}
			if err := c.Matches(was, "out"); same != (err == nil) || !same && !strings.Contains(err.Error(), strings.Split(s.Key, ".")[0]+" is ") {
				t.Errorf("%s, noise %s: %v", s.Key, noise, err)
			}
		}
	}
}

// What is said of values that are wrong by themselves.
func TestLimits(t *testing.T) {
	inf := math.Inf(1)
	said := map[string]bool{}
	for _, test := range []struct {
		key  string
		set  func(*Config)
		want string
	}{
		{"epsilon", func(c *Config) { c.Epsilon = &inf }, "epsilon +Inf: must be a finite number above 0"},
		{"noise_multiplier", func(c *Config) { c.NoiseMultiplier = ptr(1e-7) }, "noise multiplier 1e-07: must be in [1e-06, 1e+09], or 0 for no noise"},
		{"delta", func(c *Config) { c.Delta = ptr(1.0) }, "delta 1: must be in [0, 1), and well below one over the number of records"},
		{"public_n", func(c *Config) { c.PublicN = ptr(0) }, "public-n 0: must be the public number of training records, 1 or more"},
		{"canaries", func(c *Config) { c.Canaries = -1 }, "canaries -1: must be 1 to 10000, or 0 for none"},
		{"folds", func(c *Config) { c.Folds = 1 }, "folds 1: must be 2 to 1000, or 0 for none"},
		{"recipe", func(c *Config) { c.Recipe = "m" }, `unknown recipe "m": choose one of auto, best, wrn, head, none`},
		{"features", func(c *Config) { c.Features = "m" }, `unknown features "m": choose one of scatter, patches, pairs, encoder, scatter+patches, scatter+pairs, patches+pairs, scatter+encoder, patches+encoder, pairs+encoder, scatter+patches+pairs, scatter+patches+encoder, scatter+pairs+encoder, patches+pairs+encoder, scatter+patches+pairs+encoder, none`},
		{"whiten", func(c *Config) { c.Features, c.Whiten = "scatter", "m" }, `unknown whiten "m": choose one of none, leaves, pink`},
		{"views", func(c *Config) { c.Views = 257 }, "views 257: must be 1 to 256"},
		{"augment", func(c *Config) { c.Augment = []string{"flop"} }, `unknown augment "flop" (did you mean flip?): choose one of flip, crop`},
		{"class_weights", func(c *Config) { c.ClassWeights = []float64{1, -1} }, "class_weights [1 -1]: must be a list of numbers from 1e-06 to 1e+06, one a class"},
		{"feature_norm", func(c *Config) { c.FeatureNorm = ptr(0.0) }, "feature-norm 0: must be in [1e-12, 1e+12]"},
		{"radius", func(c *Config) { c.Radius = ptr(0.0) }, "radius 0: must be in [1e-12, 1e+12]"},
		{"rho", func(c *Config) { c.PUR.Rho = ptr(-1.0) }, "rho -1: must be a finite number above 0"},
		{"pur_k", func(c *Config) { c.PUR.K = ptr(0.0) }, "pur_k 0: must be a finite number above 0"},
		{"pur_sigma", func(c *Config) { c.PUR.Sigma = ptr(0.0) }, "pur-sigma 0: must be a finite number above 0"},
		{"outpert_form", func(c *Config) { c.Outpert.Form = "m" }, `unknown outpert_form "m": choose one of tight, paper`},
		{"objpert_form", func(c *Config) { c.Objpert.Form = "m" }, `unknown objpert_form "m": choose one of tight, paper`},
		{"local_noise", func(c *Config) { c.Optimizer, c.Local.Noise = "banco", "loud" }, `unknown local_noise "loud": choose one of gamma, hemisphere`},
		{"step_decay", func(c *Config) { c.Optimizer, c.PrivGene.Decay = "privgene", ptr(0.0) }, "step_decay 0: must be in (0, 1]"},
		{"rrpsgd_form", func(c *Config) { c.RRPSGD.Form = "m" }, `unknown rrpsgd_form "m": choose one of tight, paper`},
		{"smoothness", func(c *Config) { c.RRPSGD.Smoothness = ptr(0.0) }, "smoothness 0: must be in [1e-20, 1e+20]"},
		{"model", func(c *Config) { c.Model = "m" }, `unknown model "m": choose one of ` + strings.Join(models(), ", ")},
		{"model_version", func(c *Config) { c.ModelVersion = -1 }, "model_version -1: must be the number of a version, or 0 for the last"},
		{"activation", func(c *Config) { c.Activation = "m" }, `unknown activation "m": choose one of tanh, relu, sigmoid, gelu`},
		{"optimizer", func(c *Config) { c.Optimizer = "m" }, `unknown optimizer "m": choose one of ` + strings.Join(Optimizers(), ", ")},
		{"batch", func(c *Config) { c.Batch = ptr(0.0) }, "batch 0: must be a finite number above 0"},
		{"sampling_rate", func(c *Config) { c.SamplingRate = ptr(math.NaN()) }, "sampling rate NaN: must be in (0, 1]"},
		{"sampling", func(c *Config) { c.Sampling = "m" }, `unknown sampling "m": choose one of poisson, fixed-size`},
		{"epochs", func(c *Config) { c.Epochs = ptr(-1.0) }, "epochs -1: must be a finite number above 0"},
		{"steps", func(c *Config) { c.Steps = ptr(1_000_000_001) }, "steps 1000000001: must be 1 to 1000000000"},
		{"clipping", func(c *Config) { c.Clipping = "m" }, `unknown clipping "m": choose one of flat, per-layer, automatic, adaptive`},
		{"lr", func(c *Config) { c.LR = ptr(0.0) }, "learning rate 0: must be a finite number above 0"},
		{"average", func(c *Config) { c.Average = 1 }, "average 1: must be a decay in (0, 1), or 0 for no average"},
		{"momentum", func(c *Config) { c.Momentum = -0.5 }, "momentum -0.5: must be in [0, 1)"},
		{"l2", func(c *Config) { c.L2 = math.NaN() }, "l2 NaN: must be a finite number, 0 or more"},
		{"eval_every", func(c *Config) { c.EvalEvery = -1 }, "eval-every -1: must be a number of steps, or 0 for once per epoch"},
		{"accountant", func(c *Config) { c.Accountant = "m" }, `unknown accountant "m": choose one of pld, rdp, prv, zcdp, gdp, ctcdp, paper`},
		{"neighbouring", func(c *Config) { c.Neighbouring = "m" }, `unknown neighbouring relation "m": choose one of add-remove, replace-one`},
		{"noise", func(c *Config) { c.Noise = "m" }, `unknown noise "m": choose one of secure, exact, seeded`},
		{"train_loss_noise", func(c *Config) { c.TrainLossNoise = ptr(0.0) }, "train-loss-noise 0: must be a noise multiplier in [1e-06, 1e+09]"},
		{"gemm", func(c *Config) { c.GEMM = "m" }, `unknown gemm "m": choose one of own, cublas`},
		{"precision", func(c *Config) { c.Precision = "" }, `unknown precision "": choose one of float32, tf32, bf16`},
		{"threads", func(c *Config) { c.Threads = 1025 }, "threads 1025: must be 1 to 1024, or 0 for all cores"},
		{"strategy", func(c *Config) { c.Strategy = "m" }, `unknown strategy "m": choose one of auto, materialise, ghost, bookkeeping, microbatch`},
		{"memory", func(c *Config) { c.Memory = "0GB" }, `memory "0GB": write a size such as 2GiB or 512MiB`},
		{"memory", func(c *Config) { c.Memory = "2lb" }, `memory "2lb": write a size such as 2GiB or 512MiB`},
		{"memory", func(c *Config) { c.Memory = "2000TiB" }, `memory "2000TiB": write a size such as 2GiB or 512MiB`},
		{"max_physical_batch", func(c *Config) { c.MaxPhysicalBatch = -1 }, "max-physical-batch -1: must be a number of records, or 0 to choose by memory"},
	} {
		said[test.key] = true
		c := small()
		test.set(&c)
		err := c.Check()
		var u *usage.Error
		if !errors.As(err, &u) || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.key, err, test.want)
		}
	}
	for _, s := range slices.Concat(ofRuns, ofMachines) { // a method's own are tested with it
		if (s.Limit != nil) != said[s.Key] {
			t.Errorf("%s has limits: %v; tested: %v: give it a case in the table above", s.Key, s.Limit != nil, said[s.Key])
		}
	}
	both := small()
	both.Momentum, both.Threads = 2, -1
	if err := both.Check(); err == nil || err.Error() != "momentum 2: must be in [0, 1)\nthreads -1: must be 1 to 1024, or 0 for all cores" {
		t.Errorf("two faults: %v", err)
	}
}
