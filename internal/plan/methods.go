package plan

import (
	"reflect"
	"slices"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/bassily"
	"github.com/privgrad/privgrad/dpoptim/batches"
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
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
)

// Search are the settings of methods that find their step sizes.
type Search = blsgd.Settings

// methods are all methods, by name: how each is made with the settings that are its own,
// where help has these, and what it is in a line.
var methods = map[string]struct {
	make  func(name string, c *Config) dpoptim.Method
	own   Group
	about string
}{
	sgd.DPSGD:     {byGradients, Group{}, "SGD on clipped, noisy gradients"},
	sgd.DPAdam:    {byGradients, onAdam, "Adam on clipped, noisy gradients"},
	sgd.PlainSGD:  {byGradients, Group{}, "SGD without privacy (NOT PRIVATE)"},
	sgd.PlainAdam: {byGradients, onAdam, "Adam without privacy (NOT PRIVATE)"},
	blsgd.BLSGD:   {bySearches, onSearch, "DP-SGD whose learning rate a private line search finds"},
	blsgd.BLSGDAC: {bySearches, onSearch, "dp-blsgd whose budgets and clip norms adapt"},
	blsgd.BLGD:    {bySearches, onSearch, "dp-blsgd on all records at every step"},
	blsgd.AGD:     {bySearches, onSearch, "full-batch steps, each the best of some candidates (Lee and Kifer)"},
	l2p.Name: {func(_ string, c *Config) dpoptim.Method {
		return l2p.New(l2p.Settings{Protector: c.Protector, Weights: &c.Weights, NormNoise: c.NormNoise})
	}, onL2P, "noise and steps by small LSTMs that learned on public tasks"},
	lbfgs.Name:         {func(string, *Config) dpoptim.Method { return lbfgs.New() }, Group{}, "the minimum by L-BFGS, on all records, without privacy (NOT PRIVATE)"},
	nesterov.Name:      {func(string, *Config) dpoptim.Method { return nesterov.New() }, Group{}, "DP-SGD with Nesterov momentum"},
	pur.NonConvex:      {byPUR, onConvex, "full-batch steps with falling noise, for smooth losses (Fay et al.)"},
	pur.Convex:         {byPUR, onConvex, "the same for convex losses, with weights in a ball"},
	pur.StronglyConvex: {byPUR, onConvex, "the same for strongly convex losses"},
	pur.Constant:       {byPUR, onConvex, "the same with constant noise, to compare with"},
	pur.Oracle:         {byPUR, onConvex, "noise by the exact gradient's norm, to compare with (NOT PRIVATE)"},
	pur.NoisyGD:        {byPUR, onConvex, "full-batch steps with constant noise, priced exactly"},
	bassily.Name: {func(_ string, c *Config) dpoptim.Method { return bassily.New(c.Radius) }, onConvex,
		"SGD with the noise of Bassily et al. 2014, to compare with"},
	outpert.GD:   {byOutput, onConvex, "gradient descent without noise on a linear model, released once"},
	outpert.RSGD: {byOutput, onConvex, "passes of SGD without noise on a linear model, released once"},
	objpert.Name: {func(_ string, c *Config) dpoptim.Method { return objpert.New(objpert.Settings{Form: c.ObjpertForm}) }, onConvex,
		"the minimum of a linear model's losses and a random linear term"},
	local.Banco: {func(_ string, c *Config) dpoptim.Method { return local.New(local.Settings{Noise: c.LocalNoise}) }, onConvex,
		"linear models from reports that each record noises itself, without a learning rate"},
	rrpsgd.Name: {func(_ string, c *Config) dpoptim.Method {
		return rrpsgd.New(rrpsgd.Settings{Form: c.RRPSGDForm, Smoothness: c.Smoothness, Seed: c.Seed})
	}, Group{}, "SGD on single records for a random number of rounds (Zhang et al.)"},
	majority.Name: {func(string, *Config) dpoptim.Method { return majority.Method{} }, Group{}, "releases only the class of most records, to compare with"},
	privgene.Name: {func(_ string, c *Config) dpoptim.Method {
		return privgene.New(privgene.Settings{Decay: c.StepDecay, Delta: c.Delta})
	}, onConvex,
		"linear models, one move of one weight after the other by the exponential mechanism"},
}

// About is an optimizer in a line.
func About(optimizer string) string { return methods[optimizer].about }

// Own is where help has the settings that an optimizer alone reads, or its like; the zero Group
// where there are none.
func Own(optimizer string) Group { return methods[optimizer].own }

// CheckOptimizer refuses what is no optimizer's name.
func CheckOptimizer(name string) error { return oneOf(Optimizers()...)("optimizer", name) }

func byGradients(name string, c *Config) dpoptim.Method { return sgd.New(name, c.moments()) }
func byPUR(name string, c *Config) dpoptim.Method {
	return pur.New(name, pur.Settings{K: c.PURK, Sigma: c.PURSigma, Rho: c.Rho, Radius: c.Radius, Seed: c.Seed})
}
func bySearches(name string, c *Config) dpoptim.Method { return blsgd.New(name, &c.Search) }

func byOutput(name string, c *Config) dpoptim.Method {
	return outpert.New(name, outpert.Settings{Form: c.OutpertForm, Average: c.OutpertAverage, Radius: c.Radius, Delta: c.Delta})
}

// Optimizers lists the names that a configuration may give.
func Optimizers() []string {
	var names []string
	for name := range methods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// method is the configured one, nil for an unknown name.
func (c *Config) method() dpoptim.Method {
	if c.own != nil {
		return c.own
	}
	if m, ok := methods[c.Optimizer]; ok {
		return m.make(c.Optimizer, c)
	}
	return nil
}

// traits are those of the configured method.
func (c *Config) traits() dpoptim.Traits {
	if m := c.method(); m != nil {
		return m.Traits()
	}
	return dpoptim.Traits{Name: c.Optimizer}
}

// Relate chooses the relation, also for a method that is made for another; the method's own where it is empty.
func (c *Config) Relate(n accountant.Neighbouring) {
	if n == "" {
		c.incline()
		return
	}
	c.Neighbouring = string(n)
	c.give("neighbouring")
}

// incline takes the relation, the accountant and the clip norm that the method is made for, where the user chose none.
func (c *Config) incline() {
	t, initial := c.traits(), Default()
	if k := batches.Named(c.Sampling); k != nil && k.Relation != "" && t.CanDraw(k) {
		t.Relation = k.Relation
	}
	if t.Relation != "" && (Setting{Key: "neighbouring"}).open(c, &initial) {
		c.Neighbouring = string(t.Relation)
	}
	if t.Accountant != "" && (Setting{Key: "accountant"}).open(c, &initial) {
		c.Accountant = t.Accountant
	}
	if t.Clip != 0 && (Setting{Key: "clip"}).open(c, &initial) {
		c.Clip = t.Clip
	}
}

// StepsFollow reports whether the budget decides how many steps there are: with the steps of another budget,
// a run would be refused or waste the rest.
func (c *Config) StepsFollow() bool {
	_, schedules := c.method().(*pur.Method)
	return schedules && c.Optimizer != pur.NoisyGD
}

// moments are the settings of Adam.
func (c *Config) moments() sgd.Settings {
	return sgd.Settings{Beta1: c.Beta1, Beta2: c.Beta2, Epsilon: c.AdamEpsilon, SubtractNoise: c.SubtractNoiseVariance}
}

// checkDrawing refuses ways to draw batches that the method or the accountant does not have.
func (c *Config) checkDrawing() error {
	t, by := c.traits(), batches.PricedBy(c.Accountant)
	switch {
	case by == nil:
	case t.Private && !t.CanDraw(by):
		return usage.Errorf("accountant %s covers %s, which only optimizer %s draws; use --accountant %s or %s", c.Accountant, by.Called, l2p.Name, accountant.PLD, accountant.RDP)
	case t.Draws() == by:
		return usage.Errorf("accountant %s is for the schedules of optimizer %s; use --accountant %s or %s", c.Accountant, l2p.Name, accountant.PLD, accountant.RDP)
	}
	chosen, drawn := batches.Named(c.Sampling), c.drawn()
	switch {
	case chosen == nil:
	case chosen != batches.Poisson && !t.CanDraw(chosen):
		return usage.Errorf("sampling %s: optimizer %s draws no %s; leave it out, or use --optimizer %s", c.Sampling, c.Optimizer, chosen.Called, l2p.Name)
	case chosen.Relation != "" && by != chosen && c.Neighbouring != string(chosen.Relation):
		return usage.Errorf("neighbouring %s: %s are priced under %s only, as %s; use --neighbouring %[3]s", c.Neighbouring, chosen.Called, chosen.Relation, chosen.Why)
	case chosen == drawn || !drawn.Offered: // where there is nothing to choose, poisson has always been allowed
	case drawn == by:
		return usage.Errorf("sampling %s: optimizer %s with accountant %s draws %s; leave it out", c.Sampling, c.Optimizer, c.Accountant, drawn.Called)
	default:
		return usage.Errorf("sampling %s: optimizer %s draws %s alone; leave it out", c.Sampling, c.Optimizer, drawn.Called)
	}
	return nil
}

// fullBatch reports whether every step is of all records.
func (c *Config) fullBatch() bool {
	t := c.traits()
	return t.Draws() == batches.Full && !t.Once
}

// checkUnread refuses settings that the method does not read.
func (c *Config) checkUnread() error {
	m := c.method()
	if _, searches := m.(*blsgd.Method); c.Search != nil && !searches {
		return usage.Errorf("optimizer %s makes no line search: leave out the settings of --search-*, or use --optimizer dp-blsgd", c.Optimizer)
	}
	if d := c.Delta; d != nil && *d == 0 && c.Private() && !c.traits().Pure {
		return usage.Errorf("delta 0: the noise of optimizer %s keeps no ε without δ; give --delta above 0, or use --optimizer %s", c.Optimizer, outpert.GD)
	}
	if err := c.checkDrawing(); err != nil {
		return err
	}
	if err := c.checkConvex(); err != nil {
		return err
	}
	if _, protects := m.(*l2p.Method); protects {
		return nil
	}
	switch {
	case c.Weights != "":
		return usage.Errorf("protector_sha256 %s: optimizer %s has no protector; leave it out", c.Weights, c.Optimizer)
	case c.Protector != "":
		return usage.Errorf("protector %s: optimizer %s has no protector; leave it out, or use --optimizer %s", c.Protector, c.Optimizer, l2p.Name)
	case c.NormNoise != nil:
		return usage.Errorf("norm-noise %v: optimizer %s asks for no norm; leave it out, or use --optimizer %s", *c.NormNoise, c.Optimizer, l2p.Name)
	}
	return nil
}

// checkConvex refuses settings of methods for convex losses that the method does not read; what
// only some of these read, they refuse themselves.
func (c *Config) checkConvex() error {
	m, own := c.method(), Own(c.Optimizer)
	_, schedules := m.(*pur.Method)
	_, descends := m.(*outpert.Method)
	_, chooses := m.(*privgene.Method)
	_, perturbs := m.(*objpert.Method)
	_, reports := m.(*local.Method)
	_, rounds := m.(*rrpsgd.Method)
	for _, of := range []struct {
		key  string
		read bool
	}{
		{"radius", own == onConvex && !chooses && !perturbs && !reports}, {"rho", schedules}, {"pur_k", schedules}, {"pur_sigma", schedules},
		{"outpert_form", descends}, {"outpert_average", descends}, {"objpert_form", perturbs}, {"step_decay", chooses}, {"local_noise", reports},
		{"rrpsgd_form", rounds}, {"smoothness", rounds},
	} {
		s := Setting{Key: of.key}
		if v := reflect.Indirect(s.value(c)); v.IsValid() && !v.IsZero() && !of.read {
			return usage.Errorf("%s %v: optimizer %s does not read it; leave it out, or use a method that does: `privgrad help optimizers`", s.Flag(), v, c.Optimizer)
		}
	}
	return nil
}

// checkMoments finds faults of Adam's settings.
func (c *Config) checkMoments() error {
	s := c.settings()
	return c.moments().Check(c.Optimizer, &s)
}

// checkMethod has the method look at its settings.
func (c *Config) checkMethod(ownNetwork bool) error {
	if err := c.checkUnread(); err != nil {
		return err
	}
	if c.fullBatch() {
		if c.Batch != nil || c.SamplingRate != nil && *c.SamplingRate != 1 || c.Epochs != nil {
			return usage.Errorf("optimizer %s takes all records in every step: leave out --batch, --sampling-rate and --epochs; --steps sets the number of steps", c.Optimizer)
		}
		c.SamplingRate = new(1.0)
	}
	if t := c.traits(); (t.Flat || (t.Once || t.Local) && t.Private) && c.Init != "" {
		return usage.Errorf("init %s: optimizer %s begins at zero; leave out --init", c.Init, c.Optimizer)
	}
	if t := c.traits(); t.Once && t.Private && c.PrivateDiagnostics {
		return usage.Errorf("private-diagnostics: optimizer %s has no course to watch, but a single release; leave it out", c.Optimizer)
	}
	s := c.settings()
	s.OwnNetwork = ownNetwork
	err := c.method().Check(&s)
	c.take(s)
	return err
}

// settings are what a method may read of a configuration, and take what it completed.
func (c *Config) settings() dpoptim.Settings {
	return dpoptim.Settings{
		Model: c.Model, Activation: c.Activation, Data: c.recordsOf(), Classes: c.Classes,
		LR: c.LR, Momentum: c.Momentum, L2: c.L2, LRSchedule: c.LRSchedule, Warmup: c.Warmup, Average: c.Average,
		Batch: c.Batch, SamplingRate: c.SamplingRate, Epochs: c.Epochs, Steps: c.Steps,
		Epsilon: c.Epsilon, NoiseMultiplier: c.NoiseMultiplier, Delta: c.Delta, FeatureNorm: c.FeatureNorm, Clip: c.Clip, Clipping: c.Clipping,
		Accountant: c.Accountant, Neighbouring: c.Neighbouring, Noise: c.Noise, TrainLossNoise: c.TrainLossNoise,
	}
}

func (c *Config) take(s dpoptim.Settings) {
	c.Model, c.LR, c.Momentum, c.Accountant, c.FeatureNorm, c.Clip = s.Model, s.LR, s.Momentum, s.Accountant, s.FeatureNorm, s.Clip
	c.Batch, c.SamplingRate, c.Epochs, c.Steps = s.Batch, s.SamplingRate, s.Epochs, s.Steps
}

// flatten starts the last layer at zero: then so are the outputs, and a record's loss is known.
func (p *Plan) flatten() error {
	g := p.Network.Program
	last := g.Ops[len(g.Ops)-1]
	if last.Weight == ir.None {
		return usage.Errorf("network %s: optimizer %s starts with outputs of zero, and %s at the end has no weights; end it with a dense layer", g.Name, p.Config.Optimizer, last.Name)
	}
	params := p.Network.Params()
	for _, i := range []int{last.Weight, last.Bias} {
		if i != ir.None {
			clear(params[g.Params[i].Offset:][:g.Params[i].Size()])
		}
	}
	return p.Network.SetParams(params)
}

// complete has the method settle what was left open, for the network.
func (p *Plan) complete() error {
	s := p.Config.settings()
	n := dpoptim.Network{Layers: 1, Records: p.PublicN}
	if p.Network != nil { // else nothing will be trained
		g := p.Network.Program
		n.Layers, n.Params = len(g.Ops), g.NumParams()
		n.Linear, n.Why = convex.Of(g)
		if p.Method.Traits().Flat {
			if err := p.flatten(); err != nil {
				return err
			}
			n.StartLoss = convex.LossAtZero(g.Loss, g.Outputs())
		}
	}
	p.Facts.Linear = n.Linear
	var err error
	p.Notes, err = p.Method.Complete(&s, n)
	p.Config.take(s)
	p.Warnings = append(p.Warnings, p.Notes.Warnings...)
	return err
}
