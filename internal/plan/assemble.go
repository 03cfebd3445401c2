package plan

import (
	"cmp"
	"math"
	"runtime"
	"slices"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/batches"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/devices"
	"github.com/privgrad/privgrad/internal/engine"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/tables"
	"github.com/privgrad/privgrad/internal/views"
)

// The parts of a run, as its plan puts them together: for runs, and for audits of
// them, which must test what runs use.

// Sampler draws the batches of a table of n records. The key must be used for
// nothing else.
func (p *Plan) Sampler(n int, key stream.Key) (batches.Sampler, error) {
	return p.Batching.Sampler(n, key, p.cipher())
}

// solved reports whether a solver finds the parameters. It takes the public number of records.
func (p *Plan) solved() bool {
	return slices.ContainsFunc(p.Declaration.Asks, func(a dpoptim.Ask) bool { return a.Question == dpoptim.Fits })
}

// Stream is what the run's mechanisms draw from.
func (p *Plan) Stream(key stream.Key) (*stream.Stream, error) { return stream.New(p.cipher(), key) }

// Words draws the random words of records' views, of a table whose first record has a number among all; nil where nothing of a view
// is random. The key must be used for nothing else.
func (p *Plan) Words(key stream.Key, first int) (*views.Words, error) {
	if len(p.Config.Augment) == 0 {
		return nil, nil
	}
	return views.New(p.cipher(), key, p.Schedule.Views(), first)
}

// Engine puts the network and the method on a device. Its parameters are zero until they are set. The words are those of Words.
func (p *Plan) Engine(d device.Device, records tables.Records, noise *stream.Stream, words *views.Words, s engine.Supply) (*engine.Engine, error) {
	c := &p.Config
	e := engine.Config{
		Method: p.Method, Declaration: p.Declaration, Facts: p.Facts,
		Device: d, Schedule: p.Schedule,
		Options: device.Options{Capacity: p.Capacity, Exact: c.Exact(), CuBLAS: (c.GEMM == devices.GEMMCuBLAS), Precision: p.precision},
		Data:    records.Data, Labels: p.Set.Train.Labels, Classes: p.Set.Classes, Noise: noise,
		Rows: p.mostBatch(), Supply: s, Views: words, Average: c.Average,
	}
	e.Facts.Planned = p.Sigma // which audits put to 0
	if m := p.Facts.Linear; m != nil {
		e.Table = func() (*convex.Table, error) { return p.table(m, records) }
	}
	if c.Adapts() {
		var err error
		if e.Adaptation, err = engine.NewAdaptation(c.Adaptive(), c.Clip, p.ExpectedBatch, noise); err != nil {
			return nil, err
		}
	}
	return engine.Open(e)
}

// table is what solvers of a linear model work on. Features that a device made for itself are made again, on the CPU.
func (p *Plan) table(m *convex.Model, records tables.Records) (*convex.Table, error) {
	norm := p.Config.Norm()
	if norm == 0 {
		norm = math.Inf(1)
	}
	rows, values := records.Rows, records.Values
	if p.Front != nil && rows.Count > 0 && values == nil {
		var err error
		if rows, values, err = p.Reader().Table(p.Set.Train); err != nil {
			return nil, err
		}
	}
	t, err := convex.NewTable(m, rows, values, norm, cmp.Or(p.Config.Threads, runtime.GOMAXPROCS(0)))
	if err != nil {
		return nil, err
	}
	if p.solved() {
		t.Most = p.PublicN
	}
	return t, nil
}
