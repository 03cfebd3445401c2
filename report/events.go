package report

import (
	"errors"
	"os"

	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/internal/tfevents"
	"github.com/privgrad/privgrad/train"
)

// events writes what a run measures for TensorBoard, as a train.Watcher.
type events struct {
	begun bool
	err   error // the first
}

// Evaluated adds an evaluation. The first of a process writes those before, too: a run that
// is resumed has a file of exactly the lines of its metrics, none twice.
func (e *events) Evaluated(m train.Measurement) {
	if e.err != nil {
		return
	}
	path := rundir.Dir(m.Run).Path(EventsFile)
	if e.begun {
		e.err = appendTo(path, scalars(m))
		return
	}
	all, err := rundir.ReadMetrics[train.Measurement](rundir.Dir(m.Run))
	if err != nil {
		e.err = err
		return
	}
	b := tfevents.Start()
	for _, m := range all {
		b = append(b, scalars(m)...)
	}
	if _, e.err = durable.Regular(path); e.err != nil {
		return
	}
	e.err = overwrite(path, b)
	e.begun = true
}

// scalars is the record of an evaluation: what it released, and nothing else.
func scalars(m train.Measurement) []byte {
	epsilon := "privacy/epsilon"
	if m.NotPrivate != "" {
		epsilon = "privacy/epsilon (NO GUARANTEE)"
	}
	var all []tfevents.Scalar
	for _, s := range []struct {
		tag   string
		value *float64
	}{
		{"test/accuracy", m.TestAccuracy}, {"test/loss", m.TestLoss},
		{"test/rmse", m.RMSE}, {"test/mae", m.MAE}, {"test/r2", m.R2},
		{"test/auc", m.AUC}, {"test/balanced_accuracy", m.BalancedAccuracy},
		{"test/average_accuracy", m.AverageAccuracy}, {"test/average_loss", m.AverageLoss},
		{epsilon, m.EpsilonSoFar}, {"train/lr", m.LR}, {"train/clip", m.Clip},
		{"train/loss", m.TrainLoss}, {"train/accuracy", m.TrainAccuracy},
	} {
		if s.value != nil {
			all = append(all, tfevents.Scalar{Tag: s.tag, Value: *s.value})
		}
	}
	return tfevents.Step(m.Step, all)
}

func appendTo(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// overwrite leaves the file in its place, for a TensorBoard that is reading it: what a
// resumed run writes begins with what was there.
func overwrite(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Truncate(int64(len(b))), f.Close())
}
