// Package plan completes a configuration before any record is looked at: recipe, network, batches, price, promise and
// memory. From a plan follow runs, audits and dry runs.
package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/datasets/tabular"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/imported"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/perexample"
)

// A Plan is a configuration made whole, before any record has been looked at:
// everything in it is public.
type Plan struct {
	Config config.Config // complete and re-runnable
	Set    *datasets.Set
	Front  *features.Front // nil: the network reads the records as they are
	// FrontDigest identifies the front end; empty where there is none, and where its constants are made up.
	FrontDigest string
	Recipe      string        // which one filled in what was left open, or why none did; empty where a file said all
	FrontTime   time.Duration // that making its constants took
	Network     *nn.Network
	Imported    *imported.Network // where the network came from a file; nil: it did not
	Initial     *Initial          // nil: every weight begins as usual
	Schedule    *ir.Schedule
	Capacity    int // records that one run takes; the schedule's chunk goes through the network together

	PublicN     int
	price.Price // what it costs, and all that decides it
	Guarantee   accountant.Guarantee

	Method      dpoptim.Method
	Facts       dpoptim.Facts // what it knows of the run
	Notes       dpoptim.Notes // what it says of it
	Block       int           // steps that the ledger reserves at a time
	Iterations  *int          // of a solver between two questions; nil where there is none
	Fingerprint string        // of all that may not change between a run and its resumption
	Warnings    []string
	// DefaultsFrom names the data on which the settings were chosen that the user left open.
	DefaultsFrom string

	precision     device.Precision // of matrix products
	costs         ir.Costs         // of the device
	secure        stream.Cipher    // of the device, for secure noise
	memory        int64            // the default budget
	declared      []string         // assumptions about the data
	builtIn       bool             // the data set is
	ownNetwork    bool
	networkDigest string // of one from a file
}

// Options are what a caller supplies beside the configuration.
type Options struct {
	Sources map[string]source.Source
	Network *nn.Network     // nil: the named model
	Front   *features.Front // nil: the named features
	Method  dpoptim.Method  // nil: the named optimizer
	Device  device.Device   // nil: the named one
	// Facts takes of the data set what is public of it, and opens no record. The front end may then have made-up constants.
	Facts bool
	// Kept is the directory of a run that may go on, from which the network is read if it came from a file; "" for none.
	Kept rundir.Dir
	// Rank is which part of the training records to open.
	Rank datasets.Rank
	// DeviceName names the device to open in the place of the configured one; "" for that one.
	DeviceName string
	// FrontProgress is told how far a front end is made that is not at hand; nil: nobody asks.
	FrontProgress func(percent int)
}

// Resolve completes a configuration, or says what is wrong with it. It needs the device, which
// it leaves closed where it had to open one.
func Resolve(c config.Config, o Options) (*Plan, error) {
	p, d, err := Open(c, o)
	if d != nil && o.Device == nil {
		d.Close()
	}
	return p, err
}

// Open is Resolve with the device, which is the caller's to close where there is one.
func Open(c config.Config, o Options) (*Plan, device.Device, error) {
	c.Strategy = string(perexample.Canonical(perexample.Strategy(c.Strategy)))
	if c.OwnNetwork = o.Network != nil; c.OwnNetwork {
		c.Model, c.Activation = o.Network.Program.Name, ""
	}
	if c.OwnMethod = o.Method; o.Method != nil {
		c.Optimizer = o.Method.Traits().Name
	}
	c.Incline()
	if o.Front != nil { // whose name is no setting
		c.Features, c.Whiten, c.Mirror, c.Deskew = "", "", false, false
	}
	in, err := openData(&c, o)
	if err != nil {
		return nil, nil, err
	}
	set := in.set
	if needsDelta := c.Private() && !c.Traits().Pure && c.Delta == nil; set.PublicN == 0 && (c.PublicN == nil || needsDelta) {
		why, or := "no size of it was published", ""
		if c.ByUser() {
			why = "nobody published how many users it has"
		} else if set.Published {
			why, or = "privgrad does not know that its files are the published ones", "; or add --published-set if they are"
		}
		if c.PublicN != nil {
			return nil, nil, usage.Errorf("data set %s: %s: --public-n also needs --delta, well below 1/%d, such as %s%s", c.Data, why, *c.PublicN, price.SuggestedDelta(*c.PublicN), or)
		}
		return nil, nil, usage.Errorf("data set %s: %s: give --public-n, a number that is not counted from private records, and --delta, well below one over it, such as 1e-05 for 5000%s", c.Data, why, or)
	}
	defer devices.BoundGarbage(set.Bytes())() // of the accounting, most of all
	d := o.Device
	if d == nil {
		if d, err = devices.Open(cmp.Or(o.DeviceName, c.Device), c.Threads); err != nil {
			return nil, nil, err
		}
	}
	p := &Plan{Config: c, Set: set, Network: o.Network, Imported: in.imported, Recipe: in.recipe, Warnings: in.warnings, declared: in.declared, builtIn: o.Sources[c.Data].BuiltIn, ownNetwork: o.Network != nil || nn.Registered(c.Model)}
	p.decideCount()
	p.Method, p.Traits = p.Config.Method(), p.Config.Traits()
	if err := p.resolveImported(); err != nil {
		return nil, d, err
	}
	if err := p.resolveFront(o); err != nil {
		return nil, d, err
	}
	if p.Front != nil {
		if p.FrontDigest, err = p.Front.Digest(); err != nil {
			return nil, d, err
		}
	}
	return p, d, p.resolve(d)
}

// openedData is what a configuration gives with its data.
type openedData struct {
	set                *datasets.Set
	declared, warnings []string
	recipe             string            // which one filled in what was left open, or why none did
	imported           *imported.Network // that the configuration names a file of; nil: none
}

// rows is the set as a recipe sees it: with what a frozen part of a network makes of the records.
func (in *openedData) rows() *datasets.Set {
	if in.imported == nil || in.imported.Front == nil {
		return in.set
	}
	s := *in.set
	s.Train.Shape, s.Train.Unit = in.imported.Front.Out(), true
	return &s
}

// open checks the configuration and opens its data. A recipe needs the data for what it fills in.
func openData(c *config.Config, o Options) (_ *openedData, err error) {
	var in openedData
	wanted, why := wanted(c, o)
	in.recipe = why
	if wanted {
		err = errors.Join(c.CheckValues(), checkRecipe(c))
	} else {
		err = withoutRecipe(c, c.Check(), why)
	}
	if err == nil {
		in.set, in.declared, err = source.Open(c, o.Sources, o.Facts, o.Rank)
	}
	if err == nil && c.Network != "" {
		in.imported, err = openNetwork(c, in.set, o)
	}
	switch {
	case err != nil:
		return nil, err
	case wanted:
		if in.recipe, in.warnings, err = fill(c, in.rows(), o); err != nil {
			return nil, err
		}
	default:
		var renewed string
		renewed, in.warnings = renew(c, in.rows())
		in.recipe = cmp.Or(renewed, in.recipe)
	}
	if in.set.TestIsPublic {
		in.warnings = append(append(in.warnings, in.set.TestDoubts...), source.Unusable(in.set)...)
	}
	c.Recipe = "" // it has said what it had to say
	return &in, nil
}

// resolve completes a plan for a device.
func (p *Plan) resolve(d device.Device) error {
	c, info := &p.Config, d.Info()
	var err error
	if p.precision, err = device.ParsePrecision(c.Precision); err != nil {
		return usage.Wrap(err)
	}
	if err := devices.CheckGEMM(d, c.GEMM, p.precision); err != nil {
		return err
	}
	if want := p.precision; want != device.Float32 && !slices.Contains(info.Precisions, want) {
		return usage.Errorf("precision %s: device %s multiplies in float32 or better; use --device cuda on a machine with an NVIDIA GPU, or --precision float32", want, info.Name)
	}
	if c.Canaries > 0 && info.Memory > 0 { // of its own
		return usage.Errorf("canaries %d: device %s lacks an op of them; use --device cpu, or leave out --canaries", c.Canaries, info.Name)
	}
	p.costs, p.secure, p.memory = info.Costs, info.Cipher, devices.DefaultMemory(info)
	p.Warnings = append(p.Warnings, devices.Warnings(info, c.Memory)...)
	for _, step := range []func() error{p.resolveRecords, p.resolveNetwork, p.resolveSampling, p.resolvePrivacy, p.resolveWork} {
		if err := step(); err != nil {
			return err
		}
	}
	if p.Imported != nil {
		if p.networkDigest, err = p.Imported.Digest(); err != nil {
			return err
		}
	}
	if l := Label(c); l != "" {
		p.Warnings = append([]string{l}, p.Warnings...)
	}
	return nil
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
		if c.Model = defaultModel(p.Set); p.Front != nil {
			c.Model = "logistic"
		}
		if c.Model == "" {
			return usage.Errorf("no network is made for images of size %s: declare 3x32x32 or 28x28 by --image-size, or choose --model logistic. The recipe and --features take sides that are multiples of 4, up to 96", datasets.SizeText(p.Set.Train.Shape))
		}
	}
	if p.Network == nil { // else the caller's, or a file's
		var err error
		if err = p.settleModel(); err != nil {
			return err
		}
		if err = p.fitsModel(); err != nil {
			return err
		}
		o := nn.Options{Input: p.input(), Classes: p.Set.Classes, Activation: c.Activation, Seed: c.Seed, Version: c.ModelVersion}
		if p.Network, err = BuildNetwork(c.Model, o); err != nil {
			return err
		}
	}
	if err := p.fits(); err != nil {
		return err
	}
	if err := p.weigh(); err != nil {
		return err
	}
	if err := p.initialise(); err != nil {
		return err
	}
	return p.complete()
}

// settleModel fills in what the named model has by itself.
func (p *Plan) settleModel() error {
	c := &p.Config
	info, err := Model(c.Model)
	if err != nil {
		return err
	}
	c.Activation = cmp.Or(c.Activation, info.Activation)
	if info.Versions > 1 {
		c.ModelVersion = cmp.Or(c.ModelVersion, info.Versions)
	}
	return nil
}

// fitsModel refuses records of another size than a named model is made for, and says which flag changes it.
func (p *Plan) fitsModel() error {
	model, size := p.Config.Model, p.input()
	i := slices.IndexFunc(nn.Names(), func(m nn.Info) bool { return m.Name == model })
	if i < 0 || p.Set.Train.Unit || p.Front != nil || source.FormOf(p.Config.Data) == nil {
		return nil // which building it says
	}
	if want := nn.Names()[i].Input; want != [3]int{} && want != size {
		return usage.Errorf("model %s takes images of size %s, and those of %s are declared to be %s: add --image-size %[2]s, or choose another model", model, sizeOf(want[:]), p.Config.Data, sizeOf(size[:]))
	}
	return nil
}

// sizeOf is a shape as --image-size is given: of gray images without the channel.
func sizeOf(shape []int) string {
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", "x"), "[]")
	if len(shape) == 3 && shape[1] > 1 {
		text = strings.TrimPrefix(text, "1x")
	}
	return text
}

// sizeHint says which flag changes the size of the records, where one does; it is empty elsewhere.
func (p *Plan) sizeHint() string {
	if source.FormOf(p.Config.Data) == nil {
		return ""
	}
	return fmt.Sprintf(": add --image-size %s, or export the network for %s", sizeOf(p.Network.Program.Shape), sizeOf(p.Set.Train.Shape[:]))
}

// fits checks the network against the data.
func (p *Plan) fits() error {
	g := p.Network.Program
	input := p.input()
	if got, want := ir.Size(input[:]), ir.Size(g.Shape); got != want {
		of := "the records of " + p.Set.Name
		if p.Front != nil {
			of = "features " + p.Front.Spec().Kind
		}
		return usage.Errorf("network %s reads %d values per record, of shape %v, and %s have %d, of shape %v%s", g.Name, want, g.Shape, of, got, input, p.sizeHint())
	}
	if p.Set.Classes == 0 {
		if g.Loss != ir.Huber {
			return usage.Errorf("network %s with loss %s tells classes apart, %s is a regression: use huber-regression", g.Name, g.Loss, p.Set.Name)
		}
		return nil
	}
	if g.Loss == ir.Huber {
		return usage.Errorf("network %s predicts a number, %s has classes: choose another model, such as logistic, or a table whose label has bounds", g.Name, p.Set.Name)
	}
	classes := g.Outputs()
	if g.Loss != ir.SoftmaxCrossEntropy {
		classes = 2
	}
	if classes != p.Set.Classes {
		return usage.Errorf("network %s with loss %s tells %d classes apart, %s has %d: keep some of its classes", g.Name, g.Loss, classes, p.Set.Name, p.Set.Classes)
	}
	return nil
}

// flatten starts the last layer at zero: then so are the outputs, and a record's loss is known.
func (p *Plan) flatten() error {
	g := p.Network.Program
	last := g.Ops[len(g.Ops)-1]
	muting := last.Muting()
	if len(muting) == 0 {
		return usage.Errorf("network %s: optimizer %s starts with outputs of zero, and %s at the end has no weights; end it with a dense layer", g.Name, p.Config.Optimizer, last.Name)
	}
	params := p.Network.Params()
	for _, i := range muting {
		clear(params[g.Params[i].Offset:][:g.Params[i].Size()])
	}
	return p.Network.SetParams(params)
}

// complete has the method settle what was left open, for the network.
func (p *Plan) complete() error {
	n := dpoptim.Network{Layers: 1, Records: p.PublicN, Data: source.RecordsOf(&p.Config)}
	if p.Network != nil { // else nothing will be trained
		g := p.Network.Program
		n.Layers, n.Params = len(g.Ops), g.NumParams()
		n.Linear, n.Why = convex.Of(g)
		if p.Traits.Flat {
			if err := p.flatten(); err != nil {
				return err
			}
			n.StartLoss = convex.LossAtZero(g.Loss, g.Outputs())
		}
	}
	p.Facts.Linear = n.Linear
	var err error
	p.Notes, err = p.Config.Complete(p.Method, n)
	p.Warnings = append(p.Warnings, p.Notes.Warnings...)
	return err
}

// BuildNetwork builds and lowers a named model.
func BuildNetwork(model string, o nn.Options) (*nn.Network, error) {
	m, err := nn.Build(model, o)
	if err != nil {
		return nil, usage.Wrap(err)
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
	leastBatch    = 1e-6

	// fewEvaluations is the most where epochs are single steps, or steps small, and nothing was said.
	fewEvaluations = 20
)

// resolveRecords settles the public number of records, and δ.
func (p *Plan) resolveRecords() error {
	c := &p.Config
	if t := c.Traits(); t.Private && !t.Pure && c.Delta == nil {
		c.Delta = new(defaultDelta)
	}
	p.PublicN = p.Set.PublicN
	if c.PublicN != nil {
		if p.PublicN = *c.PublicN; p.Set.Share > 0 {
			p.PublicN = tabular.Scaled(p.PublicN, p.Set.Share)
		}
		if p.PublicN < 1 {
			return usage.Errorf("public-n %d: a part of the table is held out, which leaves no record to train on; give a larger one", *c.PublicN)
		}
	}
	return p.checkPublished()
}

// checkPublished refuses another number of records than the published one. Methods of rounds over numbered records may
// leave out the last of them.
func (p *Plan) checkPublished() error {
	published := p.Set.PublicN
	if published == 0 || p.PublicN == published || p.PublicN < published && p.Config.Traits().Draws() == batches.Subsets {
		return nil
	}
	of, held := "training records", ""
	if len(p.Config.Classes) > 0 {
		of = "training records of these classes"
	}
	if s := p.Set.Share; s > 0 && s < 1 {
		held = fmt.Sprintf(" (of which a share of %g is trained on)", s)
	}
	return usage.Errorf("public-n %d%s: data set %s has %d %s, a published number: leave --public-n out", *p.Config.PublicN, held, p.Config.Data, published, of)
}

func (p *Plan) resolveSampling() (err error) {
	c := &p.Config
	n := float64(p.PublicN)
	if t := p.Traits; t.Once && t.Private { // its schedule is the one release, of all records
		p.Steps, p.EvalEvery = 1, 1
		if p.Batching, err = c.Batching(p.PublicN+c.Canaries, 1); err != nil {
			return err
		}
		return p.resolveFacts()
	}
	if c.Batch == nil && c.SamplingRate == nil {
		batch := math.Min(defaultBatch, n)
		c.Batch = &batch
	}
	var rate float64
	if c.SamplingRate != nil {
		rate = *c.SamplingRate
	} else {
		if *c.Batch > n {
			return usage.Errorf("batch %v is larger than the %d public training records: give at most that", *c.Batch, p.PublicN)
		}
		rate = *c.Batch / n
	}
	if rate*n < leastBatch {
		return usage.Errorf("an expected batch of %v records: must be at least %g; raise --batch or --sampling-rate", rate*n, leastBatch)
	}
	if p.Batching, err = c.Batching(p.PublicN+c.Canaries, rate); err != nil {
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
		if p.Steps, err = accountant.StepsOf(*c.Epochs, p.SamplingRate); err != nil {
			return err
		}
	}
	if p.EvalEvery = c.EvalEvery; p.EvalEvery == 0 {
		p.EvalEvery = epoch
		if epoch == 1 || p.Traits.Draws() == batches.Subsets { // whose rounds are many, and small
			p.EvalEvery = max(epoch, (p.Steps+fewEvaluations-1)/fewEvaluations)
		}
	}
	return p.resolveFacts()
}

// resolveFacts gathers what the method may know.
func (p *Plan) resolveFacts() error {
	c := &p.Config
	p.Facts = dpoptim.Facts{
		Records: p.PublicN, Steps: p.Steps, SamplingRate: p.SamplingRate, ExpectedBatch: p.ExpectedBatch, Clip: c.Clip, L2: c.L2,
		FeatureNorm: p.Config.Norm(), Linear: p.Facts.Linear,
	}
	if p.Network != nil { // else nothing will be trained
		g := p.Network.Program
		p.Facts.Params, p.Facts.Outputs = p.Trained().NumParams(), g.Outputs()
		if last := g.Ops[len(g.Ops)-1]; last.Bias >= 0 {
			p.Facts.Bias = g.Params[last.Bias].Offset
		}
	}
	switch {
	case c.LR == nil && (p.Traits.Once || p.Traits.Local):
		return nil
	case c.LR == nil:
		return usage.Errorf("optimizer %s has no learning rate of its own: give --lr", c.Optimizer)
	}
	p.Facts.Rate = dpoptim.Rate{Peak: *c.LR, Shape: c.LRSchedule, Warmup: c.Warmup, Steps: p.Steps}
	return usage.Wrap(p.Facts.Rate.Validate())
}

func (p *Plan) resolveWork() error {
	c := &p.Config
	if c.Exact() && (c.GEMM == devices.GEMMCuBLAS) {
		return usage.Errorf("gemm %s: exact noise promises bits, and nobody knows in which order cuBLAS adds; use --gemm %s, or --noise secure", c.GEMM, devices.GEMMOwn)
	}
	if c.Exact() && c.Clipping != string(perexample.Flat) {
		return usage.Errorf("clipping %s: exact noise bounds one norm over all parameters; use --clipping flat, or --noise secure", c.Clipping)
	}
	if c.Exact() {
		switch s := perexample.Strategy(c.Strategy); s {
		case perexample.Auto:
			c.Strategy = string(perexample.Materialise)
		case perexample.Materialise, perexample.Microbatch:
		default:
			return usage.Errorf("--strategy %s does not work with --noise exact, which needs each record's full gradient; use --strategy materialise or microbatch", s)
		}
	}
	if c.Exact() {
		p.costs.Passes = false // integers are summed of gradients that are kept
	}
	if c.Memory == "" {
		c.Memory = fmt.Sprint(p.memory)
	}
	memory, err := devices.ParseMemory(c.Memory)
	if err != nil {
		return err
	}
	p.Capacity = mostRows(p.ExpectedBatch)
	o := perexample.Options{
		Strategy: perexample.Strategy(c.Strategy),
		Costs:    p.costs, Memory: memory, Batch: p.ExpectedBatch, Rows: p.Capacity, MaxBatch: c.MaxPhysicalBatch,
		Views: c.Views, Augment: ir.Augment(c.Augment), UnitRows: c.UnitRows(),
	}
	if err := p.parts().Check(); err != nil {
		return err
	}
	if c.Private() {
		if o.Clipping, err = perexample.Clipping(c.Clipping).Rule(); err != nil {
			return usage.Wrap(err)
		}
		p.Schedule, err = perexample.Private(p.Trained(), o)
	} else {
		p.Schedule, err = perexample.Unclipped(p.Network.Program, o)
	}
	if err != nil {
		return usage.Wrap(err)
	}
	if need := p.Schedule.ExampleBytes(p.costs.Passes); memory < need {
		return usage.Errorf("memory %s: %s with strategy %s needs %d bytes for a single record; give at least that", c.Memory, c.Model, c.Strategy, need)
	}
	if p.Schedule.Chunk == 0 {
		p.Schedule.Chunk = perexample.Together(p.Schedule, o)
	}
	p.Block = p.block()
	f, err := c.Fingerprint()
	if err != nil {
		return err
	}
	if err := c.SurvivesYAML(f); err != nil {
		return err
	}
	// A calibration that came out otherwise would be another schedule, and a
	// user's own network is known by its ops alone.
	id := fmt.Appendf(nil, "%s noise %v steps %d network %s reading %s", f, p.Sigma, p.Steps, p.Network.Program, p.Set.Reading)
	if c.OwnMethod != nil { // whose settings nobody knows
		id = append(id, p.Declaration.String()...)
	}
	h := sha256.Sum256(id)
	p.Fingerprint = hex.EncodeToString(h[:])
	return nil
}

// block is how many steps the ledger reserves at a time.
func (p *Plan) block() int {
	n := blockSteps(p.Network.Program, p.ExpectedBatch*float64(p.Schedule.Views()), p.Steps)
	switch {
	case p.Config.FullBatch(): // of whose few steps a crash should not lose many
		return min(n, max(p.Steps/50, 1))
	case p.Kind == batches.Passes: // whose steps take less time than the ledger does
		return max(n, p.Steps/200)
	}
	return n
}

// blockSteps is about a second of work, judged by arithmetic at a nominal
// speed: a measured one would make the ledger's bytes depend on how long
// private batches take. At most 100 steps may be lost to a crash, or a thousandth of them.
func blockSteps(p *ir.Program, batch float64, steps int) int {
	const flopsPerSecond = 5e10
	most := max(100, float64(steps)/1000)
	return int(min(max(flopsPerSecond/(float64(p.StepFLOPs())*batch), 1), most))
}

// Keys are what a run draws from; that of views where some of these are random.
type Keys struct{ Sampling, Noise, Views stream.Key }

// Keys are drawn from the operating system, new for every process; a seeded
// run's follow from its seed, so that it can be reproduced and protects nobody.
func (p *Plan) Keys() (k Keys, err error) {
	if p.Config.Noise == dpoptim.Seeded {
		seed := p.Config.Seed
		return Keys{stream.KeyFromSeed(seed, "sampling"), stream.KeyFromSeed(seed, "noise"), stream.KeyFromSeed(seed, "views")}, nil
	}
	all := []*stream.Key{&k.Sampling, &k.Noise}
	if len(p.Config.Augment) > 0 {
		all = append(all, &k.Views)
	}
	for _, key := range all {
		if *key, err = stream.NewKey(); err != nil {
			return k, err
		}
	}
	return k, nil
}

// cipher is that of the noise: the device's own choice where no other device has to
// draw the same numbers.
func (p *Plan) cipher() stream.Cipher {
	if p.Config.Noise == dpoptim.Secure {
		return p.secure
	}
	return stream.ChaCha20
}

// mostBatch is the batch up to which the noise covers the rounding of sums. Of a table with
// a share held out it counts on all records: equal lines go to one side together, so
// that any of its public number of records may be there to train on.
func (p *Plan) mostBatch() int {
	most := p.ExpectedBatch
	if s := p.Set.Share; s > 0 && s < 1 {
		most = p.SamplingRate * (float64(p.PublicN+1)/s + float64(p.Config.Canaries)) // PublicN was rounded down
	}
	return mostRows(most)
}

// mostRows is a batch that a Poisson batch of an expected size exceeds with a
// probability below e⁻⁵⁰ (Bernstein: P(B ≥ E+t) ≤ exp(−t²/(2E+2t/3)) with
// t = 10√E+40).
func mostRows(expected float64) int {
	return int(math.Ceil(expected + 10*math.Sqrt(expected) + 40))
}
