// Package train wires a whole run together: data, network, schedule, device,
// mechanism, optimizer, accountant, ledger and the files of a run directory.
//
// What leaves a run is a function of its configuration, of released values and
// of data declared public. The ledger reserves a step on disk before that
// step's noise is drawn.
package train

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// Options is what a caller supplies beside the configuration.
type Options struct {
	Sources  map[string]Source
	Out      string // run directory; empty: runs/<UTC>-<data>-<model>-<optimizer>
	Resume   Resume
	Progress Progress     // nil: none
	Log      *slog.Logger // nil: none; receives warnings and where the run stands

	// Network is a user's own lowered graph, in the place of a named model; the
	// configuration's model, activation and initial weights are then the graph's.
	Network *nn.Network

	// Device replaces the configured one, for tests and for a user's own.
	Device device.Device
	// RunID replaces the random identity of a new run, for tests.
	RunID string
	// onRelease is told of a slot before its noise is drawn, and block
	// replaces the number of steps reserved at a time, for tests.
	onRelease func(slot int) error
	// onSchedule is told of every noise multiplier that a protector chooses.
	onSchedule func(multiplier float64)
	block      int
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

// Run trains as configured and writes the run directory. It returns the result
// when the run has finished, now or before; ErrInterrupted when ctx was
// cancelled and the run was saved. The trained parameters go back into the
// nodes of the network's graph, so that Gorgonia runs the trained model.
func Run(ctx context.Context, c Config, o Options) (_ *Result, err error) {
	defer fault.Recover(&err)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p, err := Resolve(c, o)
	if err != nil {
		return nil, err
	}
	for _, w := range p.warnings {
		o.Log.Warn(w)
	}
	if o.Out == "" {
		o.Out = filepath.Join("runs", strings.Join([]string{time.Now().UTC().Format("20060102T150405Z"), p.Set.Name, p.Config.Model, p.Config.Optimizer}, "-"))
	}
	r := &run{plan: p, options: o, started: time.Now()}
	defer r.close()
	if done, err := r.open(); err != nil || done != nil {
		return done, err
	}
	work := r.train
	switch {
	case p.Config.once():
		work = r.once
	case p.filtered():
		work = r.trainFiltered
	}
	if err := work(ctx); err != nil {
		return nil, errors.Join(err, p.Network.SetParams(r.params))
	}
	result, err := r.finish()
	if err != nil {
		return nil, err
	}
	return result, p.Network.SetParams(r.params)
}

// run is one process's share of a run.
type run struct {
	plan    *Plan
	options Options
	started time.Time

	ledger       *ledger.Ledger
	metrics      *durable.Log
	diagnostics  *durable.Log
	device       device.Device
	engine       *Engine
	data, test   device.Data
	score        func() (device.Score, error)
	scoreAverage func() (device.Score, error) // of the average of the parameters
	scoreTrain   func() (device.Score, error)
	trainLoss    func(rows []int32, draw uint64, steps ...float32) ([]float64, error)
	sampler      datasets.Sampler
	noise        *stream.Stream
	searcher     *searcher         // of optimizers that choose their step size
	protection   *protection       // of a schedule of the noise
	budget       accountant.Budget // nil where releases are committed to, and without noise

	runID      string
	slot, step int // of the committed schedule, and updates applied
	ran        int // updates of this process
	last       *evaluation
	rows       []int32
	params     []float32
	state      [][]float32
	reserved   int // budget units not yet settled, where budgets adapt, the first of them being
	first      int
	stopped    func() error // whether a run whose budgets adapt is to end before its next release
	average    []float32    // nil where none is kept

	assumptions []string // of this process and those before
}

func (r *run) path(name string) string { return filepath.Join(r.options.Out, name) }

func (r *run) close() {
	if r.metrics != nil {
		r.metrics.Close()
	}
	if r.diagnostics != nil {
		r.diagnostics.Close()
	}
	if r.engine != nil {
		r.engine.Close()
	}
	for _, d := range []device.Data{r.data, r.test} {
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
func (r *run) open() (*Result, error) {
	var err error
	if r.device = r.options.Device; r.device == nil {
		if r.device, err = OpenDevice(r.plan.Config.Device, r.plan.Config.Threads); err != nil {
			return nil, err
		}
	}
	entries, err := os.ReadDir(r.options.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, usage.Errorf("run directory: %w: choose another --out", err)
	}
	if len(entries) > 0 && r.options.Resume == ResumeNever {
		return nil, usage.Errorf("run directory %s is not empty: choose another --out, or give --resume to continue the run that is there", r.options.Out)
	}
	found, err := r.find(entries)
	switch {
	case err != nil:
		return nil, err
	case found:
		if done, err := readResult(r.path(fileResult)); err != nil || done != nil {
			return done, errors.Join(err, r.fillGraph())
		}
		if err := r.complete(); err != nil {
			return nil, err
		}
	case r.options.Resume == ResumeRun:
		return nil, usage.Errorf("%s holds no run to resume: name its directory by --out, or start one there by --resume=auto", r.options.Out)
	}
	if err := os.MkdirAll(r.options.Out, 0o755); err != nil {
		return nil, usage.Errorf("run directory: %w: choose an --out that can be written", err)
	}
	// The ledger's lock comes first: of two processes that begin here, one writes its settings.
	if err := r.openLedger(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(r.path(fileConfig)); errors.Is(err, fs.ErrNotExist) {
		yaml, err := r.plan.Config.YAML()
		if err != nil {
			return nil, err
		}
		if l := r.plan.Config.label(); l != "" {
			yaml = append([]byte("# "+l+"\n"), yaml...)
		}
		if err := durable.WriteFile(r.path(fileConfig), func(w io.Writer) error { _, err := w.Write(yaml); return err }); err != nil {
			return nil, err
		}
	}
	if err := r.openEngine(); err != nil {
		return nil, err
	}
	if err := r.restore(); err != nil {
		return nil, err
	}
	return nil, r.openLogs()
}

// find says whether the directory holds a run, and refuses to continue one whose
// configuration differs.
func (r *run) find(entries []os.DirEntry) (bool, error) {
	path := r.path(fileConfig)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		for _, e := range entries {
			// A run that was killed before it had written its settings may have left a
			// ledger, which says itself whose it is, and a temporary file.
			if e.Name() != fileLedger && !strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), ".tmp") {
				return false, usage.Errorf("%s holds no run to resume, for it has no %s: choose another --out", r.options.Out, fileConfig)
			}
		}
		return false, nil
	}
	var stored Config
	if err := ReadConfig(path, &stored); err != nil {
		return false, err
	}
	return true, r.plan.Config.matches(stored, path)
}

// complete refuses a run of which a file is gone without which going on would spend
// unknown budget, or overwrite a model that nothing brings back.
func (r *run) complete() error {
	state := statePath(r.options.Out)
	for _, part := range []struct {
		path, why string
		released  []string
	}{
		{r.path(fileLedger), "no ledger, so what was spent is unknown", []string{state, r.path(fileModel), r.path(fileMetrics)}},
		{state, "no checkpoint to go on from, and a run from the beginning would overwrite it", []string{r.path(fileModel), r.path(fileAverage)}},
	} {
		if holds(part.path) {
			continue
		}
		if i := slices.IndexFunc(part.released, holds); i >= 0 {
			return usage.Errorf("%s has %s but %s: restore %s, or start a new run in another directory", r.options.Out, filepath.Base(part.released[i]), part.why, part.path)
		}
	}
	return nil
}

// holds reports whether there is something in a file.
func holds(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.Size() > 0
}

func (r *run) openLedger() error {
	h := ledger.Header{Fingerprint: r.plan.fingerprint, Committed: r.plan.slots()}
	path := r.path(fileLedger)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if h.RunID = r.options.RunID; h.RunID == "" {
			id := make([]byte, 16)
			if _, err := rand.Read(id); err != nil {
				return fmt.Errorf("the operating system gives no randomness: %w", err)
			}
			h.RunID = hex.EncodeToString(id)
		}
	}
	var err error
	r.ledger, err = ledger.Open(path, h)
	if errors.Is(err, ledger.ErrMismatch) || errors.Is(err, ledger.ErrInUse) || errors.Is(err, ledger.ErrCorrupt) {
		return usage.Wrap(err)
	}
	if err != nil {
		return err
	}
	r.runID = r.ledger.Header().RunID
	return nil
}

func (r *run) openEngine() error {
	p := r.plan
	var err error
	loss, classes := p.Network.Program.Loss, p.Set.Classes
	if r.data, err = Load(r.device, p.Set.Train, loss, classes); err != nil {
		return err
	}
	keys, err := p.keys()
	if err != nil {
		return err
	}
	if r.sampler, err = p.Sampler(p.Set.Train.Len(), keys.sampling); err != nil {
		return err
	}
	if r.noise, err = p.Stream(keys.noise); err != nil {
		return err
	}
	if r.engine, err = p.Engine(r.device, r.data, r.noise); err != nil {
		return err
	}
	if p.Config.searches() {
		if err := r.openSearch(r.noise); err != nil {
			return err
		}
	}
	if err := r.openProtection(); err != nil {
		return err
	}
	if p.Set.TestIsPublic {
		if r.test, err = Load(r.device, p.Set.Test, loss, classes); err != nil {
			return err
		}
		if r.score, err = r.engine.Scorer(r.test); err != nil {
			return err
		}
		if r.scoreAverage, err = r.engine.averageScorer(r.test); err != nil {
			return err
		}
	}
	if p.Config.TrainLossNoise != nil {
		m := func(device.Net) (mechanism.Mechanism, error) { return p.lossMechanism(r.noise) }
		if r.trainLoss, err = r.engine.LossQuery(r.data, m, 1); err != nil {
			return err
		}
	}
	if p.Config.PrivateDiagnostics || p.Config.DataIsPublic {
		r.scoreTrain, err = r.engine.Scorer(r.data)
	}
	return err
}

// restore sets parameters and position: from the checkpoint if there is one,
// else from the initialisation.
func (r *run) restore() error {
	r.params = r.plan.Network.Params()
	for _, s := range r.engine.State() {
		r.state = append(r.state, make([]float32, s.Width*len(r.params)))
	}
	average, averages := r.engine.average()
	if averages {
		r.average = slices.Clone(r.params)
	}
	c, err := readCheckpoint(r.options.Out, len(r.params), r.engine.State())
	if err != nil {
		return err
	}
	charged := r.ledger.Charged()
	if c == nil && charged > 0 {
		// A checkpoint is there before the first step is charged.
		return usage.Errorf("%s: steps were charged, and the checkpoint to go on from is gone: restore %s, or start a new run in another directory", r.options.Out, statePath(r.options.Out))
	}
	if c != nil {
		if c.runID != r.runID {
			return usage.Errorf("%s: checkpoint and ledger belong to different runs; restore the matching pair, or start a new run in another directory", r.options.Out)
		}
		if c.slot > charged && !r.plan.filtered() {
			return usage.Errorf("%s: the checkpoint is ahead of the ledger, which an older copy must have replaced; restore the ledger, or start a new run in another directory", r.options.Out)
		}
		if a := r.engine.adapt; a != nil {
			if err := a.Rule.Validate(c.clip); err != nil {
				return usage.Errorf("%s: the checkpoint is not one of this run's: %w; restore the file, or start a new run in another directory", r.options.Out, err)
			}
			a.Clip = c.clip
		}
		if averages != (c.average != nil) {
			return usage.Errorf("%s: the checkpoint is not one of this run's: restore the file, or start a new run in another directory", r.options.Out)
		}
		if err := errors.Join(r.restoreSearch(c), r.restoreProtection(c)); err != nil {
			return err
		}
		r.params, r.state, r.average, r.step, r.slot = c.params, c.state, c.average, c.step, c.slot
		for i, s := range r.engine.State() {
			if err := r.engine.net.Write(s.Vector, r.state[i]); err != nil {
				return err
			}
		}
	}
	if r.slot < charged && r.plan.Config.Noise != noiseSeeded && !r.plan.filtered() {
		// What was lost stays spent: fresh noise goes on in fresh slots.
		r.options.Log.Warn(fmt.Sprintf("an earlier process ended without saving; %d charged steps of the schedule are lost and fewer updates will run", charged-r.slot))
		r.slot = charged
	}
	if averages {
		if err := r.engine.net.Write(average, r.average); err != nil {
			return err
		}
	}
	if err := r.engine.SetParams(r.params); err != nil {
		return err
	}
	return r.assume(c)
}

// assume joins what this process rests on to what those before did, and has it on the
// disk before anything is released: a result rests on all that led to it.
func (r *run) assume(c *checkpoint) error {
	var stored []string
	if c != nil {
		stored = c.assumptions
	}
	r.assumptions = append([]string{}, stored...)
	also := r.plan.assumptions()
	if c != nil && stored == nil && r.plan.Config.Noise != noiseExact {
		// Noise was of floating-point numbers when assumptions were not kept.
		also = append(also, realArithmetic)
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

func (r *run) openLogs() error {
	var err error
	open := func(path string) (*durable.Log, error) {
		l, err := durable.OpenLog(path)
		if err != nil {
			return nil, err
		}
		return l, l.Rewrite(func(line []byte) bool {
			var e evaluation
			keep := json.Unmarshal(line, &e) == nil && e.Step <= r.step
			if keep {
				r.last = &e
			}
			return keep
		})
	}
	if r.plan.Config.PrivateDiagnostics {
		dir, err := privateDir(r.options.Out)
		if err != nil {
			return err
		}
		if r.diagnostics, err = open(filepath.Join(dir, fileDiagnostics)); err != nil {
			return err
		}
	}
	r.last = nil // what is kept of the metrics decides where the run stands
	r.metrics, err = open(r.path(fileMetrics))
	return err
}

// privateDir makes RUN.private, beside the run directory and for its owner's
// eyes only, also where it was there before.
func privateDir(out string) (string, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return "", fmt.Errorf("private diagnostics: %w", err)
	}
	if filepath.Dir(out) == out {
		return "", usage.Errorf("private diagnostics need a run directory with a name, --out is %s", out)
	}
	dir := out + suffixPrivate
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("private diagnostics: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", fmt.Errorf("private diagnostics: %w", err)
	}
	return dir, nil
}

// fillGraph gives a finished run's parameters to the network's graph.
func (r *run) fillGraph() error {
	params, err := readModel(r.path(fileModel), r.plan.Network.Program)
	if err != nil {
		return err
	}
	return r.plan.Network.SetParams(params)
}

// train runs what is left of the committed schedule, in blocks that the ledger
// reserves first and settles after the checkpoint.
func (r *run) train(ctx context.Context) error {
	p := r.plan
	if r.options.Progress != nil {
		r.options.Progress.Start(p.Steps)
		defer r.options.Progress.Finish()
	}
	for r.slot < p.Steps && ctx.Err() == nil {
		n := min(r.block(), p.Steps-r.slot)
		reserved := false
		if lost := r.ledger.Charged() - r.slot; lost > 0 {
			n = min(n, lost) // a seeded run replays what its ledger already charges
		} else {
			first, err := r.ledger.Reserve(n)
			if err != nil {
				return err
			}
			if first != r.slot {
				return fmt.Errorf("the ledger reserved from slot %d, the run stands at %d; resume the run", first, r.slot)
			}
			reserved = true
		}
		first := r.slot
		for r.slot < first+n && ctx.Err() == nil {
			if err := r.one(); err != nil {
				return err
			}
		}
		if err := r.save(); err != nil {
			return err
		}
		if reserved {
			if err := r.ledger.Settle(r.slot - first); err != nil {
				return err
			}
		}
	}
	if r.ran == 0 { // no block has saved: an earlier process may have died before it did
		if err := r.save(); err != nil {
			return err
		}
	}
	if r.slot < p.Steps {
		return fmt.Errorf("%w after %d of %d steps and saved; continue with the same flags and --resume --out %s", ErrInterrupted, r.step, p.Steps, r.options.Out)
	}
	return nil
}

// A slot's batches and noise positions, in the order in which they are drawn.
const (
	positionUpdate = iota
	positionSearch
	positionLoss
	positions
)

// position numbers them; noise positions count from 1.
func (r *run) position(what uint64) (batch, draw uint64) {
	n := positions*uint64(r.slot) + what
	return n, n + 1
}

// releases says that noise is about to be drawn, for tests.
func (r *run) releases() error {
	if r.options.onRelease == nil {
		return nil
	}
	return r.options.onRelease(r.slot)
}

func (r *run) block() int {
	if r.options.block > 0 {
		return r.options.block
	}
	return r.plan.block
}

// one is one slot of the schedule: a fresh batch, one release, one update.
func (r *run) one() error {
	p := r.plan
	update := r.update
	if r.searcher != nil {
		update = r.searchSlot
	}
	if err := update(); err != nil {
		return fmt.Errorf("step %d: %w", r.step+1, err)
	}
	var loss *float64
	if p.evaluates(r.slot+1) && r.trainLoss != nil {
		var err error
		if loss, err = r.noisyLoss(); err != nil {
			return fmt.Errorf("training loss after step %d: %w", r.step+1, err)
		}
	}
	r.slot++
	r.step++
	r.ran++
	if p.evaluates(r.slot) {
		if err := r.evaluate(loss); err != nil {
			return err
		}
	}
	if r.options.Progress != nil {
		// Both as of the last evaluation: accounting for every step would take
		// longer than the steps.
		var epsilon, accuracy *float64
		if r.last != nil {
			epsilon, accuracy = r.last.EpsilonSoFar, r.last.TestAccuracy
		}
		r.options.Progress.Step(r.slot, epsilon, accuracy)
	}
	return nil
}

// update is a slot of an optimizer whose step sizes are fixed before the run.
func (r *run) update() error {
	batch, draw := r.position(positionUpdate)
	r.rows = r.sampler.Batch(batch, r.rows[:0])
	if err := r.releases(); err != nil {
		return err
	}
	r.engine.Rate = r.rateAt(r.slot + 1)
	return r.engine.Step(r.rows, draw, r.step+1)
}

// noisyLoss releases the mean of a fresh batch's clipped losses, over the
// public expected batch; the slot's reservation has paid for it.
func (r *run) noisyLoss() (*float64, error) {
	batch, draw := r.position(positionLoss)
	sum, err := r.trainLoss(r.sampler.Batch(batch, r.rows[:0]), draw)
	if err != nil {
		return nil, err
	}
	return finite(sum[0] / r.plan.ExpectedBatch), nil
}

// save writes the checkpoint and the model as they stand.
func (r *run) save() error {
	if err := r.engine.Wait(); err != nil {
		return err
	}
	if err := r.engine.Params(r.params); err != nil {
		return err
	}
	for i, s := range r.engine.State() {
		if err := r.engine.net.Read(s.Vector, r.state[i]); err != nil {
			return err
		}
	}
	if v, ok := r.engine.average(); ok {
		if err := r.engine.net.Read(v, r.average); err != nil {
			return err
		}
	}
	if err := r.settle(); err != nil {
		return err
	}
	if err := r.saveCheckpoint(); err != nil {
		return err
	}
	label := r.plan.Config.label()
	if r.average != nil {
		if err := writeModel(r.path(fileAverage), r.plan.Network.Program, r.average, label); err != nil {
			return err
		}
	}
	return writeModel(r.path(fileModel), r.plan.Network.Program, r.params, label)
}

// saveCheckpoint writes what was last read of the engine.
func (r *run) saveCheckpoint() error {
	c := checkpoint{
		runID: r.runID, step: r.step, slot: r.slot, params: r.params, state: r.state, average: r.average,
		assumptions: r.assumptions, label: r.plan.Config.label(),
	}
	if err := errors.Join(r.saveSearch(&c), r.saveProtection(&c)); err != nil {
		return err
	}
	if a := r.engine.adapt; a != nil {
		c.clip = a.Clip
	}
	return c.write(r.options.Out)
}

// evaluation is a line of metrics.jsonl.
type evaluation struct {
	Step            int      `json:"step"`
	EpsilonSoFar    *float64 `json:"epsilon_so_far"`
	NotPrivate      string   `json:"not_private,omitempty"` // why, where ε is none
	TestLoss        *float64 `json:"test_loss"`
	TestAccuracy    *float64 `json:"test_accuracy"`
	AverageLoss     *float64 `json:"average_test_loss,omitempty"` // of the average of the parameters, where one is kept
	AverageAccuracy *float64 `json:"average_test_accuracy,omitempty"`
	LR              *float64 `json:"lr"`             // of the last step; nil where there is none
	Clip            *float64 `json:"clip,omitempty"` // of the next step, where it moves
	TrainLoss       *float64 `json:"train_loss"`
	TrainAccuracy   *float64 `json:"train_accuracy,omitempty"`
}

// evaluate adds a line to the metrics; loss is the noisy training loss, if any.
func (r *run) evaluate(loss *float64) error {
	e := &evaluation{Step: r.step, EpsilonSoFar: r.epsilonSoFar(r.slot), NotPrivate: r.plan.Config.label(), TrainLoss: loss}
	if r.plan.Config.LR != nil {
		e.LR = finite(r.rateAt(r.slot))
	}
	if a := r.engine.adapt; a != nil {
		clip := a.Clip
		e.Clip = &clip
	}
	if c := &r.plan.Config; c.filtered() && *c.Search.Shrink > 0 {
		clip := c.Clip * r.searcher.state.Adaptive.Budgets.Clip
		e.Clip = &clip
	}
	if r.score != nil {
		s, err := r.score()
		if err != nil {
			return fmt.Errorf("evaluation after step %d: %w", r.step, err)
		}
		e.TestLoss, e.TestAccuracy = means(s)
	}
	if r.scoreAverage != nil {
		s, err := r.scoreAverage()
		if err != nil {
			return fmt.Errorf("evaluation of the average after step %d: %w", r.step, err)
		}
		e.AverageLoss, e.AverageAccuracy = means(s)
	}
	if r.scoreTrain != nil {
		s, err := r.scoreTrain()
		if err != nil {
			return fmt.Errorf("evaluation after step %d: %w", r.step, err)
		}
		loss, accuracy := means(s)
		if r.plan.Config.DataIsPublic {
			e.TrainLoss, e.TrainAccuracy = loss, accuracy
		}
		if r.diagnostics != nil {
			if err := appendJSON(r.diagnostics, diagnostic{true, r.step, len(r.rows), loss, accuracy}); err != nil {
				return err
			}
		}
	}
	r.last = e
	return appendJSON(r.metrics, e)
}

// diagnostic is a line of RUN.private: computed from training records without
// noise, for their owner's eyes only.
type diagnostic struct {
	Private       bool     `json:"private"`
	Step          int      `json:"step"`
	RealisedBatch int      `json:"realised_batch"`
	TrainLoss     *float64 `json:"train_loss"`
	TrainAccuracy *float64 `json:"train_accuracy"`
}

func appendJSON(l *durable.Log, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.Append(b)
}

// means gives the average loss and accuracy of a score, nil where undefined.
func means(s device.Score) (loss, accuracy *float64) {
	if s.Count == 0 {
		return nil, nil
	}
	loss = finite(s.Loss / float64(s.Count))
	if s.Confusion != nil {
		accuracy = finite(float64(s.Correct) / float64(s.Count))
	}
	return loss, accuracy
}

// finite is x for JSON: null where it is no number.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// finish writes the picture and, last, the result that marks a run as done.
func (r *run) finish() (*Result, error) {
	if r.last == nil || r.last.Step != r.step {
		if err := r.evaluate(nil); err != nil {
			return nil, err
		}
	}
	if err := drawAccuracy(r.path(fileMetrics), r.path(filePicture), r.plan); err != nil {
		r.options.Log.Warn(fmt.Sprintf("the picture could not be drawn: %v", err))
		os.Remove(r.path(filePicture)) // an older one would belie this run
	}
	result := r.result()
	b, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return nil, err
	}
	return result, durable.WriteFile(r.path(fileResult), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// readResult gives nil where a run has not finished.
func readResult(path string) (*Result, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r Result
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, usage.Errorf("%s cannot be read: %w; restore it, or start a new run in another directory", path, err)
	}
	if r.Run == "" {
		return nil, usage.Errorf("%s is not what a run writes: restore it, or start a new run in another directory", path)
	}
	return &r, nil
}
