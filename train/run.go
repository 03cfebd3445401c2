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
	"cmp"
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
	"github.com/privgrad/privgrad/features"
	"github.com/privgrad/privgrad/internal/budget"
	"github.com/privgrad/privgrad/internal/canary/hearing"
	"github.com/privgrad/privgrad/internal/charge"
	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/collective/team"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/slice"
	"github.com/privgrad/privgrad/internal/snapshot"
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

	// Priced makes the plan of a tuning's trial say what it costs. Whoever gives it has paid.
	Priced func(*plan.Plan)

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

// A Watcher is told of every evaluation, after its line of metrics.jsonl is written. A run that is resumed tells again of none
// of those before.
type Watcher interface {
	Evaluated(m Measurement)
}

// A Reporter adds files to the directory of a run that has finished. They follow from the files that are there, and from
// nothing else: what is published stays released values.
type Reporter interface {
	Files(r *Result) []string // their names, for a run of this result, which lists them as released
	Write(dir string) error
}

// Run trains as configured and writes the run directory. It returns the result when the run has finished, now or before. When
// ctx was cancelled and the run was saved, the error is ErrInterrupted, by errors.Is, and not context.Canceled; the same call
// with Resume: ResumeAuto goes on. When the run has finished and its report could not be written, there are both a result and
// ErrReport. In the folder of a slice, Run ends with ErrSlice. The trained parameters go back into the nodes of the network's
// graph, so that Gorgonia runs the trained model.
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
	if err := r.join(c.Network != ""); err != nil {
		return nil, err
	}
	defer func() { r.team.Leave(err) }()
	defer fault.Recover(&err) // before the others are told
	o = r.options
	r.plan, r.device, err = plan.Open(c, plan.Options{
		Sources: o.Sources, Network: o.Network, Front: o.Features, Method: o.Method, Device: o.Device, FrontProgress: o.featureProgress("preparing the features"), Rank: r.team.Part(),
		DeviceName: r.team.Device(c.Device), Kept: r.dir(),
	})
	if err = r.team.All(err); err != nil {
		return nil, err
	}
	if err := r.meet(); err != nil {
		return nil, err
	}
	p := r.plan
	if o.Priced != nil {
		o.Priced(p)
	}
	defer devices.BoundGarbage(p.Set.Bytes())()
	if o.keys != nil { // whoever knows them can subtract the noise
		p.Guarantee.Deny("its keys were given, and not drawn")
	}
	p.Announce(o.Log)
	if r.stopping(ctx) { // features may have been made for a minute
		return nil, fmt.Errorf("%w before the first step; nothing was charged", ErrInterrupted)
	}
	if done, err := r.enter(ctx); err != nil || done != nil {
		return done, r.full(err)
	}
	if r.stopped != "" { // by an earlier process
		return nil, errors.New(r.stopped)
	}
	r.miss()
	if err := r.loop(ctx); err != nil {
		return nil, errors.Join(r.full(err), p.SetParams(r.model.Params))
	}
	result, err := r.finish()
	if result == nil {
		return nil, r.full(err)
	}
	return result, errors.Join(err, p.SetParams(r.model.Params))
}

// run is one process's share of a run.
type run struct {
	plan    *plan.Plan
	options Options
	began   time.Time // of this process's work, for its owner alone where records are private
	started time.Time // of what a result counts

	ledger *ledger.Ledger
	slice  *slice.Folder // of which this process makes the steps; nil: of the whole run
	device device.Device
	team   *team.Team     // nil: this process alone
	shard  datasets.Shard // of several, the one of this process
	keys   plan.Keys      // of all of them
	engine *engine.Engine
	data   tables.Records
	test   tables.Records
	charge charge.Charge
	model  *snapshot.Snapshot
	canary *hearing.Hearing // nil: none takes part
	evaluator

	runID   string
	ran     int      // updates of this process
	counted *float64 // a noisy number of usable records; nil before it is made
	noise   *stream.Stream
	stopped string // why the run has ended for good; empty where it has not

	assumptions []string // of this process and those before
}

func (r *run) dir() rundir.Dir { return rundir.Dir(r.options.Out) }

// goOn says by what a person goes on with the run.
func (r *run) goOn() string {
	if r.slice != nil {
		return fmt.Sprintf("`privgrad slice in RUN %s`", r.options.Out)
	}
	return plan.GoOn(&r.plan.Config, r.options.Out, r.plan.Assumptions())
}

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

// open prepares the directory, or gives the result of a run that has finished. Whatever may be refused is refused before the
// directory is touched.
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
		r.settle,     // which may be refused
		r.openLedger, // whose lock comes first: of two processes that begin here, one writes its settings
		func() error { return r.dir().Sweep() }, r.keepConfig, r.keepFront, r.advise,
		func() error { return r.openEngine(ctx) }, r.restore,
		func() error { return r.openLogs(r.dir(), r.plan.Config.PrivateDiagnostics, r.step()) },
		r.arrive,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// settle pays for the run, and then makes its directory: one with a name of its own where none was given.
func (r *run) settle() error {
	p, o := r.plan, &r.options
	name := strings.Join([]string{time.Now().UTC().Format("20060102T150405Z"), p.Set.Name, p.Config.Model, p.Config.Optimizer}, "-")
	if o.Out != "" {
		name = filepath.Base(r.dir().Path("."))
	}
	var paid *budget.Receipt
	var err error
	if o.Priced == nil && (r.team == nil || r.team.Rank() == 0) { // all ranks are one run
		if paid, err = budget.Pay(p, r.dir(), name, o.RunID); err != nil {
			return err
		}
	}
	if o.Out != "" {
		err = r.dir().Make()
	} else {
		o.Out, err = rundir.New(filepath.Join("runs", name))
	}
	if err != nil || paid == nil {
		return err
	}
	o.Log.Info(paid.Notice())
	o.RunID = paid.Run
	return paid.Keep(r.dir())
}

// keepConfig writes the settings of a new run, and keeps those with which a run began, which the ledger knows by their digest alone.
func (r *run) keepConfig() error {
	yaml, err := r.plan.Config.YAML()
	if l := plan.Label(&r.plan.Config); l != "" {
		yaml = append([]byte("# "+l+"\n"), yaml...)
	}
	if err == nil && !r.dir().Has(rundir.Config) {
		err = r.dir().Write(rundir.Config, yaml)
	}
	text, identity := r.plan.Config.Identity()
	if err = cmp.Or(err, identity); err != nil {
		return err
	}
	return r.dir().KeepBegun(text)
}

// arrive notes this process, and warns where the directory is another than the last one had.
func (r *run) arrive() error {
	elsewhere, err := r.dir().Begin()
	if elsewhere {
		r.options.Log.Warn(fmt.Sprintf("%s is on another machine or in another place than when it was last trained. If it is a copy and the original goes on too, "+
			"steps are paid for once and made twice: go on in one of the two alone", r.dir()))
	}
	if err != nil || r.slice == nil {
		return err
	}
	if r.team != nil {
		return usage.Errorf("%s is a slice, which one process makes: start it without a launcher", r.dir())
	}
	return r.slice.Start()
}

// found gives the result of a run that has finished, and refuses one that cannot go on.
func (r *run) found() (*Result, error) {
	dir := r.dir()
	var stored config.Config
	if err := config.Read(dir.Path(rundir.Config), &stored); err != nil {
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
	if note := read.Note(r.device); note != "" {
		r.options.Log.Info(note)
	}
	if r.canary, r.data, err = hearing.Open(p, r.dir(), r.ledger.Charged() > 0, read, r.device); err != nil {
		return err
	}
	if !p.PublicRecords() && p.Front != nil && p.Front.IsFunc() { // which may take very long over one
		r.started = time.Now()
	}
	if r.noise, err = p.Stream(r.keys.Noise); err != nil {
		return err
	}
	sampler, err := r.newSampler()
	if err != nil {
		return err
	}
	if r.charge, err = r.newCharge(ctx, sampler); err != nil {
		return err
	}
	words, err := p.Words(r.keys.Views, r.shard.First)
	if err != nil {
		return err
	}
	if r.engine, err = p.Engine(r.device, r.data, r.noise, words, r.charge); err != nil {
		return err
	}
	if p.Set.TestIsPublic {
		read.Progress = r.options.featureProgress("features of the test images")
		if r.test, err = read.Records(r.device, p.Set.Test); err != nil {
			return err
		}
		if err := r.scorer.OpenTest(r.engine, p.Trained(), r.test, p.Set.Bounds, p.Config.Threads); err != nil {
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
		return r.scorer.OpenTraining(r.engine, r.data)
	}
	return nil
}

// restore sets parameters and position: from the checkpoint if there is one, else from the initialisation.
func (r *run) restore() error {
	r.model = snapshot.New(r.engine, r.plan.FirstParams())
	c, err := r.dir().ReadCheckpoint(len(r.model.Params), r.model.Widths())
	switch {
	case err != nil:
		return err
	case c != nil:
		err = r.resume(c)
	case r.ledger.Charged() > 0: // a checkpoint is there before the first step is charged
		return usage.Errorf("%s: steps were charged, and the checkpoint to go on from is gone: restore %s, or start a new run in another directory", r.options.Out, r.dir().State())
	default:
		if i := r.plan.Initial; i != nil {
			r.options.Log.Info(i.String())
		}
		err = r.model.Begin()
	}
	if err == nil {
		err = r.canary.Begin(c, r.model.Params)
	}
	if err != nil {
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
	if c.Slot < c.Step && !(c.Slot == 0 && r.plan.Traits.Once) {
		return snapshot.Foreign(out)
	}
	if c.Front != r.plan.Foundation() {
		return usage.Errorf("%s: the run has another %s than it began with: restore it, or give the same one again", out, r.plan.FoundationFile())
	}
	spent, err := r.model.Resume(out, c)
	if err != nil {
		return err
	}
	lost, err := r.charge.Resume(c.Slot, c.Step, spent)
	if lost != "" {
		r.options.Log.Warn(lost)
	}
	r.counted, r.stopped = c.Counted, c.Stopped
	return err
}

// assume joins what this process rests on to what those before did, and has it on the disk before anything is released: a
// result rests on all that led to it.
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
func (r *run) loop(ctx context.Context) error {
	progress := r.options.Progress
	if progress != nil {
		_, total := r.charge.Progress()
		progress.Start(total)
		defer progress.Finish()
	}
	saved, spent := false, false
	for r.charge.More() && !spent && (r.free() || !r.stopping(ctx)) { // what is free and made in one go stops itself
		save, err := r.next()
		if spent = errors.Is(err, accountant.ErrBudget) && r.plan.Filtered(); spent || errors.Is(err, charge.ErrStopped) {
			saved = false // what the step has spent; and the loop ends
			continue
		}
		if err != nil {
			return err
		}
		if progress != nil {
			r.tell(progress)
		}
		if saved = save; save {
			if err := r.save(); err != nil {
				return err
			}
		}
	}
	if w := r.plan.Declaration.Unspent; spent && r.step() == 0 && w != "" {
		r.options.Log.Warn(w)
	}
	if !saved { // an earlier process may have died before it did
		if err := r.save(); err != nil {
			return err
		}
	}
	return r.ended(r.charge.More() && !spent)
}

// ended says how a run goes on of which steps are left, or how the run gets the steps of a slice, which makes no more.
func (r *run) ended(left bool) error {
	if r.slice == nil && left {
		return r.interrupted()
	}
	if r.slice == nil {
		return nil
	}
	if err := r.slice.Close(r.charge.Slot()); err != nil {
		return err
	}
	how := ErrSlice
	if left {
		how = ErrInterrupted
	}
	done, of := r.slice.Slots(r.charge.Slot())
	return fmt.Errorf("%w: %d of its %d steps are made and saved; take it back by %s", how, done, of, r.goOn())
}

// tell says how far the run is.
func (r *run) tell(p Progress) {
	done, _ := r.charge.Progress()
	var epsilon, accuracy *float64
	if r.last != nil { // accounting for every slot would take longer than the steps
		epsilon, accuracy = r.last.EpsilonSoFar, r.last.TestAccuracy
	}
	if spent := r.charge.SoFar(); spent != nil {
		epsilon = price.Finite(*spent)
	}
	p.Step(done, epsilon, accuracy)
}

// interrupted says that the run was saved, and how it goes on.
func (r *run) interrupted() error {
	steps := fmt.Sprint(r.step())
	if !r.plan.Filtered() {
		steps += fmt.Sprintf(" of %d", r.plan.Steps)
	}
	return fmt.Errorf("%w after %s steps and saved; continue by %s", ErrInterrupted, steps, r.goOn())
}

// next is one step with what follows it; save says that a checkpoint is due.
func (r *run) next() (save bool, err error) {
	finisher, _ := r.engine.Steps.(dpoptim.Finisher)
	if finisher != nil && finisher.Finished() { // in a slice, which has charged its part alone
		return r.charge.End(0, finisher)
	}
	counts := r.counts()
	if err := r.charge.Begin(); err != nil {
		return false, err
	}
	if counts {
		if err := r.begin(); err != nil {
			return false, err
		}
	}
	updates, err := r.engine.Steps.Step()
	if err != nil && !r.plan.Traits.Once {
		err = fmt.Errorf("step %d: %w", r.charge.Update(), err)
	}
	if err == nil && updates > 0 {
		err = r.canary.Hear(r.engine)
	}
	if err != nil {
		return false, err
	}
	var loss *float64
	if r.trainLoss != nil && r.plan.Evaluates(r.charge.Slot()+1) {
		if loss, err = r.noisyLoss(); err != nil {
			return false, fmt.Errorf("training loss after step %d: %w", r.charge.Update(), err)
		}
	}
	if save, err = r.charge.End(updates, finisher); err != nil {
		return false, err
	}
	if r.ran += updates; updates > 0 && r.ran&(r.ran-1) == 0 { // early releases compute the tables of the noise
		devices.FreeGarbage(r.plan.Set.Bytes())
	}
	if r.evaluates() {
		return save, r.evaluate(loss)
	}
	return save, nil
}

// evaluates reports whether an evaluation follows the last step.
func (r *run) evaluates() bool { return !r.free() && r.plan.Evaluates(r.charge.Slot()) }

// noisyLoss releases the mean of a fresh batch's clipped losses, over the public expected batch; the slot's reservation has
// paid for it.
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
	if err := r.model.Read(); err != nil {
		return err
	}
	if err := r.team.Same(r.model.Params); err != nil {
		return err
	}
	return r.charge.Save(func() error {
		if err := r.saveCheckpoint(); err != nil || r.slice != nil { // the run makes the model of it
			return err
		}
		write := func(file string, params []float32) error {
			return rundir.WriteModel(r.dir().Path(file), r.plan.Network.Program, r.plan.OfNetwork(params), plan.Label(&r.plan.Config), r.plan.ModelFacts())
		}
		if r.model.Average != nil {
			if err := write(rundir.Average, r.model.Average); err != nil {
				return err
			}
		}
		return write(rundir.Model, r.model.Params)
	})
}

// saveCheckpoint writes what was last read of the engine.
func (r *run) saveCheckpoint() error {
	c := rundir.Checkpoint{
		RunID: r.runID, Step: r.step(), Slot: r.charge.Slot(), Assumptions: r.assumptions,
		Counted: r.counted, Stopped: r.stopped, Front: r.plan.Foundation(), Label: plan.Label(&r.plan.Config),
		Heard: r.canary.Bytes(),
	}
	if err := r.model.Fill(&c, r.charge.Spent()); err != nil {
		return err
	}
	return r.dir().WriteCheckpoint(&c)
}

// finish writes, last, the result that marks a run as done, and has it reported.
func (r *run) finish() (*Result, error) {
	if r.last == nil || r.last.Step != r.step() {
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
