package tune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/train"
)

// release copies the best trial into the run directory, its result last, and has it reported.
func (t *tuning) release(best finalist) (*train.Result, error) {
	var r train.Result
	if finished, err := best.dir.ReadResult(&r); err != nil || !finished {
		return nil, t.hide(errors.Join(err, errors.New("a trial has lost its result")))
	}
	if err := t.copy(best.dir); err != nil {
		return nil, t.hide(err)
	}
	tuning := t.Tuning
	if !best.none {
		tuning.Chosen = t.Candidates[best.choice].Chosen
	}
	r.Recipe = t.plans[best.choice].Recipe // which has filled in what the trial was given
	r.Run, r.Asked, r.TuningCharged, r.Tuning = t.Out, &t.Asked, true, &tuning
	for _, a := range t.Assumptions { // the price rests on all of them
		if !slices.Contains(r.Assumptions, a) {
			r.Assumptions = append(r.Assumptions, a)
		}
	}
	r.Released = append(r.Released, rundir.Tuning)
	var err error
	if r.Digests, err = t.dir.Digests(); err != nil {
		return nil, err
	}
	t.at("copied")
	if err := t.dir.WriteResult(&r); err != nil {
		return nil, err
	}
	t.at("released")
	return &r, t.report(&r)
}

// left are files of a trial that stay where they are: its result is completed, and where it was made tells its number.
var left = []string{rundir.Result, rundir.Processes}

// copy brings the files of a trial into the run directory, as they would be if it had been made there.
func (t *tuning) copy(from rundir.Dir) error {
	root := from.Path(".")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || slices.Contains(left, name) || !d.Type().IsRegular() {
			return err
		}
		if err := rundir.Dir(filepath.Dir(t.dir.Path(name))).Make(); err != nil {
			return err
		}
		t.at("copying")
		return durable.WriteFile(t.dir.Path(name), func(w io.Writer) error {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(w, f)
			return err
		})
	})
	if err != nil {
		return err
	}
	if noted, _ := os.ReadFile(t.dir.Path(rundir.Processes)); bytes.HasSuffix(noted, []byte("\n")) { // before a kill
		return nil
	}
	_, err = t.dir.Begin()
	return err
}

// report tells of the released evaluations, and has the run reported, where that was not done.
func (t *tuning) report(r *train.Result) (err error) {
	if r.Evaluations, err = rundir.ReadMetrics[train.Measurement](t.dir); err != nil {
		return err
	}
	if t.Report == nil || slices.ContainsFunc(t.Report.Files(r), func(name string) bool { return slices.Contains(r.Released, name) }) {
		return nil
	}
	for _, m := range r.Evaluations {
		m.Run = t.Out
		for _, w := range t.Watch {
			w.Evaluated(m)
		}
	}
	var names []string
	err = t.Report.Write(t.Out)
	for _, name := range t.Report.Files(r) {
		if t.dir.IsFile(name) {
			names = append(names, name)
		}
	}
	r.Released = append(r.Released, names...)
	if err = errors.Join(err, t.dir.Release(names)); err != nil {
		return fmt.Errorf("the tuning in %s is complete and saved; but %w: %v: put that right, then make it by `privgrad report %[1]s`", t.Out, train.ErrReport, err)
	}
	return nil
}

// once stops a run before its first step.
type once struct{ stop context.CancelFunc }

func (o once) Start(int)                    { o.stop() }
func (o once) Step(int, *float64, *float64) {}
func (o once) Finish()                      {}

// initial is the trial of a tuning without one: the model with which the first choice of the grid begins. It depends on no record.
func (t *tuning) initial(ctx context.Context) (rundir.Dir, error) {
	dir, c := t.trial(0), t.configs[0]
	var r train.Result
	if finished, err := dir.ReadResult(&r); err != nil || finished {
		return dir, err
	}
	own, stop := context.WithCancel(ctx)
	defer stop()
	_, err := train.Run(own, c, train.Options{Sources: t.Sources, Out: string(dir), Resume: train.ResumeAuto, Priced: t.priced, Progress: once{stop}})
	if !errors.Is(err, train.ErrInterrupted) || ctx.Err() != nil {
		return dir, errors.Join(err, ctx.Err())
	}
	p, err := plan.Resolve(c, plan.Options{Sources: t.Sources, Facts: true})
	if err != nil {
		return dir, err
	}
	t.priced(p)
	steps := p.Steps
	r = train.Result{
		Dataset: c.Data, DatasetSource: p.Set.Source, Model: p.Config.Model, Parameters: p.Network.Program.NumParams(), Optimizer: c.Optimizer,
		Device: c.Device, Precision: c.Precision, Threads: max(c.Threads, 1), Committed: &steps,
		Sampling: p.Kind.Name, SamplingRate: p.SamplingRate, ExpectedBatch: p.ExpectedBatch, PublicN: p.PublicN,
		Clipping: &p.Config.Clipping, Clip: &p.Config.Clip, NoiseMultiplier: p.NoiseMultiplier(),
		Claim: p.Guarantee, Recipe: p.Recipe, DefaultsFrom: p.DefaultsFrom,
		Released: []string{rundir.Model, rundir.Checkpoints, rundir.Metrics, rundir.Result},
		Classes:  p.Set.ClassNames, Seconds: 1,
	}
	r.EpsilonSoFar = r.Epsilon
	if r.Events, err = p.Events(); err != nil {
		return dir, err
	}
	return dir, dir.WriteResult(&r)
}
