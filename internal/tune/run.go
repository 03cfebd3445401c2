package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/privgrad/privgrad/accountant/ledger"
	"github.com/privgrad/privgrad/internal/budget"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/fault"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/train"
)

// Options is what a caller supplies beside the configuration.
type Options struct {
	Grid, Trials string
	Sources      map[string]source.Source
	Out          string // run directory; empty: runs/<UTC>-<data>-tuned
	Resume       train.Resume
	Log          *slog.Logger // receives warnings; nil: nobody does
	// Watch and Report get what is released, when all trials are made.
	Watch  []train.Watcher
	Report train.Reporter

	// draws replace what chance decides, repeat allows seeded noise, and at is told of the points at which a process may
	// be killed, for tests.
	draws  []draw
	repeat bool
	at     func(point string)
	runID  string
}

// A tuning is one that goes on.
type tuning struct {
	Options
	*Plan
	dir, private rundir.Dir
	ledger       *ledger.Ledger
	priced       func(*plan.Plan)
}

// state is what OUT.private keeps of a tuning: all that chance has decided.
type state struct {
	Private bool   `json:"private"`
	Run     string `json:"run"`
	Draws   []draw `json:"draws"`
}

// The files of OUT.private.
const (
	stateFile = "tuning.json"
	errorFile = "error.txt"
	trialsDir = "trials"
)

// Run tunes as configured, and writes the run directory of the released trial. Before the first trial it charges the whole price.
// Until the last one has ended, the directory has the plan of the tuning and its charge, and nothing that depends on the data.
// After ErrInterrupted, by errors.Is, the same call with train.ResumeAuto goes on.
func Run(ctx context.Context, c config.Config, o Options) (_ *train.Result, err error) {
	defer fault.Recover(&err)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.at == nil {
		o.at = func(string) {}
	}
	p, err := makePlan(c, o.Grid, o.Trials, o.Sources, o.repeat)
	if err != nil {
		return nil, err
	}
	t := &tuning{Options: o, Plan: p}
	defer func() {
		if t.ledger != nil {
			err = errors.Join(err, t.ledger.Close())
		}
	}()
	if done, err := t.enter(); err != nil || done != nil {
		return done, err
	}
	s, err := t.begin()
	if err != nil {
		return nil, err
	}
	best, err := t.try(ctx, s.Draws)
	if err != nil {
		return nil, err
	}
	return t.release(best)
}

// enter finds the place of the tuning, or gives the result of one that has ended. Nothing is written yet.
func (t *tuning) enter() (*train.Result, error) {
	if t.Out == "" {
		if t.Resume == train.ResumeRun {
			return nil, usage.Errorf("--resume needs the directory of a tuning: name it by --out")
		}
		t.Out = filepath.Join("runs", time.Now().UTC().Format("20060102T150405Z")+"-"+t.plans[0].Set.Name+"-tuned")
	}
	t.dir = rundir.Dir(t.Out)
	_, anything, err := t.dir.Find()
	if err != nil {
		return nil, err
	}
	begun, err := os.ReadFile(t.dir.Path(rundir.Tuning))
	switch {
	case errors.Is(err, fs.ErrNotExist) && anything, err == nil && t.Resume == train.ResumeNever:
		return nil, usage.Errorf("run directory %s is not empty: choose another --out, or continue a tuning that is there by the same command with --resume", t.dir)
	case errors.Is(err, fs.ErrNotExist) && t.Resume == train.ResumeRun:
		return nil, usage.Errorf("%s holds no tuning to resume: name its directory by --out, or start one there by --resume=auto", t.dir)
	case err == nil && !bytes.Equal(begun, t.text):
		return nil, usage.Errorf("the tuning in %s has another grid or other settings: resume it by the same command that began it, or choose another --out", t.dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, usage.Errorf("%s cannot be read (%w)", t.dir.Path(rundir.Tuning), usage.Cause(err))
	}
	var done train.Result
	if finished, err := t.dir.ReadResult(&done); err != nil || finished {
		if err == nil {
			done.Claim.Asked = &t.Asked
			t.Log.Info(fmt.Sprintf("the tuning in %s had finished; this is its result, and nothing was trained", t.dir))
			err = t.report(&done)
		}
		return &done, err
	}
	if begun == nil {
		if err := t.ask(); err != nil {
			return nil, err
		}
	}
	if path := source.Absent(t.configs[0]); path != "" {
		return nil, usage.Errorf("%s does not exist: nothing was charged", path)
	}
	// A file that cannot be read ends the tuning here, where it has cost nothing.
	if _, err := plan.Resolve(t.configs[0], plan.Options{Sources: t.Sources}); err != nil {
		return nil, err
	}
	t.priced, err = t.Priced()
	return nil, err
}

// begin charges the whole price, and gives what chance has decided: before the charge, and once.
func (t *tuning) begin() (*state, error) {
	for _, w := range t.Warnings {
		t.Log.Warn(w)
	}
	if err := t.dir.Make(); err != nil {
		return nil, err
	}
	h := ledger.Header{Fingerprint: digest(t.text), Committed: 1}
	if !t.dir.Has(rundir.Charged) {
		h.RunID = t.runID
		var err error
		if h.RunID == "" {
			if h.RunID, err = ledger.NewRunID(); err != nil {
				return nil, err
			}
		}
	}
	var err error
	if !t.dir.Has(rundir.Tuning) {
		if err = t.dir.Write(rundir.Tuning, t.text); err != nil {
			return nil, err
		}
	}
	t.at("recorded")
	if t.ledger, err = ledger.Open(t.dir.Path(rundir.Charged), h); err != nil {
		return nil, usage.Wrap(err)
	}
	if err := t.dir.Sweep(); err != nil {
		return nil, err
	}
	t.at("opened")
	if t.private, err = t.dir.Private(); err != nil {
		return nil, err
	}
	s, err := t.decide(t.ledger.Header().RunID)
	if err != nil {
		return nil, err
	}
	t.at("decided")
	paid, err := budget.PayBill(t.configs[0].Budget, t.bill, t.dir, filepath.Base(t.dir.Path(".")), s.Run)
	if err != nil {
		return nil, err
	}
	if paid != nil {
		t.Log.Info(paid.Notice())
		if err := paid.Keep(t.dir); err != nil {
			return nil, err
		}
	}
	t.at("paid")
	if t.ledger.Charged() == 0 {
		if _, err := t.ledger.Reserve(1); err != nil {
			return nil, err
		}
	}
	t.at("charged")
	t.Log.Info(fmt.Sprintf("the whole price, ε = %.4g, is charged; now a secret number of trials is made, %.3g on average. Nothing is shown until the last one has ended", t.Epsilon, t.Expected))
	return s, nil
}

// decide draws what chance decides, or reads what it has decided.
func (t *tuning) decide(run string) (*state, error) {
	b, err := os.ReadFile(t.private.Path(stateFile))
	var s state
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &s); err != nil {
			return nil, usage.Errorf("%s cannot be read (%w): restore it, or tune anew in another directory", t.private.Path(stateFile), err)
		}
		if s.Run == run {
			return &s, nil
		}
		return nil, usage.Errorf("%s is of another tuning: move it away, or choose another --out", t.private)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, usage.Errorf("%s cannot be read (%w)", t.private.Path(stateFile), usage.Cause(err))
	case t.ledger.Charged() > 0: // it was there before the charge
		return nil, usage.Errorf("%s is gone, and with it the number of trials of the tuning: restore it, or tune anew in another directory, which is charged anew", t.private.Path(stateFile))
	}
	s = state{Private: true, Run: run, Draws: t.draws}
	if t.draws == nil {
		if s.Draws, err = drawTrials(t.selection.Trials, len(t.configs)); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return &s, t.private.Write(stateFile, append(text, '\n'))
}

// trial is the directory of one; its number stays secret, as its path does.
func (t *tuning) trial(n int) rundir.Dir {
	return rundir.Dir(t.private.Path(filepath.Join(trialsDir, fmt.Sprintf("%06d", n))))
}

// A finalist is the best of some trials, or the initial model where there was none.
type finalist struct {
	dir    rundir.Dir
	none   bool
	choice int
	score  float64
	lot    uint64
}

// try makes all trials, and finds the best. What it shows, also of a failure, is the same for any number of trials.
func (t *tuning) try(ctx context.Context, draws []draw) (best finalist, err error) {
	if len(draws) == 0 {
		best.none = true
		best.dir, err = t.initial(ctx)
		return best, t.hide(err)
	}
	for i, d := range draws {
		if d.Choice < 0 || d.Choice >= len(t.configs) {
			return best, usage.Errorf("%s is not what a tuning writes: restore it", t.private.Path(stateFile))
		}
		dir := t.trial(i)
		r, err := t.make(ctx, dir, d.Choice)
		if err != nil {
			return best, t.hide(err)
		}
		t.at("tried")
		score := t.scored(r)
		if best.dir == "" || score > best.score || score == best.score && d.Lot > best.lot {
			best = finalist{dir: dir, choice: d.Choice, score: score, lot: d.Lot}
		}
	}
	return best, nil
}

// make makes one trial, or reads the result of one that was made.
func (t *tuning) make(ctx context.Context, dir rundir.Dir, choice int) (*train.Result, error) {
	var r train.Result
	if finished, err := dir.ReadResult(&r); err != nil || finished {
		return &r, err
	}
	return train.Run(ctx, t.configs[choice], train.Options{Sources: t.Sources, Out: string(dir), Resume: train.ResumeAuto, Priced: t.priced})
}

// scored is what trials are compared by, the larger the better. A trial without its figure, as its model is not finite or as its
// loss was lost to a crash, is worse than all that have one.
func (t *tuning) scored(r *train.Result) float64 {
	figure, sign := r.TestAccuracy, 1.0
	switch t.Score {
	case testLoss:
		figure, sign = r.TestLoss, -1
	case trainLoss:
		figure, sign = r.TrainLoss, -1
	}
	if figure == nil || math.IsNaN(*figure) {
		return math.Inf(-1)
	}
	return sign * *figure
}

// hide keeps what went wrong in a trial in OUT.private, as it may tell which trial it was.
func (t *tuning) hide(err error) error {
	const again = "the tuning is saved: continue by the same command with --resume"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, train.ErrInterrupted):
		return fmt.Errorf("%w; %s", train.ErrInterrupted, again)
	}
	why := fmt.Sprintf("%s says why", t.private.Path(errorFile))
	if t.private.Write(errorFile, []byte(err.Error()+"\n")) != nil {
		why = "and the reason could not be written: see whether there is space on the disk"
	}
	return fmt.Errorf("a trial could not be made: %s; put that right; %s", why, again)
}
