package audit

import (
	"fmt"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/blsgd"
	"github.com/privgrad/privgrad/dpoptim/local"
	"github.com/privgrad/privgrad/internal/audit/hear"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/usage"
)

// An Optimizer is one that can be asked for, with what an audit of it looks at.
type Optimizer struct {
	Name, Hears string // Hears is empty where there is no privacy to audit
	// Epsilon and Delta are of an audit where nothing else is said, 0 where the noise multiplier counts.
	Epsilon, Delta float64
}

// String says what an audit with answers looks at.
func (o Optimizer) String() string {
	return fmt.Sprintf("%s (ε = %g, δ = %g)", o.Hears, o.Epsilon, o.Delta)
}

// OnlyGradients is what is heard of an optimizer that asks for sums of batches' gradients.
const OnlyGradients = "gradients"

// Optimizers lists them all.
func Optimizers() (all []Optimizer) {
	for _, name := range config.Optimizers() {
		c := config.Default()
		c.Optimizer = name
		o := Optimizer{Name: name}
		if s, ok := stages[name]; ok {
			o.Hears, o.Epsilon, o.Delta = s.hears, s.epsilon, s.delta
		} else if c.Private() {
			o.Hears = OnlyGradients
		}
		all = append(all, o)
	}
	return all
}

// ofGradients are the settings, by their flags, that only audits of gradients read.
var ofGradients = []string{"noise-multiplier", "sampling-rate", "steps", "model", "activation", "clip", "clipping", "strategy", "views", "augment", "records-per-user", "canary"}

// Incline takes what nobody has given from the optimizer, and refuses what an audit of it does not read.
func (c *Config) Incline(given func(flag string) bool) error {
	s, heard := stages[c.Optimizer]
	switch {
	case !heard && given("epsilon"):
		return usage.Errorf("epsilon %v: an audit of optimizer %s claims what its noise does; give --noise-multiplier, --sampling-rate and --steps", c.Epsilon, c.Optimizer)
	case !heard:
		return nil
	}
	if i := slices.IndexFunc(ofGradients, given); i >= 0 {
		return usage.Errorf("--%s is for audits of gradients, and optimizer %s is audited on settings of its own; leave it out", ofGradients[i], c.Optimizer)
	}
	if !given("delta") {
		c.Delta = s.delta
	}
	if !given("neighbouring") {
		c.Neighbouring = ""
	}
	if !given("accountant") {
		c.Accountant = ""
	}
	return nil
}

func checkOptimizer(name string) error {
	all := Optimizers()
	i := slices.IndexFunc(all, func(o Optimizer) bool { return o.Name == name })
	if i < 0 {
		return usage.Wrap(config.CheckOptimizer(name))
	}
	if all[i].Hears == "" {
		return usage.Errorf("optimizer %s is not private, so it claims nothing that an audit could refute; audit a private one, such as dp-sgd", name)
	}
	return nil
}

// A stage is what a method is audited on: settings under which its questions say as much as their
// bounds allow, and two data sets that are as small.
type stage struct {
	hears          string
	epsilon, delta float64
	with           func(*config.Config)
	scene          func(neighbouring string) *hear.Scene
}

// smallClip is a bound that all gradients reach.
const smallClip = 0.01

// apart is how many times a record's share replacing it moves a sum.
func apart(c *config.Config) float64 {
	if c.Neighbouring == string(accountant.ReplaceOne) {
		return 2
	}
	return 1
}

func steps(n int) func(*config.Config) { return func(c *config.Config) { c.Steps = new(n) } }

func asIs(*config.Config) {}

const (
	allGradients = "gradients of all records"
	oneFit       = "the parameters of the one release"
)

// stages are those of the methods that ask for more than sums of gradients.
var stages = map[string]stage{
	"dp-blsgd": {"gradients and the index of the search", 4, 1e-5, func(c *config.Config) {
		search(c)
		c.Steps, c.SamplingRate = new(1), new(1.0)
		s := &c.Search
		s.Form, s.Budget, s.Every, s.Share = "losses", "fixed", new(1), new(0.8)
		s.Trials, s.Alpha, s.Margin = new(1), new(1e-9), new(0.5)
	}, hear.Downhill},
	"dp-blsgd-ac": {"gradients and the indices of searches, until a filter stops", 2, 0.05, func(c *config.Config) {
		adaptive(c)
		c.SamplingRate, c.Steps = new(1.0), new(20)
	}, hear.Downhill},
	"dp-blgd": {"gradients and the indices of searches, until a filter stops", 2, 0.05, adaptive, hear.Downhill},
	"dp-agd": {"gradients and the indices of minima, until a filter stops", 2, 0.05, func(c *config.Config) {
		adaptive(c)
		c.LR = new(2.0)
		c.Search.Alpha, c.Search.Trials, c.Search.Margin, c.Search.Noise = nil, new(2), nil, ""
	}, hear.Downhill},
	"majority": {"the class", 2, 1e-5, asIs, hear.Besides},
	"l2p": {"gradients and norms, until a filter stops", 2, 0.05, func(c *config.Config) {
		c.Clip, c.L2P.Protector, c.L2P.NormNoise = smallClip, "quadratic", new(1.3*apart(c))
		c.SamplingRate, c.Steps = new(1.0), new(1)
	}, hear.Alone},

	// Of linear models, with the bound of 1 on features.
	"noisy-gd":     {allGradients, 4, 1e-5, steps(3), hear.Steep},
	"pur-a":        {allGradients, 4, 1e-5, asIs, hear.Steep},
	"pur-b":        {allGradients, 4, 1e-5, func(c *config.Config) { c.Radius = new(10.0) }, hear.Steep},
	"pur-c":        {allGradients, 4, 1e-5, func(c *config.Config) { c.L2, c.PublicN = 1, new(4*int(apart(c))) }, hear.Steep},
	"pur-constant": {allGradients, 4, 1e-5, func(c *config.Config) { c.PUR.Sigma = new(2 * apart(c)) }, hear.Steep},
	"bassily-sgd":  {"gradients under the published noise", 4, 1e-5, func(c *config.Config) { c.Steps, c.Radius = new(30), new(10.0) }, hear.Steep},
	"outpert-gd":   {oneFit, 4, 1e-5, steps(5), hear.Steep},
	"outpert-rsgd": {oneFit, 4, 1e-5, asIs, hear.Steep},
	"objpert":      {oneFit, 4, 1e-5, asIs, hear.Steep},
	"rrpsgd":       {"gradients of the rounds", 4, 1e-5, steps(1), hear.Steep},
	"privgene":     {"choices", 4, 1e-5, steps(1), hear.Steep},
	"banco":        {"the report of one record", 4, 0, func(c *config.Config) { c.Local.Noise = local.Gamma }, hear.Steep},
}

// search steps by about 2 along the mean of the gradients of downhill's records.
func search(c *config.Config) {
	c.Clip, c.LR = smallClip, new(2/smallClip)
	c.Search = blsgd.Settings{Clip: new(float64(hear.SearchClip))}
}

func adaptive(c *config.Config) {
	search(c)
	c.Search.Noise = string(accountant.BTLSGaussian)
	c.Search.Iterations, c.Search.Alpha, c.Search.Trials, c.Search.Margin = new(2*int(apart(c))), new(1e-9), new(1), new(0.2)
}
