package train

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/dpoptim/linesearch"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// Plan is a configuration made whole, before any record has been looked at:
// everything in it is public.
type Plan struct {
	Config   Config // complete and re-runnable
	Set      *datasets.Set
	Network  *nn.Network
	Schedule *ir.Schedule
	Capacity int // records that one run takes; the schedule's chunk goes through the network together

	PublicN       int
	SamplingRate  float64
	ExpectedBatch float64 // q·N, the normaliser of every sum
	Steps         int     // committed
	Sigma         float64 // noise multiplier σ/C; 0 without noise
	Epsilon       *float64

	price       accountant.Schedule // of the run, without its noise multiplier
	first       linesearch.Budgets  // of a run whose budgets adapt
	protector   *l2p.Protector      // nil but with optimizer l2p
	setting     l2p.Setting         // what it knows of the run
	order       float64             // at which a filter of its releases spends
	bound       int                 // steps at most, where neither they nor the noise are committed to
	spent       map[int]float64     // ε of the first slots, as far as asked for; nil without noise
	precision   device.Precision    // of matrix products
	costs       ir.Costs            // of the device
	secure      stream.Cipher       // of the device, for secure noise
	memory      int64               // the default budget
	evalEvery   int
	block       int      // steps that the ledger reserves at a time
	declared    []string // assumptions about the data
	ownNetwork  bool
	fingerprint string
	warnings    []string
}

// Resolve completes a configuration, or says what is wrong with it.
func Resolve(c Config, o Options) (*Plan, error) {
	if o.Network != nil {
		c.Model, c.Activation = o.Network.Program.Name, ""
	}
	if err := c.check(o.Network != nil); err != nil {
		return nil, err
	}
	set, declared, err := openData(&c, o.Sources)
	if err != nil {
		return nil, err
	}
	if needsDelta := c.private() && c.Optimizer != majority && c.Delta == nil; set.PublicN == 0 && (c.PublicN == nil || needsDelta) {
		why, or := "no size of it was published", ""
		if set.Published {
			why, or = "nothing says that its files are the published ones", "; or say that they are, by --published-set"
		}
		return nil, usage("data set %s: %s: give --public-n, a number that is not counted from private records, and --delta, well below one over it%s", c.Data, why, or)
	}
	p := &Plan{Config: c, Set: set, Network: o.Network, declared: declared, ownNetwork: o.Network != nil}
	if p.precision, err = device.ParsePrecision(c.Precision); err != nil {
		return nil, asUsage(err)
	}
	info, err := deviceInfo(&c, o.Device, p.precision)
	if err != nil {
		return nil, err
	}
	if want := p.precision; want != device.Float32 && !slices.Contains(info.Precisions, want) {
		return nil, usage("precision %s: device %s multiplies in float32 or better; use --device cuda on a machine with an NVIDIA GPU, or --precision float32", want, info.Name)
	}
	p.costs, p.secure, p.memory = info.Costs, info.Cipher, DefaultMemory(info)
	for _, step := range []func() error{p.resolveOnce, p.resolveNetwork, p.resolveSampling, p.resolvePrivacy, p.resolveWork} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if l := p.Config.label(); l != "" {
		p.warnings = append([]string{l}, p.warnings...)
	}
	return p, nil
}

// deviceInfo is that of the device that will be used, nil for the configured one.
func deviceInfo(c *Config, d device.Device, in device.Precision) (device.Info, error) {
	if d == nil {
		var err error
		if d, err = OpenDevice(c.Device, c.Threads); err != nil {
			return device.Info{}, err
		}
		defer d.Close()
	}
	return d.Info(), CheckGEMM(d, c.GEMM, in)
}

// defaultModel is that for tables or for images of a shape.
func defaultModel(s *datasets.Set) string {
	switch {
	case s.Classes == 0:
		return "huber-regression"
	case s.Train.Unit:
		return "logistic"
	}
	return map[[3]int]string{{1, 28, 28}: "cnn-mnist", {3, 32, 32}: "cifar-small"}[s.Train.Shape]
}

func (p *Plan) resolveNetwork() error {
	c := &p.Config
	if c.Model == "" {
		if c.Model = defaultModel(p.Set); c.Model == "" {
			return usage("no model is the default for images of shape %v: choose one by --model", p.Set.Train.Shape)
		}
	}
	if p.Network == nil {
		var err error
		if p.Network, err = BuildNetwork(c.Model, p.Set.Train.Shape, p.Set.Classes, c.Activation, c.Seed); err != nil {
			return err
		}
	}
	if err := p.fits(); err != nil {
		return err
	}
	if c.Init != "" {
		params, err := readModel(c.Init, p.Network.Program)
		if err != nil {
			return err
		}
		if err := p.Network.SetParams(params); err != nil {
			return err
		}
	}
	if err := p.resolveProtector(); err != nil {
		return err
	}
	if c.LR == nil && !c.once() {
		lr := c.defaultRate()
		c.LR = &lr
	}
	return p.resolveSearch()
}

// fits checks the network against the data.
func (p *Plan) fits() error {
	g := p.Network.Program
	if got, want := ir.Size(p.Set.Train.Shape[:]), ir.Size(g.Shape); got != want {
		return usage("network %s reads %d values an example, the records of %s have %d", g.Name, want, p.Set.Name, got)
	}
	if p.Set.Classes == 0 {
		if g.Loss != ir.Huber {
			return usage("network %s with loss %s tells classes apart, %s is a regression: use huber-regression", g.Name, g.Loss, p.Set.Name)
		}
		return nil
	}
	classes := g.Outputs()
	if g.Loss != ir.SoftmaxCrossEntropy {
		classes = 2
	}
	if classes != p.Set.Classes {
		return usage("network %s with loss %s tells %d classes apart, %s has %d: keep some of its classes", g.Name, g.Loss, classes, p.Set.Name, p.Set.Classes)
	}
	return nil
}

// BuildNetwork builds and lowers a named model for data of a shape.
func BuildNetwork(model string, shape [3]int, classes int, activation string, seed uint64) (*nn.Network, error) {
	m, err := nn.Build(model, nn.Options{Input: shape, Classes: classes, Activation: activation, Seed: seed})
	if err != nil {
		return nil, asUsage(err)
	}
	network, err := m.Lower()
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", model, err)
	}
	return network, nil
}

// The batch and the passes over the data where nothing was said.
const (
	defaultBatch  = 1024
	defaultEpochs = 20
	defaultDelta  = 1e-5
)

func (p *Plan) resolveSampling() error {
	c := &p.Config
	p.PublicN = p.Set.PublicN
	if c.PublicN != nil {
		if p.PublicN = *c.PublicN; p.Set.Share > 0 {
			p.PublicN = tabular.Scaled(p.PublicN, p.Set.Share)
		}
		if p.PublicN < 1 {
			return usage("public-n %d: a part of the table is held out, which leaves no record to train on; give a larger one", *c.PublicN)
		}
	}
	n := float64(p.PublicN)
	if c.Batch == nil && c.SamplingRate == nil {
		batch := math.Min(defaultBatch, n)
		c.Batch = &batch
	}
	if c.SamplingRate != nil {
		p.SamplingRate = *c.SamplingRate
	} else {
		if *c.Batch > n {
			return usage("batch %v is larger than the %d public training records: give at most that", *c.Batch, p.PublicN)
		}
		p.SamplingRate = *c.Batch / n
	}
	if p.ExpectedBatch = p.SamplingRate * n; p.ExpectedBatch < leastBatch {
		return usage("an expected batch of %v records: must be at least %g; raise --batch or --sampling-rate", p.ExpectedBatch, leastBatch)
	}
	if err := p.resolveSubsets(); err != nil {
		return err
	}
	if c.Steps == nil && c.Epochs == nil {
		epochs := float64(defaultEpochs)
		c.Epochs = &epochs
	}
	epoch := max(int(math.Round(1/p.SamplingRate)), 1)
	if c.Steps != nil {
		p.Steps = *c.Steps
	} else {
		// The quotient is exact in the reals far more often than in floating point.
		steps := math.Floor(*c.Epochs / p.SamplingRate * (1 + 1e-12))
		if steps < 1 {
			return usage("%v epochs at sampling rate %v make no step: give more epochs or --steps", *c.Epochs, p.SamplingRate)
		}
		if steps > mostSteps {
			return usage("%v epochs at sampling rate %v make %.0f steps: give fewer epochs or a larger batch", *c.Epochs, p.SamplingRate, steps)
		}
		p.Steps = int(steps)
	}
	p.bound = p.Steps
	if p.evalEvery = c.EvalEvery; p.evalEvery == 0 {
		p.evalEvery = epoch
	}
	if c.LR == nil {
		return nil
	}
	return asUsage(p.rate().Validate())
}

func (p *Plan) rate() dpoptim.Rate {
	return dpoptim.Rate{Peak: *p.Config.LR, Shape: p.Config.LRSchedule, Warmup: p.Config.Warmup, Steps: p.Steps}
}

// RateAt is the step size of a step of the committed schedule, counted from 1.
func (p *Plan) RateAt(step int) float64 { return p.rate().At(step) }

func (p *Plan) resolvePrivacy() error {
	c := &p.Config
	p.resolveSetting()
	if !c.private() {
		return nil
	}
	if c.Optimizer == majority {
		return p.resolveMajority()
	}
	if c.Delta == nil {
		delta := defaultDelta
		c.Delta = &delta
	}
	if n := 1 / float64(p.PublicN); *c.Delta >= n {
		p.warnings = append(p.warnings, fmt.Sprintf("delta %v is not below 1/N = %.3g: such a guarantee allows some record to be published outright; choose a smaller --delta", *c.Delta, n))
	}
	if c.filtered() {
		return p.resolveFilter()
	}
	if p.schedules() {
		return p.resolveSchedule()
	}
	s := accountant.Schedule{
		SamplingRate: p.SamplingRate, Steps: p.Steps,
		Neighbouring: accountant.Neighbouring(c.Neighbouring), Accountant: c.Accountant, Delta: *c.Delta,
	}
	if c.adapts() {
		a := c.adaptive()
		c.ClipFloor, c.ClipCeiling, c.ClipQuantile = &a.Floor, &a.Ceiling, &a.Quantile
		s.WithSum = []accountant.Mechanism{accountant.Gaussian{NoiseMultiplier: p.countMultiplier()}}
	}
	if z := c.TrainLossNoise; z != nil {
		s.Besides = []accountant.Event{accountant.PoissonBatch(p.SamplingRate, p.evaluations(p.Steps), accountant.Gaussian{NoiseMultiplier: *z})}
	}
	if c.searches() {
		s.Price = p.searchPrice
	}
	if c.Epsilon != nil {
		sigma, _, err := s.Calibrate(*c.Epsilon)
		if errors.Is(err, accountant.ErrBudget) {
			if c.adapts() {
				return fmt.Errorf("%w; adaptive clipping's count takes a part of it, the more the smaller the batch: raise --batch or choose another --clipping", err)
			}
			return err
		}
		if err != nil {
			return asUsage(err)
		}
		p.Sigma = sigma
	} else {
		p.Sigma = *c.NoiseMultiplier
	}
	if c.exact() && p.Sigma > mechanism.MostExact {
		return usage("exact noise is drawn for noise multipliers up to %g, not %v: allow more epsilon, or use --noise secure", mechanism.MostExact, p.Sigma)
	}
	p.setting.Least, p.setting.Planned = p.Sigma, p.Sigma // constant
	if p.Sigma == 0 {
		return nil
	}
	p.price, p.spent = s, map[int]float64{}
	epsilon, err := s.Epsilon(p.Sigma)
	if err != nil {
		return asUsage(err)
	}
	p.spent[p.Steps], p.Epsilon = epsilon, finite(epsilon)
	return nil
}

// resolveFilter prices a run whose budgets adapt: its ε is that of the filter,
// whatever will be spent.
func (p *Plan) resolveFilter() error {
	c := &p.Config
	p.first = p.firstBudgets()
	if c.Epsilon == nil {
		return nil // no noise
	}
	p.Sigma, p.Epsilon, p.spent = multiplier(p.first.Gradient), c.Epsilon, map[int]float64{}
	b, err := p.newBudget()
	if err != nil {
		return err
	}
	search, err := p.searchAt(p.first.Search)
	if err != nil {
		return asUsage(err)
	}
	for _, e := range p.asks(p.first.Gradient, search) {
		if err := b.Ask(e); err != nil {
			return asBudget(fmt.Errorf("the first step: %w; raise --search-iterations, whose number first budgets are made for, or --epsilon", err))
		}
	}
	return nil
}

// epsilonAt is the ε of the first n slots of the schedule; nil without noise.
func (p *Plan) epsilonAt(n int) *float64 {
	if p.spent == nil {
		return nil
	}
	epsilon, known := p.spent[n]
	if !known {
		part := p.price
		part.Steps, part.Besides = n, slices.Clone(part.Besides)
		for i := range part.Besides {
			part.Besides[i].Count = p.evaluations(n)
		}
		part.Besides = slices.DeleteFunc(part.Besides, func(e accountant.Event) bool { return e.Count == 0 })
		// A part costs no more than the whole; bounds on both may cross.
		epsilon = p.spent[p.Steps]
		if e, err := part.Epsilon(p.Sigma); err == nil {
			epsilon = min(e, epsilon)
		}
		p.spent[n] = epsilon
	}
	return finite(epsilon)
}

// evaluates says whether an evaluation follows slot number n, counted from 1.
// It goes by slots, so that a slot's noisy loss is never drawn twice.
func (p *Plan) evaluates(n int) bool { return n%p.evalEvery == 0 || n == p.Steps }

// evaluations counts those after the first n slots.
func (p *Plan) evaluations(n int) int {
	count := n / p.evalEvery
	if n == p.Steps && n%p.evalEvery != 0 {
		count++
	}
	return count
}

func (p *Plan) resolveWork() error {
	c := &p.Config
	if c.exact() && c.cuBLAS() {
		return usage("gemm %s: exact noise promises bits, and nobody knows in which order cuBLAS adds; use --gemm %s, or --noise secure", c.GEMM, GEMMOwn)
	}
	if c.exact() && c.Clipping != string(perexample.Flat) {
		return usage("clipping %s: exact noise bounds one norm over all parameters; use --clipping flat, or --noise secure", c.Clipping)
	}
	if c.exact() {
		switch s := perexample.Strategy(c.Strategy); s {
		case perexample.Auto:
			c.Strategy = string(perexample.Materialise)
		case perexample.Materialise, perexample.Microbatch:
		default:
			return usage("strategy %s: exact noise truncates every coordinate of every example's gradient, which this strategy never forms; use materialise or microbatch", s)
		}
	}
	if c.exact() {
		p.costs.Passes = false // integers are summed of gradients that are kept
	}
	if c.Memory == "" {
		c.Memory = fmt.Sprint(p.memory)
	}
	memory, err := c.memory()
	if err != nil {
		return err
	}
	o := perexample.Options{
		Strategy: perexample.Strategy(c.Strategy),
		Costs:    p.costs, Memory: memory, Batch: p.ExpectedBatch, MaxBatch: c.MaxPhysicalBatch,
	}
	if c.private() {
		if o.Clipping, err = perexample.Clipping(c.Clipping).Rule(); err != nil {
			return asUsage(err)
		}
		p.Schedule, err = perexample.Private(p.Network.Program, o)
	} else {
		p.Schedule, err = perexample.Plain(p.Network.Program)
	}
	if err != nil {
		return asUsage(err)
	}
	if need := p.Schedule.ExampleBytes(p.costs.Passes); memory < need {
		return usage("memory %s: %s with strategy %s needs %d bytes for a single example; give at least that", c.Memory, c.Model, c.Strategy, need)
	}
	p.Capacity = mostRows(p.ExpectedBatch)
	if p.Schedule.Chunk == 0 {
		p.Schedule.Chunk = perexample.Together(p.Schedule, o)
	}
	p.block = blockSteps(p.Network.Program, p.ExpectedBatch)
	f, err := c.fingerprint()
	if err != nil {
		return err
	}
	if err := c.survivesYAML(f); err != nil {
		return err
	}
	// A calibration that came out otherwise would be another schedule, and a
	// user's own network is known by its ops alone.
	h := sha256.Sum256(fmt.Appendf(nil, "%s noise %v steps %d network %s reading %s", f, p.Sigma, p.Steps, p.Network.Program, p.Set.Reading))
	p.fingerprint = hex.EncodeToString(h[:])
	return nil
}

// blockSteps is about a second of work, judged by arithmetic at a nominal
// speed: a measured one would make the ledger's bytes depend on how long
// private batches take. At most 100 steps may be lost to a crash.
func blockSteps(p *ir.Program, batch float64) int {
	const flopsPerSecond = 5e10
	return int(min(max(flopsPerSecond/(float64(p.StepFLOPs())*batch), 1), 100))
}

type keys struct{ sampling, noise stream.Key }

// keys are drawn from the operating system, new for every process; a seeded
// run's follow from its seed, so that it can be reproduced and protects nobody.
func (p *Plan) keys() (k keys, err error) {
	if p.Config.Noise == noiseSeeded {
		return keys{stream.KeyFromSeed(p.Config.Seed, "sampling"), stream.KeyFromSeed(p.Config.Seed, "noise")}, nil
	}
	if k.sampling, err = stream.NewKey(); err != nil {
		return k, err
	}
	k.noise, err = stream.NewKey()
	return k, err
}

// cipher is that of the noise: the device's own choice where no other device has to
// draw the same numbers.
func (p *Plan) cipher() stream.Cipher {
	if p.Config.Noise == noiseSecure {
		return p.secure
	}
	return stream.ChaCha20
}

func (p *Plan) mechanism(s *stream.Stream, n device.Net) (mechanism.Mechanism, error) {
	if p.Sigma == 0 {
		return mechanism.NewUnprotected(p.Config.Clip, s), nil
	}
	return p.gradient(p.Sigma, p.Config.Clip, s, n)
}

// gradient makes the mechanism of gradients that was priced, in the arithmetic asked for.
func (p *Plan) gradient(multiplier, bound float64, s *stream.Stream, n device.Net) (m mechanism.Mechanism, err error) {
	if p.Config.exact() {
		m, err = mechanism.NewExact(multiplier, bound, s, gradientNoise)
	} else {
		m, err = mechanism.NewGaussian(multiplier, bound, n.Rounding(p.mostBatch()), p.Network.Program.NumParams(), s, gradientNoise)
	}
	if err != nil {
		return nil, asUsage(err)
	}
	return m, priced(m.Event(), multiplier)
}

// losses makes the mechanism of so many sums of losses that was priced. Losses add up
// without rounding, whatever the arithmetic of gradients.
func (p *Plan) losses(multiplier, bound float64, values int, s *stream.Stream, tensor uint32) (mechanism.Mechanism, error) {
	m, err := mechanism.NewGaussian(multiplier, bound, 0, values, s, tensor)
	if err != nil {
		return nil, asUsage(err)
	}
	return m, priced(m.Event(), multiplier)
}

// countMultiplier is the count's noise in units of a record's share.
func (p *Plan) countMultiplier() float64 {
	return perexample.CountDeviation(p.ExpectedBatch) / mechanism.CountBound
}

// adaptation is what moves the clip norm; nil where it stays.
func (p *Plan) adaptation(s *stream.Stream) (*Adaptation, error) {
	c := &p.Config
	if !c.adapts() {
		return nil, nil
	}
	m, err := mechanism.NewCount(perexample.CountDeviation(p.ExpectedBatch), s, countNoise)
	if err != nil {
		return nil, err
	}
	return &Adaptation{Rule: c.adaptive(), Count: m, ExpectedBatch: p.ExpectedBatch, Clip: c.Clip}, priced(m.Event(), p.countMultiplier())
}

// mostBatch is the batch up to which the noise covers the rounding of sums. Of a table with
// a share held out it counts on all records: equal lines go to one side together, so
// that any of its public number of records may be there to train on.
func (p *Plan) mostBatch() int {
	most := p.ExpectedBatch
	if s := p.Set.Share; s > 0 && s < 1 {
		most = p.SamplingRate * float64(p.PublicN+1) / s // PublicN was rounded down
	}
	return mostRows(most)
}

// mostRows is a batch that a Poisson batch of an expected size exceeds with a
// probability below e⁻⁵⁰ (Bernstein: P(B ≥ E+t) ≤ exp(−t²/(2E+2t/3)) with
// t = 10√E+40).
func mostRows(expected float64) int {
	return int(math.Ceil(expected + 10*math.Sqrt(expected) + 40))
}

// Each mechanism of a run draws in a counter range of its own.
const (
	gradientNoise = 0
	lossNoise     = 1
	countNoise    = 2
	searchNoise   = 3
)

// priced refuses a mechanism whose event is not the one that was accounted for.
func priced(e accountant.Mechanism, multiplier float64) error {
	if e != accountant.Mechanism(accountant.Gaussian{NoiseMultiplier: multiplier}) {
		return fmt.Errorf("the mechanism costs %v, noise multiplier %v was accounted for; please report this", e, multiplier)
	}
	return nil
}

// lossBound clips an example's loss where the training loss is released.
const lossBound = 3

func (p *Plan) lossMechanism(s *stream.Stream) (mechanism.Mechanism, error) {
	return p.losses(*p.Config.TrainLossNoise, lossBound, 1, s, lossNoise)
}

func (p *Plan) optimizer(n device.Net) (dpoptim.Optimizer, error) {
	c := &p.Config
	rate := 1.0 // where there is none, no update is made
	if c.LR != nil {
		rate = *c.LR
	}
	if p.protector != nil && p.protector.Card.Projector.Kind == l2p.Learned {
		o, err := l2p.NewProjector(n, p.protector, p.setting, rate, c.L2)
		return p.averaged(n, o, err)
	}
	o, err := NewOptimizer(n, c.Optimizer, dpoptim.Config{Rate: rate, Normaliser: p.ExpectedBatch, L2: c.L2, Momentum: c.Momentum, Moments: c.moments()})
	return p.averaged(n, o, err)
}

// averaged puts the average beside an optimizer, where one is asked for.
func (p *Plan) averaged(n device.Net, o dpoptim.Optimizer, err error) (dpoptim.Optimizer, error) {
	if err != nil || p.Config.Average == 0 {
		return o, err
	}
	return dpoptim.NewAverage(n, o, p.Config.Average)
}

// NewOptimizer makes an optimizer by its name on the command line.
func NewOptimizer(n device.Net, name string, c dpoptim.Config) (dpoptim.Optimizer, error) {
	switch name {
	case "adam", "dp-adam":
		return dpoptim.NewAdam(n, c)
	default:
		return dpoptim.NewSGD(n, c)
	}
}

// reasons are all that can make of a run's ε no guarantee: what a result says, and of
// what, for a run of which it is true. docs/privacy.md has them, too.
var reasons = []struct {
	words string
	is    func(p *Plan) (of []any, ok bool)
}{
	{"optimizer %s neither bounds nor hides a record's influence", func(p *Plan) ([]any, bool) {
		return []any{p.Config.Optimizer}, !p.Config.private()
	}},
	{"no noise was added", func(p *Plan) ([]any, bool) { return nil, p.Config.private() && p.spent == nil }},
	{"epsilon is infinite", func(p *Plan) ([]any, bool) {
		return nil, p.Config.private() && p.spent != nil && p.Epsilon == nil
	}},
	{SeededLabel, func(p *Plan) ([]any, bool) { return nil, p.Config.Noise == noiseSeeded }},
	{"%s", func(p *Plan) ([]any, bool) {
		why := accountant.NoGuarantee(p.Config.Accountant)
		return []any{why}, why != "" && p.Config.private()
	}},
	{overlaps, (*Plan).overlap},
	{"one fold of a k-fold: epsilon is this run's alone; each record trains k−1 of the k models, so add up their epsilons", func(p *Plan) ([]any, bool) {
		return nil, p.Config.Folds > 0
	}},
	{"un-noised training statistics shown", func(p *Plan) ([]any, bool) { return nil, p.Config.DataIsPublic }},
}

// noGuarantee lists why ε is no guarantee.
func (p *Plan) noGuarantee() []string {
	why := []string{}
	for _, r := range reasons {
		if of, ok := r.is(p); ok {
			why = append(why, fmt.Sprintf(r.words, of...))
		}
	}
	return why
}

// label is what must stand beside everything that a run shows or stores.
func (c *Config) label() string {
	var all []string
	if c.Noise == noiseSeeded {
		all = append(all, SeededLabel)
	}
	if why := accountant.NoGuarantee(c.Accountant); why != "" && c.private() {
		all = append(all, "NOT A GUARANTEE: "+why)
	}
	return strings.Join(all, "; ")
}

// Assumptions that do not follow from the settings alone.
const (
	publishedFiles = "files_are_the_published_ones"
	publicTest     = "test_split_is_public"
	// realArithmetic is that of runs whose noise was added in floating point, as it was
	// before every release lay on a grid.
	realArithmetic = "real_arithmetic"
)

// assumptions are all that a guarantee can rest on, beside its mathematics: what a result
// says, what a person is told, and of which run it is true. docs/privacy.md has them, too.
var assumptions = []struct {
	key, words string
	is         func(p *Plan) bool
}{
	{realArithmetic, "an earlier version added a part of the noise in floating point, which the analysis does not cover", func(*Plan) bool { return false }},
	{"tensor_cores_add_in_float32", "tensor cores add products as coarsely as docs/numerics.md says, or better", func(p *Plan) bool { return p.precision != device.Float32 }},
	{publishedFiles, "the files are the published data set, as --published-set says", func(p *Plan) bool { return slices.Contains(p.declared, publishedFiles) }},
	{publicTest, "the test records are public, as --test-is-public or the schema says", func(p *Plan) bool { return slices.Contains(p.declared, publicTest) }},
	{"public_n_is_right", "the data set has at most as many records as --public-n says", func(p *Plan) bool { return p.Config.PublicN != nil }},
	{"cublas_adds_every_row_alike", "cuBLAS adds up a row alike wherever in a batch it is, for all numbers as it did for the random ones that were tried", func(p *Plan) bool { return p.Config.cuBLAS() }},
	{"init_file_is_public", "the initial model does not depend on the private data", func(p *Plan) bool { return p.Config.Init != "" }},
	{"protector_file_is_public", "the protector was not made of the private data; its card cannot be checked", func(p *Plan) bool { return p.protector != nil && !l2p.IsShipped(p.Config.Protector) }},
	{"initial_parameters_are_public", "the graph's initial parameters do not depend on the private data", func(p *Plan) bool { return p.ownNetwork }},
}

// Assumption is one of a result's in words; another version's stays as it is.
func Assumption(key string) string {
	for _, a := range assumptions {
		if a.key == key {
			return a.words
		}
	}
	return key
}

// assumptions lists what the guarantee rests on in this process.
func (p *Plan) assumptions() []string {
	all := []string{}
	for _, a := range assumptions {
		if a.is(p) {
			all = append(all, a.key)
		}
	}
	return all
}
