// Package engine runs a training method on a device. It holds the network, the private
// sums and the mechanisms: what a method asks for was declared, is paid for, and is
// released from the declared value. Nothing else leaves the records.
package engine

import (
	"fmt"
	"time"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/convex"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/views"
)

// Supply is what an engine asks of the run that it is part of: batches, positions
// of the noise, and whether a release may be made.
type Supply interface {
	// Batch draws one for a question, into dst, and gives the noise position that
	// goes with it; with skip there is only the position, since the question is asked of a
	// batch that was drawn.
	Batch(q dpoptim.Question, skip bool, dst []int32) (rows []int32, draw uint64)
	// Admit has the releases of one batch paid for, before their noise exists.
	Admit(asked ...accountant.Mechanism) error

	// These are of dpoptim.Engine.
	Slot() int
	Update() int
	Left() float64
	Stopped() error
}

// Config is all that an engine is made of.
type Config struct {
	Method      dpoptim.Method
	Declaration dpoptim.Declaration
	Facts       dpoptim.Facts

	Device   device.Device
	Schedule *ir.Schedule
	Options  device.Options
	Data     device.Data // the private rows, which stay the caller's to close
	Labels   []uint8     // of the same rows, where they are classes
	// Table gives the same rows to solvers; nil where the network is no linear model.
	Table   func() (*convex.Table, error)
	Classes int
	Noise   *stream.Stream
	Rows    int // the largest batch that the noise covers the rounding of
	Supply  Supply
	Views   *views.Words // of the records in sums of gradients; nil where the schedule has no random maps

	Adaptation *Adaptation // nil where the clip norm stays
	Average    float64     // decay of the average of the parameters, 0 for none
}

// Engine is a network on a device with a method's work recorded on it.
type Engine struct {
	Steps      dpoptim.Steps
	Adaptation *Adaptation

	c        Config
	net      device.Net
	private  device.Sum // of gradients
	sum      device.Step
	gradient device.Vector
	average  *average
	inputs   device.Inputs
	rows     []int32  // of the last batch of a sum
	words    []uint32 // of its records' views
	own      []int32  // of the last batch of another question
	last     device.Step
	declared map[dpoptim.Question]*declared
	paid     []accountant.Mechanism // by the batch of the last sum, and not asked yet
	solved   *convex.Table          // of the records; nil until something is asked of it
	local    mechanism.Local        // nil until a report is asked for
}

// Open compiles the schedule and records the method's work.
func Open(c Config) (*Engine, error) {
	name := c.Device.Info().Name
	net, err := c.Device.Compile(c.Schedule, c.Options)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	e := &Engine{c: c, net: net, Adaptation: c.Adaptation}
	err = e.shared()
	if err == nil {
		err = e.open()
	}
	if err != nil {
		net.Close()
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	return e, nil
}

// mostShared is below what a batch's part of a sum may have before it is cut off: parts of which
// one is cut off do not add up to the whole, wherever its records lie.
const mostShared = 1 << 22

// shared refuses batches that are too large for a sum of several parts.
func (e *Engine) shared() error {
	if e.net.Parts() > 1 && e.c.Rows >= mostShared {
		return usage.Errorf("a batch may have %d records, and with several processes fewer than %d: make batches smaller, or use one process", e.c.Rows, mostShared)
	}
	return nil
}

func (e *Engine) open() (err error) {
	if err = e.declare(); err != nil {
		return err
	}
	if e.private, err = e.net.NewSum(); err != nil {
		return err
	}
	if e.gradient, err = e.net.NewVector(1); err != nil {
		return err
	}
	if e.Adaptation != nil {
		if err := e.Adaptation.open(e.net); err != nil {
			return err
		}
	}
	if e.c.Average != 0 {
		if e.average, err = newAverage(e.net, e.c.Average); err != nil {
			return err
		}
	}
	e.sum, err = e.net.Record(func(q device.Queue) {
		if a := e.Adaptation; a != nil {
			q.CountedSum(e.private, a.private, e.c.Data)
			return
		}
		q.ClippedSum(e.private, e.c.Data)
	})
	if err != nil {
		return err
	}
	e.Steps, err = e.c.Method.Open(view{e})
	return err
}

// view is what a method gets: other methods of the engine cannot be reached.
type view struct{ dpoptim.Engine }

// What follows dpoptim.Engine has described.

func (e *Engine) Facts() dpoptim.Facts                       { return e.c.Facts }
func (e *Engine) Slot() int                                  { return e.c.Supply.Slot() }
func (e *Engine) Update() int                                { return e.c.Supply.Update() }
func (e *Engine) Filtered() bool                             { return e.c.Declaration.Budget.Filtered() }
func (e *Engine) Left() float64                              { return e.c.Supply.Left() }
func (e *Engine) Stopped() error                             { return e.c.Supply.Stopped() }
func (e *Engine) Params() device.Vector                      { return e.net.Params() }
func (e *Engine) Gradient() device.Vector                    { return e.gradient }
func (e *Engine) NewVector(width int) (device.Vector, error) { return e.net.NewVector(width) }
func (e *Engine) NewScalars(n int) (device.Vector, error)    { return e.net.NewScalars(n) }
func (e *Engine) Read(v device.Vector, dst []float32) error  { return e.net.Read(v, dst) }
func (e *Engine) Write(v device.Vector, src []float32) error { return e.net.Write(v, src) }

// ReadParams and SetParams copy the parameters.
func (e *Engine) ReadParams(dst []float32) error { return e.net.Read(e.net.Params(), dst) }
func (e *Engine) SetParams(src []float32) error  { return e.net.Write(e.net.Params(), src) }

// Released reads the last released sum of gradients, one value a parameter and not yet
// divided by the expected batch.
func (e *Engine) Released(dst []float32) error { return e.net.Read(e.gradient, dst) }

// Wait returns when all steps are done, with the first failure.
func (e *Engine) Wait() error {
	if e.last == nil {
		return nil
	}
	_, err := e.last.Wait()
	return err
}

// Profile is that of device.Profiler, nil where the device is none. It is for package
// bench alone.
func (e *Engine) Profile() (spent func() []time.Duration) {
	if p, ok := e.net.(device.Profiler); ok {
		return p.Profile()
	}
	return nil
}

func (e *Engine) Close() error { return e.net.Close() }

// run sums over a batch in runs of at most the capacity, then does what follows.
func (e *Engine) run(sum, then device.Step, rows []int32, draw uint64) error {
	e.inputs.Draw = draw
	if e.words = e.words[:0]; e.c.Views != nil && sum == e.sum {
		e.words = e.c.Views.Of(draw, rows, e.words)
	}
	for words, views := e.words, e.c.Schedule.Views(); len(rows) > 0; {
		n := min(len(rows), e.c.Options.Capacity)
		e.inputs.Rows, rows = rows[:n], rows[n:]
		if len(words) > 0 {
			e.inputs.Words, words = words[:views*n], words[views*n:]
		}
		if err := sum.Run(&e.inputs); err != nil {
			return err
		}
	}
	e.inputs.Rows, e.inputs.Words, e.last = nil, nil, then
	return then.Run(&e.inputs)
}

// recorded is what was recorded for a method.
type recorded struct {
	engine *Engine
	step   device.Step
	moves  bool // the parameters, which an average follows
}

// Dots waits for the inner products.
func (r *recorded) Dots() ([]float64, error) {
	out, err := r.step.Wait()
	return out.Dots, err
}

// work is on public vectors.
type work struct{ recorded }

func (e *Engine) Record(body func(dpoptim.Queue)) (dpoptim.Work, error) {
	w := &work{recorded{engine: e}}
	var err error
	w.step, err = e.net.Record(func(q device.Queue) { w.moves = e.follow(q, body) })
	return w, err
}

// follow records work and, where it moves the parameters, what the average makes of it.
func (e *Engine) follow(q device.Queue, body func(dpoptim.Queue)) (moves bool) {
	watched := &watched{Queue: q, params: e.net.Params()}
	body(watched)
	if watched.moved && e.average != nil {
		q.Update(device.Average, e.average.vector, e.net.Params())
	}
	return watched.moved
}

// watched is a queue that notes whether the parameters move. It hides what else a
// device can do.
type watched struct {
	dpoptim.Queue
	params device.Vector
	moved  bool
}

func (w *watched) Update(r device.Rule, p, g device.Vector, state ...device.Vector) {
	w.moved = w.moved || p == w.params
	w.Queue.Update(r, p, g, state...)
}

func (w *watched) Axpy(y device.Vector, a device.Slot, x device.Vector) {
	w.moved = w.moved || y == w.params
	w.Queue.Axpy(y, a, x)
}

func (w *watched) Project(l device.LSTM, p, g, weights, state device.Vector) {
	w.moved = w.moved || p == w.params
	w.Queue.Project(l, p, g, weights, state)
}

// set fills in what a run of work reads.
func (e *Engine) set(moves bool, set func(*dpoptim.Scalars)) {
	if set != nil {
		set(&e.inputs.Scalars)
	}
	if moves && e.average != nil {
		e.average.set(&e.inputs.Scalars, e.Update())
	}
}

func (w *work) Run(set func(*dpoptim.Scalars)) error {
	e := w.engine
	e.set(w.moves, set)
	e.inputs.Rows, e.inputs.Draw, e.last = nil, 0, w.step
	return w.step.Run(&e.inputs)
}

// Scorer records the evaluation of the parameters, or of their average, on public
// data; it is nil where no average is kept.
func (e *Engine) Scorer(public device.Data, average bool) (func() (device.Score, error), error) {
	at := e.net.Params()
	if average {
		if e.average == nil {
			return nil, nil
		}
		at = e.average.vector
	}
	return Scorer(e.net, at, public)
}

// Scorer records the evaluation of a network on public data.
func Scorer(net device.Net, at device.Vector, public device.Data) (func() (device.Score, error), error) {
	step, err := net.Record(func(q device.Queue) { q.Score(at, public) })
	if err != nil {
		return nil, err
	}
	return func() (device.Score, error) {
		if err := step.Run(&device.Inputs{}); err != nil {
			return device.Score{}, err
		}
		out, err := step.Wait()
		if err != nil {
			return device.Score{}, err
		}
		return out.Scores[0], nil
	}, nil
}

// Average is the vector of the average of the parameters, if one is kept. A run starts it
// at the initial parameters.
func (e *Engine) Average() (v device.Vector, kept bool) {
	if e.average == nil {
		return 0, false
	}
	return e.average.vector, true
}

// Realised is the size of the last batch of a sum: private, and for the data's owner alone.
func (e *Engine) Realised() int { return len(e.rows) }
