// Package train trains a model with differential privacy and writes its run directory:
//
//	c := train.Default() // Fashion-MNIST by the best recipe; by DP-SGD and a CNN with c.Recipe = "none"
//	epsilon := 3.0
//	c.Epsilon = &epsilon
//	result, err := train.Run(ctx, c, train.Options{Out: "runs/first", Sources: sources})
//
// What leaves a run is a function of its configuration, of released values and of data declared
// public. The ledger reserves a step on disk before the noise of that step is drawn.
package train

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/team"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/outputs"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// Options is what a caller supplies beside the configuration.
type Options struct {
	Sources  map[string]Source
	Out      string // run directory; empty: runs/<UTC>-<data>-<model>-<optimizer>
	Resume   Resume
	Progress Progress     // nil: none but what Log receives; a FeatureProgress is also told of features
	Log      *slog.Logger // nil: none; receives warnings and, without Progress, a line for every tenth of the run

	// Network is a user's own lowered graph, in the place of a named model; the
	// configuration's model, activation and initial weights are then the graph's.
	Network *nn.Network

	// Features replace the configured ones, by a user's own map of a record or by one that was
	// read from a file.
	Features *features.Front

	// Method replaces the configured optimizer, by a user's own. Its settings are not
	// written to the run directory: resume with a method of the same ones.
	Method dpoptim.Method

	// Watch is told of every evaluation, also of public figures only.
	Watch []Watcher
	// Report writes what people and other programs look at, when the run has finished;
	// package report has one.
	Report Reporter

	// Group is the processes that train one model together, each on its part of the records; nil: this one
	// alone. Every rank gets the same options, but for the place of its data.
	Group collective.Group

	// Device replaces the configured one, for tests of this module; others name one in Config.
	Device device.Device
	// RunID replaces the random identity of a new run, for tests.
	RunID string
	// onRelease is told of a slot before its noise is drawn, and block
	// replaces the number of steps reserved at a time, for tests.
	onRelease func(slot int) error
	block     int
	// keys replace those of the operating system, for tests.
	keys *plan.Keys
	// counted replaces the released count of records, for tests.
	counted *float64
}

// Resume says what becomes of a run that the run directory holds.
type Resume string

const (
	ResumeNever Resume = ""     // the directory must be empty or absent
	ResumeRun   Resume = "true" // a run must be there, and goes on
	ResumeAuto  Resume = "auto" // a run goes on, or begins
)

// Progress is told how a run goes. It sees public figures only.
type Progress interface {
	Start(total int)
	// Step follows every slot; the figures are the last evaluation's, nil before.
	Step(done int, epsilon, testAccuracy *float64)
	Finish()
}

// A Watcher is told of every evaluation, after its line of metrics.jsonl is written. A run
// that is resumed tells again of none of those before.
type Watcher interface {
	Evaluated(m Measurement)
}

// A Reporter adds files to the directory of a run that has finished. They follow from
// the files that are there, and from nothing else: what is published stays released values.
type Reporter interface {
	Files(r *Result) []string // their names, for a run of this result, which lists them as released
	Write(dir string) error
}

// Run trains as configured and writes the run directory. It returns the result
// when the run has finished, now or before. When ctx was cancelled and the run
// was saved, the error is ErrInterrupted, by errors.Is, and not context.Canceled;
// the same call with Resume: ResumeAuto goes on. When the run has finished and its report
// could not be written, there are both a result and ErrReport. The trained parameters go back into the
// nodes of the network's graph, so that Gorgonia runs the trained model.
func Run(ctx context.Context, c Config, o Options) (_ *Result, err error) {
	defer fault.Recover(&err)
	now := time.Now()
	r := &run{began: now, started: now}
	switch {
	case o.Log == nil:
		o.Log = slog.New(slog.DiscardHandler)
	case o.Progress == nil:
		o.Progress = &told{run: r}
	}
	r.options = o
	defer r.close()
	if err := r.join(); err != nil {
		return nil, err
	}
	defer func() { r.team.Leave(err) }()
	defer fault.Recover(&err) // before the others are told
	o = r.options
	r.plan, r.device, err = plan.Open(c, plan.Options{
		Sources: o.Sources, Network: o.Network, Front: o.Features, Method: o.Method, Device: o.Device, FrontProgress: o.featureProgress("preparing the features"), Rank: r.team.Part(),
		DeviceName: r.team.Device(c.Device),
	})
	if err = r.team.All(err); err != nil {
		return nil, err
	}
	if err := r.meet(); err != nil {
		return nil, err
	}
	p := r.plan
	defer devices.BoundGarbage(p.Set.Bytes())()
	if o.keys != nil { // whoever knows them can subtract the noise
		p.Guarantee.Deny("its keys were given, and not drawn")
	}
	p.Announce(o.Log)
	if r.stopping(ctx) { // features may have been made for a minute
		return nil, fmt.Errorf("%w before the first step; nothing was charged", ErrInterrupted)
	}
	if r.options.Out == "" {
		name := strings.Join([]string{time.Now().UTC().Format("20060102T150405Z"), p.Set.Name, p.Config.Model, p.Config.Optimizer}, "-")
		if r.options.Out, err = rundir.New(filepath.Join("runs", name)); err != nil {
			return nil, err
		}
	}
	if done, err := r.enter(ctx); err != nil || done != nil {
		return done, r.full(err)
	}
	if r.stopped != "" { // by an earlier process
		return nil, errors.New(r.stopped)
	}
	r.miss()
	if err := r.loop(); err != nil {
		return nil, errors.Join(r.full(err), p.Network.SetParams(r.params))
	}
	result, err := r.finish()
	if result == nil {
		return nil, r.full(err)
	}
	return result, errors.Join(err, p.Network.SetParams(r.params))
}

// run is one process's share of a run.
type run struct {
	plan    *plan.Plan
	options Options
	began   time.Time // of this process's work, for its owner alone where records are private
	started time.Time // of what a result counts

	ledger  *ledger.Ledger
	device  device.Device
	team    *team.Team     // nil: this process alone
	shard   datasets.Shard // of several, the one of this process
	shared  plan.Keys      // of all of them
	engine  *engine.Engine
	data    tables.Records
	test    tables.Records
	sampler batches.Sampler
	charge  charge
	evaluator

	runID      string
	slot, step int // of the committed schedule, and updates applied
	ran        int // updates of this process
	params     []float32
	state      [][]float32
	average    []float32 // nil where none is kept
	counted    *float64  // a noisy number of usable records; nil before it is made
	noise      *stream.Stream
	stopped    string // why the run has ended for good; empty where it has not

	assumptions []string // of this process and those before
}

func (r *run) dir() rundir.Dir { return rundir.Dir(r.options.Out) }

// goOn says by what a person goes on with the run.
func (r *run) goOn() string { return r.plan.Config.GoOn(r.options.Out, r.plan.Assumptions()) }

// full adds to the error of a run that has begun what to do when there is space again.
func (r *run) full(err error) error {
	if !durable.Full(err) || !r.dir().Has(rundir.Config) {
		return err
	}
	return fmt.Errorf("%w; continue by %s", err, r.goOn())
}

func (r *run) close() {
	r.metrics.Close()
	r.diagnostics.Close()
	if r.engine != nil {
		r.engine.Close()
	}
	for _, d := range []device.Data{r.data.Data, r.test.Data} {
		if d != nil {
			d.Close()
		}
	}
	if r.device != nil && r.options.Device == nil {
		r.device.Close()
	}
	if r.ledger != nil {
		r.ledger.Close()
	}
}

// open prepares the directory, or gives the result of a run that has finished.
// Whatever may be refused is refused before the directory is touched.
func (r *run) open(ctx context.Context) (*Result, error) {
	dir := r.dir()
	found, anything, err := dir.Find()
	switch {
	case err != nil:
		return nil, err
	case anything && r.options.Resume == ResumeNever:
		return nil, usage.Errorf("run directory %s is not empty: choose another --out, or continue the run that is there by %s", dir, r.goOn())
	case found:
		if done, err := r.found(); err != nil || done != nil {
			return done, err
		}
	default:
		if err := dir.Foreign(); err != nil {
			return nil, err
		}
		if r.options.Resume == ResumeRun {
			return nil, usage.Errorf("%s holds no run to resume: name its directory by --out, or start one there by --resume=auto", dir)
		}
	}
	for _, step := range []func() error{
		dir.Make,
		r.openLedger, // whose lock comes first: of two processes that begin here, one writes its settings
		r.sweep, r.keepConfig, r.keepSettings, r.keepFront, r.advise,
		func() error { return r.openEngine(ctx) },
		r.restore,
		func() error { return r.openLogs(dir, r.plan.Config.PrivateDiagnostics, r.step) },
		r.arrive,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// sweep removes what a crash left of files that were not finished.
func (r *run) sweep() error {
	if err := r.dir().Sweep(); err != nil {
		return fmt.Errorf("run directory %s: %w", r.dir(), err)
	}
	return nil
}

// keepConfig writes the settings of a new run.
func (r *run) keepConfig() error {
	if r.dir().Has(rundir.Config) {
		return nil
	}
	yaml, err := r.plan.Config.YAML()
	if err != nil {
		return err
	}
	if l := r.plan.Config.Label(); l != "" {
		yaml = append([]byte("# "+l+"\n"), yaml...)
	}
	return r.dir().Write(rundir.Config, yaml)
}

// arrive notes this process, and warns where the directory is another than the last one had.
func (r *run) arrive() error {
	elsewhere, err := r.dir().Begin()
	if elsewhere {
		r.options.Log.Warn(fmt.Sprintf("%s is on another machine or in another place than when it was last trained. If it is a copy and the original goes on too, "+
			"steps are paid for once and made twice: go on in one of the two alone", r.dir()))
	}
	return err
}

// found gives the result of a run that has finished, and refuses one that cannot go on.
func (r *run) found() (*Result, error) {
	dir := r.dir()
	var stored plan.Config
	if err := plan.ReadConfig(dir.Path(rundir.Config), &stored); err != nil {
		return nil, err
	}
	if err := r.plan.Config.Matches(stored, dir.Path(rundir.Config)); err != nil {
		return nil, err
	}
	done := Result{Claim: Claim{Asked: r.plan.Config.Epsilon}}
	finished, err := dir.ReadResult(&done)
	switch {
	case err != nil:
		return nil, err
	case !finished:
		return nil, dir.Complete()
	case !done.Sound():
		return nil, usage.Errorf("%s is not what a run writes: restore it, or start a new run in another directory", dir.Path(rundir.Result))
	}
	if done.Evaluations, err = rundir.ReadMetrics[Measurement](dir); err != nil {
		return nil, err
	}
	params, _, err := rundir.ReadModel(dir.Path(rundir.Model), r.plan.Network.Program)
	diverged := errors.Is(err, rundir.ErrNotFinite)
	if err != nil && !diverged {
		return &done, err
	}
	r.options.Log.Info(fmt.Sprintf("the run in %s had finished; this is its result, and nothing was trained", dir))
	if diverged {
		r.options.Log.Warn(err.Error())
		return &done, nil
	}
	return &done, r.plan.Network.SetParams(params)
}

// slots is what the ledger counts: steps of the committed schedule, or shares of
// a budget that adapts.
func (r *run) slots() int {
	if r.plan.Filtered() && r.plan.Sigma > 0 {
		return budgetUnits
	}
	return r.plan.Steps
}

// keepSettings keeps those with which the run began, which the ledger knows by their digest alone.
func (r *run) keepSettings() error {
	text, err := r.plan.Config.Identity()
	if err != nil {
		return err
	}
	return r.dir().KeepBegun(text)
}

func (r *run) openLedger() error {
	h := ledger.Header{Fingerprint: r.plan.Fingerprint, Committed: r.slots()}
	var err error
	if h.RunID = r.options.RunID; r.dir().Has(rundir.Ledger) {
		h.RunID = "" // that of the ledger
	} else if h.RunID == "" {
		if h.RunID, err = ledger.NewRunID(); err != nil {
			return err
		}
	}
	r.ledger, err = ledger.Open(r.dir().Path(rundir.Ledger), h)
	if errors.Is(err, ledger.ErrMismatch) {
		return usage.Wrap(r.plan.Config.Changed(r.dir(), err, ledger.ErrMismatch))
	}
	if errors.Is(err, ledger.ErrInUse) || errors.Is(err, ledger.ErrCorrupt) {
		return usage.Wrap(err)
	}
	if err != nil {
		return err
	}
	r.runID = r.ledger.Header().RunID
	return nil
}

func (r *run) openEngine(ctx context.Context) error {
	p := r.plan
	read := p.Reader()
	read.Progress = r.options.featureProgress("features of the training images")
	read.Stopped = func() error {
		if ctx.Err() == nil {
			return nil
		}
		return fmt.Errorf("%w before the next step; continue by %s", ErrInterrupted, r.goOn())
	}
	if !p.PublicRecords() { // behind the reading of records, of which one may take very long
		r.started = time.Now().Add(-p.FrontTime)
	}
	var err error
	if r.data, err = read.Records(r.device, p.Set.Train); err != nil {
		return err
	}
	if !p.PublicRecords() && p.Front != nil && p.Front.IsFunc() { // which may take very long over one
		r.started = time.Now()
	}
	keys, err := r.keys()
	if err != nil {
		return err
	}
	if r.sampler, err = r.newSampler(keys.Sampling); err != nil {
		return err
	}
	noise, err := p.Stream(keys.Noise)
	if err != nil {
		return err
	}
	r.noise = noise
	if r.charge, err = r.newCharge(ctx); err != nil {
		return err
	}
	if r.engine, err = p.Engine(r.device, r.data, noise, r.charge); err != nil {
		return err
	}
	if p.Set.TestIsPublic {
		read.Progress = r.options.featureProgress("features of the test images")
		if err := r.openTest(read); err != nil {
			return err
		}
	}
	if z := p.Config.TrainLossNoise; z != nil {
		release := dpoptim.Release{Noise: accountant.Gaussian{NoiseMultiplier: *z}, Bound: price.LossBound}
		if r.trainLoss, err = r.engine.LossQuery(release); err != nil {
			return err
		}
	}
	if p.Config.PrivateDiagnostics || p.Config.DataIsPublic {
		r.scoreTrain, err = r.engine.Scorer(r.data.Data, false)
	}
	return err
}

// openTest makes ready to evaluate public test records.
func (r *run) openTest(read tables.Reader) (err error) {
	p := r.plan
	if r.test, err = read.Records(r.device, p.Set.Test); err != nil {
		return err
	}
	if r.score, err = r.engine.Scorer(r.test.Data, false); err != nil {
		return err
	}
	if r.scoreAverage, err = r.engine.Scorer(r.test.Data, true); err != nil {
		return err
	}
	r.errors, err = outputs.Measurer(p.Network.Program, r.test, p.Set.Bounds, p.Config.Threads, r.engine.ReadParams)
	return err
}

// restore sets parameters and position: from the checkpoint if there is one,
// else from the initialisation.
func (r *run) restore() error {
	r.params = r.plan.Network.Params()
	var widths []int
	for _, s := range r.engine.Steps.State() {
		r.state = append(r.state, make([]float32, s.Width*len(r.params)))
		widths = append(widths, s.Width)
	}
	average, averages := r.engine.Average()
	if averages {
		r.average = slices.Clone(r.params)
	}
	c, err := r.dir().ReadCheckpoint(len(r.params), widths)
	if err != nil {
		return err
	}
	if c == nil { // a method may have begun with other values than zeros
		if err := r.readState(); err != nil {
			return err
		}
	}
	if c == nil && r.ledger.Charged() > 0 {
		// A checkpoint is there before the first step is charged.
		return usage.Errorf("%s: steps were charged, and the checkpoint to go on from is gone: restore %s, or start a new run in another directory", r.options.Out, r.dir().State())
	}
	if c != nil {
		if err := r.resume(c); err != nil {
			return err
		}
	}
	if i := r.plan.Initial; c == nil && i != nil {
		r.options.Log.Info(i.String())
	}
	if w := r.charge.writeOff(); w != "" {
		r.options.Log.Warn(w)
	}
	if averages {
		if err := r.engine.Write(average, r.average); err != nil {
			return err
		}
	}
	if err := r.engine.SetParams(r.params); err != nil {
		return err
	}
	return r.assume(c)
}

// resume goes on from a checkpoint.
func (r *run) resume(c *rundir.Checkpoint) error {
	out := r.options.Out
	if c.RunID != r.runID {
		return usage.Errorf("%s: checkpoint and ledger belong to different runs; restore the matching pair, or start a new run in another directory", out)
	}
	if c.Slot < c.Step && !(c.Slot == 0 && r.plan.Method.Traits().Once) {
		return usage.Errorf("%s: the checkpoint is not one of this run's: restore the file, or start a new run in another directory", out)
	}
	if c.Slot > r.ledger.Charged() && !r.plan.Filtered() {
		return errAhead(out)
	}
	if a := r.engine.Adaptation; a != nil {
		if err := a.Rule.Validate(c.Clip); err != nil {
			return usage.Errorf("%s: the checkpoint is not one of this run's: %w; restore the file, or start a new run in another directory", out, err)
		}
		a.Clip = c.Clip
	}
	if c.Front != r.plan.FrontDigest {
		return usage.Errorf("%s: the run has other features than it began with: restore %s, or give the same ones again", out, rundir.Features)
	}
	if (r.average != nil) != (c.Average != nil) {
		return usage.Errorf("%s: the checkpoint is not one of this run's: restore the file, or start a new run in another directory", out)
	}
	if k := r.keeper(); k != nil {
		spent, err := k.Restore([]byte(c.Method))
		if err != nil {
			return usage.Errorf("%s: the checkpoint's %w; restore the file, or start a new run in another directory", out, err)
		}
		if err := r.charge.restore(spent); err != nil {
			return err
		}
	}
	r.counted, r.stopped = c.Counted, c.Stopped
	r.params, r.state, r.average, r.step, r.slot = c.Params, c.States, c.Average, c.Step, c.Slot
	for i, s := range r.engine.Steps.State() {
		if err := r.engine.Write(s.Vector, r.state[i]); err != nil {
			return err
		}
	}
	return nil
}

// assume joins what this process rests on to what those before did, and has it on the
// disk before anything is released: a result rests on all that led to it.
func (r *run) assume(c *rundir.Checkpoint) error {
	var stored []string
	if c != nil {
		stored = c.Assumptions
	}
	r.assumptions = append([]string{}, stored...)
	also := r.plan.Assumptions()
	if c != nil && stored == nil && r.plan.Config.Noise != dpoptim.Exact {
		// Noise was of floating-point numbers when assumptions were not kept.
		also = append(also, plan.RealArithmetic)
	}
	for _, a := range also {
		if !slices.Contains(r.assumptions, a) {
			r.assumptions = append(r.assumptions, a)
		}
	}
	if stored != nil && len(stored) == len(r.assumptions) {
		return nil
	}
	return r.saveCheckpoint()
}

// loop makes the steps that are left, each of which is paid for before it is made.
func (r *run) loop() error {
	progress := r.options.Progress
	if progress != nil {
		progress.Start(r.charge.total())
		defer progress.Finish()
	}
	saved, spent := false, false
	for r.charge.more() && !r.charge.paused() && !spent {
		save, err := r.next()
		switch {
		case errors.Is(err, errStopped):
			saved = false // what the step has spent; and the loop ends
			continue
		case errors.Is(err, accountant.ErrBudget) && r.plan.Filtered():
			saved, spent = false, true
			continue
		case err != nil:
			return err
		}
		if progress != nil {
			done, epsilon := r.charge.progress()
			var accuracy *float64
			if r.last != nil {
				accuracy = r.last.TestAccuracy
			}
			progress.Step(done, epsilon, accuracy)
		}
		if saved = save; save {
			if err := r.save(); err != nil {
				return err
			}
		}
	}
	if w := r.plan.Declaration.Unspent; spent && r.step == 0 && w != "" {
		r.options.Log.Warn(w)
	}
	if !saved { // an earlier process may have died before it did
		if err := r.save(); err != nil {
			return err
		}
	}
	if r.charge.more() && !spent {
		return r.charge.interrupted()
	}
	return nil
}

// next is one step with what follows it; save says that a checkpoint is due.
func (r *run) next() (save bool, err error) {
	counts := r.counts()
	if err := r.charge.begin(); err != nil {
		return false, err
	}
	if counts {
		if err := r.begin(); err != nil {
			return false, err
		}
	}
	updates, err := r.engine.Steps.Step()
	if err != nil && !r.plan.Method.Traits().Once {
		err = fmt.Errorf("step %d: %w", r.step+1, err)
	}
	if err != nil {
		return false, err
	}
	var loss *float64
	if r.trainLoss != nil && r.plan.Evaluates(r.slot+1) {
		if loss, err = r.noisyLoss(); err != nil {
			return false, fmt.Errorf("training loss after step %d: %w", r.step+1, err)
		}
	}
	if save, err = r.charge.end(updates); err != nil {
		return false, err
	}
	if r.ran += updates; updates > 0 && r.ran&(r.ran-1) == 0 { // early releases compute the tables of the noise
		devices.FreeGarbage(r.plan.Set.Bytes())
	}
	if r.charge.evaluates() {
		return save, r.evaluate(loss)
	}
	return save, nil
}

// noisyLoss releases the mean of a fresh batch's clipped losses, over the
// public expected batch; the slot's reservation has paid for it.
func (r *run) noisyLoss() (*float64, error) {
	rows, draw := r.charge.Batch(dpoptim.Losses, false, nil)
	sum, err := r.trainLoss(rows, draw)
	if err != nil {
		return nil, err
	}
	return price.Finite(sum / r.plan.ExpectedBatch), nil
}

// save writes the checkpoint and the model as they stand.
func (r *run) save() error {
	e := r.engine
	if err := e.Wait(); err != nil {
		return err
	}
	if err := e.ReadParams(r.params); err != nil {
		return err
	}
	if err := r.team.Same(r.params); err != nil {
		return err
	}
	if err := r.readState(); err != nil {
		return err
	}
	if v, ok := e.Average(); ok {
		if err := e.Read(v, r.average); err != nil {
			return err
		}
	}
	if err := r.charge.saving(); err != nil {
		return err
	}
	if err := r.saveCheckpoint(); err != nil {
		return err
	}
	label, program, dir := r.plan.Config.Label(), r.plan.Network.Program, r.dir()
	if r.average != nil {
		if err := rundir.WriteModel(dir.Path(rundir.Average), program, r.average, label, r.plan.ModelFacts()); err != nil {
			return err
		}
	}
	if err := rundir.WriteModel(dir.Path(rundir.Model), program, r.params, label, r.plan.ModelFacts()); err != nil {
		return err
	}
	return r.charge.saved()
}

// readState reads the method's vectors.
func (r *run) readState() error {
	for i, s := range r.engine.Steps.State() {
		if err := r.engine.Read(s.Vector, r.state[i]); err != nil {
			return err
		}
	}
	return nil
}

// keeper keeps the method's state, or that of its budget alone; nil where there is none.
func (r *run) keeper() dpoptim.Keeper {
	if k, ok := r.engine.Steps.(dpoptim.Keeper); ok {
		return k
	}
	if r.plan.Filtered() {
		return engine.SpentKeeper{}
	}
	return nil
}

// saveCheckpoint writes what was last read of the engine.
func (r *run) saveCheckpoint() error {
	c := rundir.Checkpoint{
		RunID: r.runID, Step: r.step, Slot: r.slot, Params: r.params, States: r.state, Average: r.average,
		Assumptions: r.assumptions, Counted: r.counted, Stopped: r.stopped, Front: r.plan.FrontDigest, Label: r.plan.Config.Label(),
	}
	if k := r.keeper(); k != nil {
		state, err := k.Save(r.charge.spent())
		if err != nil {
			return err
		}
		c.Method = string(state)
	}
	if a := r.engine.Adaptation; a != nil {
		c.Clip = a.Clip
	}
	return r.dir().WriteCheckpoint(&c)
}

// finish writes, last, the result that marks a run as done, and has it reported.
func (r *run) finish() (*Result, error) {
	if r.last == nil || r.last.Step != r.step {
		if err := r.evaluate(nil); err != nil {
			return nil, err
		}
	}
	result, err := r.result()
	if err != nil {
		return nil, err
	}
	if r.diagnostics != nil {
		if err := r.dir().WriteCost(rundir.Cost{Private: true, Seconds: time.Since(r.began).Seconds(), PeakRSS: devices.PeakRSS()}); err != nil {
			return nil, err
		}
	}
	if err := r.dir().WriteResult(result); err != nil {
		return nil, err
	}
	return result, r.report(result)
}

// report has a finished run reported. The result lists what is there of the report when it is there.
func (r *run) report(result *Result) error {
	if r.options.Report == nil {
		return nil
	}
	err := r.options.Report.Write(r.options.Out)
	for _, name := range r.options.Report.Files(result) {
		if r.dir().IsFile(name) {
			result.Released = append(result.Released, name)
		}
	}
	if err = errors.Join(err, r.dir().WriteResult(result)); err == nil {
		return nil
	}
	holds := ""
	if result.Guarantee {
		holds = ", and its guarantee holds"
	}
	return fmt.Errorf("the run in %s is complete and saved%s; but %w: %v: put that right, then make it by `privgrad report %[1]s`", r.options.Out, holds, ErrReport, err)
}
