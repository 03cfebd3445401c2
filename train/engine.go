package train

import (
	"fmt"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/plan"
)

// OpenDevice opens a device by its name on the command line.
func OpenDevice(name string, threads int) (device.Device, error) {
	switch {
	case name == "auto" || name == "cpu":
		return cpu.Open(threads)
	case name == "reference":
		return reference.Open(), nil
	case name == "cuda" || len(name) > 5 && name[:5] == "cuda:":
		return nil, fmt.Errorf("device %s: this build has no CUDA device; use --device cpu", name)
	}
	return nil, usage("unknown device %q: choose one of auto, cpu, cuda, cuda:N, reference", name)
}

// Engine is a network on a device with its mechanism and optimizer, recorded
// as the two steps of one update: the sum over a batch, in as many runs as it
// takes, and one release with the update.
type Engine struct {
	net       device.Net
	mechanism mechanism.Mechanism
	optimizer dpoptim.Optimizer
	sum       device.Step
	update    device.Step
	capacity  int
	inputs    device.Inputs
}

// NewEngine compiles a schedule and records its steps. The rows of a batch
// come from data, which stays the caller's to close.
func NewEngine(d device.Device, s *plan.Schedule, capacity int, data device.Data, m func(device.Net) (mechanism.Mechanism, error), optimizer func(device.Net) (dpoptim.Optimizer, error)) (*Engine, error) {
	net, err := d.Compile(s, device.Options{Capacity: capacity})
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", d.Info().Name, err)
	}
	e := &Engine{net: net, capacity: capacity}
	if e.mechanism, err = m(net); err == nil {
		err = e.record(data, optimizer)
	}
	if err != nil {
		net.Close()
		return nil, fmt.Errorf("device %s: %w", d.Info().Name, err)
	}
	return e, nil
}

func (e *Engine) record(data device.Data, optimizer func(device.Net) (dpoptim.Optimizer, error)) error {
	var err error
	if e.optimizer, err = optimizer(e.net); err != nil {
		return err
	}
	sum, err := e.net.NewSum()
	if err != nil {
		return err
	}
	gradient, err := e.net.NewVector(1)
	if err != nil {
		return err
	}
	if e.sum, err = e.net.Record(func(q device.Queue) { q.ClippedSum(sum, data) }); err != nil {
		return err
	}
	var updateErr error
	e.update, err = e.net.Record(func(q device.Queue) {
		noisy := e.mechanism.Release(q, gradient, sum)
		updateErr = e.optimizer.Record(q, e.net.Params(), noisy)
	})
	if err != nil {
		return err
	}
	return updateErr
}

// Step trains on one batch, which may be empty: noise is drawn and the update
// made all the same. Draw is the noise position, t the update's number from 1.
func (e *Engine) Step(rows []int32, draw uint64, t int) error {
	e.mechanism.Set(&e.inputs)
	e.optimizer.Set(&e.inputs, t)
	return e.run(e.sum, e.update, rows, draw)
}

// run sums over a batch in runs of at most the capacity, then releases.
func (e *Engine) run(sum, release device.Step, rows []int32, draw uint64) error {
	e.inputs.Draw = draw
	for len(rows) > 0 {
		n := min(len(rows), e.capacity)
		e.inputs.Rows, rows = rows[:n], rows[n:]
		if err := sum.Run(&e.inputs); err != nil {
			return err
		}
	}
	e.inputs.Rows = nil
	return release.Run(&e.inputs)
}

// LossQuery records the release of the clipped loss sum of a batch by a
// mechanism whose bound is the loss's.
func (e *Engine) LossQuery(data device.Data, query func(device.Net) (mechanism.Mechanism, error)) (func(rows []int32, draw uint64) (float64, error), error) {
	m, err := query(e.net)
	if err != nil {
		return nil, err
	}
	private, err := e.net.NewScalarSum(1)
	if err != nil {
		return nil, err
	}
	released, err := e.net.NewScalars(1)
	if err != nil {
		return nil, err
	}
	sum, err := e.net.Record(func(q device.Queue) { q.Losses(private, data) })
	if err != nil {
		return nil, err
	}
	release, err := e.net.Record(func(q device.Queue) { m.Release(q, released, private) })
	if err != nil {
		return nil, err
	}
	return func(rows []int32, draw uint64) (float64, error) {
		m.Set(&e.inputs)
		if err := e.run(sum, release, rows, draw); err != nil {
			return 0, err
		}
		out := make([]float32, 1)
		err := e.net.Read(released, out)
		return float64(out[0]), err
	}, nil
}

// Wait returns when all steps are done, with the first failure.
func (e *Engine) Wait() error {
	_, err := e.update.Wait()
	return err
}

// Scorer records the evaluation of the parameters on public data.
func (e *Engine) Scorer(public device.Data) (func() (device.Score, error), error) {
	return scorer(e.net, public)
}

func scorer(net device.Net, public device.Data) (func() (device.Score, error), error) {
	step, err := net.Record(func(q device.Queue) { q.Score(net.Params(), public) })
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

// Params reads the parameters, SetParams writes them.
func (e *Engine) Params(dst []float32) error    { return e.net.Read(e.net.Params(), dst) }
func (e *Engine) SetParams(src []float32) error { return e.net.Write(e.net.Params(), src) }

// Close frees the network.
func (e *Engine) Close() error { return e.net.Close() }
