package engine

import (
	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/usage"
)

// Report stands for one client: the record at the slot's place among the public number of them. A place
// without a record reports as one whose gradient is zero.
func (e *Engine) Report(point []float64) ([]float64, error) {
	m, err := e.localMechanism()
	if err != nil {
		return nil, err
	}
	table, err := e.table()
	if err != nil {
		return nil, err
	}
	if err := e.admit(dpoptim.Reports, m.Event()); err != nil {
		return nil, err
	}
	_, draw := e.c.Supply.Batch(dpoptim.Reports, true, nil)
	report := make([]float64, len(point))
	table.RecordGradient(batches.InTurn(e.Slot(), e.c.Facts.Records), point, report)
	return report, m.Report(report, draw)
}

func (e *Engine) localMechanism() (mechanism.Local, error) {
	r, err := e.release(dpoptim.Reports, nil)
	if err != nil || e.local != nil {
		return e.local, err
	}
	noise, ok := r.Noise.(accountant.Pure)
	if !ok {
		return nil, e.unfit(dpoptim.Reports, r)
	}
	e.local, err = mechanism.NewLocal(noise, r.Bound, r.Radius, e.c.Facts.Params, e.c.Noise, gradientNoise)
	return e.local, usage.Wrap(err)
}
