package train

import (
	"encoding/json"
	"math"
	"time"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/outputs"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/price"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/scoring"
)

// A Measurement is what an evaluation during a run found, a line of metrics.jsonl.
type Measurement struct {
	Run             string        `json:"-"` // its directory, for a Watcher
	Elapsed         time.Duration `json:"-"` // since the clock of Result.Seconds began, in whole tens of seconds, for a Watcher
	Step            int           `json:"step"`
	Epoch           float64       `json:"epoch"` // passes over the data so far: steps times the sampling rate
	EpsilonSoFar    *float64      `json:"epsilon_so_far"`
	NotPrivate      string        `json:"not_private,omitempty"` // why, where ε is none
	TestLoss        *float64      `json:"test_loss"`
	TestAccuracy    *float64      `json:"test_accuracy"`
	AverageLoss     *float64      `json:"average_test_loss,omitempty"` // of the average of the parameters, where one is kept
	AverageAccuracy *float64      `json:"average_test_accuracy,omitempty"`
	LR              *float64      `json:"lr"`             // of the last step; nil where there is none
	Clip            *float64      `json:"clip,omitempty"` // of the next step, where it moves
	TrainLoss       *float64      `json:"train_loss"`
	TrainAccuracy   *float64      `json:"train_accuracy,omitempty"`
	Figures
	// Confusion counts the public test records of a class (row) by the class that they were
	// taken for (column); nil of a regression, and of very many classes.
	Confusion [][]int `json:"confusion,omitempty"`
}

// Figures, of public test records: Errors of a regression in the units of its label, AUC and BalancedAccuracy of two classes; else nil.
type Figures = outputs.Figures

// mostConfused is the number of classes up to which every evaluation keeps a confusion matrix.
const mostConfused = 100

// evaluator measures a run as it goes, on public data and by released values.
type evaluator struct {
	metrics     *rundir.Log
	diagnostics *rundir.Log
	scorer      scoring.Scorer
	trainLoss   func(rows []int32, draw uint64) (float64, error)

	last     *Measurement
	measured []Measurement // all of the run's, last among them
}

// openLogs opens the metrics, and keeps of them the lines up to a step.
func (e *evaluator) openLogs(dir rundir.Dir, diagnostics bool, step int) (err error) {
	keep := func(line []byte) bool {
		var m Measurement
		keep := json.Unmarshal(line, &m) == nil && m.Step <= step
		if keep {
			e.last, e.measured = &m, append(e.measured, m)
		}
		return keep
	}
	if diagnostics {
		if e.diagnostics, err = dir.OpenDiagnostics(keep); err != nil {
			return err
		}
	}
	e.last, e.measured = nil, nil // what is kept of the metrics decides where the run stands
	e.metrics, err = dir.OpenMetrics(keep)
	return err
}

// figures are those of the run's method.
func (r *run) figures() dpoptim.Figures {
	if m, ok := r.engine.Steps.(dpoptim.Reporter); ok {
		return m.Figures()
	}
	return dpoptim.Figures{}
}

// clip is the clip norm of the next step, where it moves.
func (r *run) clip() *float64 {
	if a := r.engine.Adaptation; a != nil {
		clip := a.Clip
		return &clip
	}
	if f := r.figures(); f.Clip != 0 {
		clip := r.plan.Config.Clip * f.Clip
		return &clip
	}
	return nil
}

// epsilonSoFar is the ε of what was charged, no less than was said before: of bounds on a
// part and on more, the first may be the larger one.
func (r *run) epsilonSoFar(slots int) *float64 {
	epsilon := r.epsilon(slots)
	if last := r.last; epsilon != nil && last != nil && last.EpsilonSoFar != nil {
		return price.Finite(max(*epsilon, *last.EpsilonSoFar))
	}
	return epsilon
}

// evaluate adds a line to the metrics; loss is the noisy training loss, if any.
func (r *run) evaluate(loss *float64) error {
	c, step, slot := &r.plan.Config, r.step(), r.charge.Slot()
	m := &Measurement{Step: step, Epoch: math.Round(float64(step)*r.plan.SamplingRate*1e4) / 1e4, EpsilonSoFar: r.epsilonSoFar(slot), NotPrivate: plan.Label(c), TrainLoss: loss}
	if c.LR != nil {
		rate := r.plan.Facts.Rate.At(max(slot, 1))
		if f := r.figures(); f.Rate != 0 {
			rate *= f.Rate
		}
		m.LR = price.Finite(rate)
	}
	m.Clip = r.clip()
	scores, err := r.scorer.Test(step)
	if err != nil {
		return err
	}
	m.TestLoss, m.TestAccuracy = plan.Means(scores.Test)
	m.AverageLoss, m.AverageAccuracy = plan.Means(scores.Average)
	if m.Figures = scores.Figures; len(scores.Test.Confusion) <= mostConfused {
		m.Confusion = scores.Test.Confusion
	}
	if c.DataIsPublic || c.PrivateDiagnostics {
		if err := r.evaluateTraining(m); err != nil {
			return err
		}
	}
	r.last, r.measured = m, append(r.measured, *m)
	if err := r.metrics.Append(m); err != nil {
		return err
	}
	told := *m
	told.Run, told.Elapsed = r.options.Out, time.Since(r.started).Truncate(10*time.Second)
	for _, w := range r.options.Watch {
		w.Evaluated(told)
	}
	return nil
}

// evaluateTraining is for public data, and for their owner's eyes.
func (r *run) evaluateTraining(m *Measurement) error {
	s, err := r.scorer.Training(m.Step)
	if err != nil {
		return err
	}
	loss, accuracy := plan.Means(s)
	if r.plan.Config.DataIsPublic {
		m.TrainLoss, m.TrainAccuracy = loss, accuracy
	}
	if r.diagnostics == nil {
		return nil
	}
	return r.diagnostics.Append(rundir.Diagnostic{Private: true, Step: m.Step, RealisedBatch: r.engine.Realised(), TrainLoss: loss, TrainAccuracy: accuracy})
}
