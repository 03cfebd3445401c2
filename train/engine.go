package train

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/privgrad/privgrad/cuda"
	"github.com/privgrad/privgrad/cuda/driver/cudrv"
	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/dpoptim/mechanism"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/reference"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/usage"
)

// OpenDevice opens a device by its name on the command line. "auto" is the first
// GPU where there is one that this build can use, else the processor.
func OpenDevice(name string, threads int) (device.Device, error) {
	switch {
	case name == "auto":
		if d, err := openGPU(0); err == nil {
			return d, nil
		}
		return cpu.Open(threads)
	case name == "cpu":
		return cpu.Open(threads)
	case name == "reference":
		return reference.Open(), nil
	}
	kind, number, numbered := strings.Cut(name, ":")
	ordinal := 0
	var err error
	if numbered {
		ordinal, err = strconv.Atoi(number)
	}
	if kind != "cuda" || err != nil || ordinal < 0 {
		return nil, usage.Errorf("unknown device %q: choose one of auto, cpu, cuda, cuda:N, reference", name)
	}
	d, err := openGPU(ordinal)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w; or use --device cpu", name, err)
	}
	return d, nil
}

func openGPU(ordinal int) (device.Device, error) {
	driver, err := cudrv.Open()
	if err != nil {
		return nil, err
	}
	return cuda.Open(driver, ordinal)
}

// Engine is a network on a device with its mechanism and optimizer, recorded
// as the two steps of one update: the sum over a batch, in as many runs as it
// takes, and one release with the update.
type Engine struct {
	// Rate, where it is not 0, takes the place of the optimizer's step size.
	Rate float64

	net       device.Net
	mechanism mechanism.Mechanism
	optimizer dpoptim.Optimizer
	adapt     *Adaptation
	private   device.Sum // of gradients
	sum       device.Step
	update    device.Step
	gradient  device.Vector // the last released sum
	descent   *descent      // of optimizers that choose their step size; they have no update
	norm      *normRelease  // of schedules that ask for norms
	capacity  int
	inputs    device.Inputs
}

// NewEngine compiles a schedule and records its steps. The rows of a batch
// come from data, which stays the caller's to close. The clip norm is the
// mechanism's, or moves by a where that is not nil.
func NewEngine(d device.Device, s *ir.Schedule, o device.Options, data device.Data, m func(device.Net) (mechanism.Mechanism, error), a *Adaptation, optimizer func(device.Net) (dpoptim.Optimizer, error)) (*Engine, error) {
	return newEngine(d, s, o, data, m, a, func(e *Engine, sum device.Sum) error { return e.recordUpdate(sum, optimizer) })
}

func newEngine(d device.Device, s *ir.Schedule, o device.Options, data device.Data, m func(device.Net) (mechanism.Mechanism, error), a *Adaptation, follow func(*Engine, device.Sum) error) (*Engine, error) {
	net, err := d.Compile(s, o)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", d.Info().Name, err)
	}
	e := &Engine{net: net, adapt: a, capacity: o.Capacity}
	if e.mechanism, err = m(net); err == nil {
		err = e.record(data, follow)
	}
	if err != nil {
		net.Close()
		return nil, fmt.Errorf("device %s: %w", d.Info().Name, err)
	}
	return e, nil
}

// NewDescent compiles a schedule for an optimizer that chooses its step size:
// directions are released by Direction, and stepped along by Move. The
// normaliser and the penalty are those of dpoptim.Config. An engine that
// remembers can mix in a second gradient and tell angles.
func NewDescent(d device.Device, s *ir.Schedule, o device.Options, data device.Data, m func(device.Net) (mechanism.Mechanism, error), optimizer func(device.Net) (dpoptim.Optimizer, error), normaliser, l2 float64, remembers bool) (*Engine, error) {
	return newEngine(d, s, o, data, m, nil, func(e *Engine, sum device.Sum) error {
		return e.recordDescent(sum, optimizer, normaliser, l2, remembers)
	})
}

// State is what a checkpoint must hold beside the parameters.
func (e *Engine) State() []dpoptim.State {
	if d := e.descent; d != nil && d.keep != nil {
		return append(slices.Clip(e.optimizer.State()), dpoptim.State{Vector: d.last, Width: 1})
	}
	return e.optimizer.State()
}

// NewProtected compiles a schedule for a run that chooses the noise of every step: what
// Protected gives of the released gradient tells the next. Norm makes what releases the
// norm of the batch's sum beside it, nil where none is asked for.
func NewProtected(d device.Device, s *ir.Schedule, o device.Options, data device.Data, m func(device.Net) (mechanism.Mechanism, error), norm func(device.Net) (*mechanism.Norm, error), optimizer func(device.Net) (dpoptim.Optimizer, error)) (*Engine, error) {
	return newEngine(d, s, o, data, m, nil, func(e *Engine, sum device.Sum) error { return e.recordProtected(sum, norm, optimizer) })
}

// normRelease is a norm on its way out.
type normRelease struct {
	mechanism *mechanism.Norm
	private   device.Sum
	released  device.Vector
	value     [1]float32
}

// recordProtected records a release, what is measured of it, and the update by it.
func (e *Engine) recordProtected(sum device.Sum, norm func(device.Net) (*mechanism.Norm, error), optimizer func(device.Net) (dpoptim.Optimizer, error)) error {
	var err, updateErr error
	if e.optimizer, err = optimizer(e.net); err != nil {
		return err
	}
	m, err := norm(e.net)
	if err != nil {
		return err
	}
	if m != nil {
		e.norm = &normRelease{mechanism: m}
		if e.norm.private, err = e.net.NewScalarSum(1); err != nil {
			return err
		}
		if e.norm.released, err = e.net.NewScalars(1); err != nil {
			return err
		}
	}
	e.update, err = e.net.Record(func(q device.Queue) {
		if n := e.norm; n != nil {
			q.Norm(n.private, sum) // before the release clears the sum
			n.mechanism.Release(q, n.released, n.private)
		}
		noisy := e.mechanism.Release(q, e.gradient, sum)
		q.Dot(e.gradient, e.gradient)
		updateErr = e.optimizer.Record(q, e.net.Params(), noisy)
	})
	return errors.Join(err, updateErr)
}

// Protected is Step for an engine of NewProtected. It gives the squared norm of the
// released sum, and the released norm, 0 where none is asked for.
func (e *Engine) Protected(rows []int32, draw uint64, t int) (norm2, norm float64, err error) {
	if n := e.norm; n != nil {
		n.mechanism.Set(&e.inputs)
	}
	if err := e.Step(rows, draw, t); err != nil {
		return 0, 0, err
	}
	out, err := e.update.Wait()
	if err != nil || e.norm == nil {
		return sum(out.Dots), 0, err
	}
	err = e.net.Read(e.norm.released, e.norm.value[:])
	return sum(out.Dots), float64(e.norm.value[0]), err
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// record records the sum over a batch, and what follows it.
func (e *Engine) record(data device.Data, follow func(*Engine, device.Sum) error) error {
	sum, err := e.net.NewSum()
	if err != nil {
		return err
	}
	e.private = sum
	if e.gradient, err = e.net.NewVector(1); err != nil {
		return err
	}
	if e.adapt != nil {
		if err := e.adapt.open(e.net); err != nil {
			return err
		}
	}
	e.sum, err = e.net.Record(func(q device.Queue) {
		if e.adapt != nil {
			q.CountedSum(sum, e.adapt.private, data)
			return
		}
		q.ClippedSum(sum, data)
	})
	if err != nil {
		return err
	}
	return follow(e, sum)
}

// recordUpdate records a release and the update by it.
func (e *Engine) recordUpdate(sum device.Sum, optimizer func(device.Net) (dpoptim.Optimizer, error)) error {
	var err, updateErr error
	if e.optimizer, err = optimizer(e.net); err != nil {
		return err
	}
	e.update, err = e.net.Record(func(q device.Queue) {
		noisy := e.mechanism.Release(q, e.gradient, sum)
		if e.adapt != nil {
			e.adapt.Count.Release(q, e.adapt.released, e.adapt.private)
		}
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
	if e.adapt != nil {
		e.mechanism.SetBound(e.adapt.Clip)
		e.adapt.Count.Set(&e.inputs)
	}
	e.mechanism.Set(&e.inputs)
	e.optimizer.Set(&e.inputs, t)
	if e.Rate != 0 {
		e.inputs.Scalars[device.Rate] = float32(e.Rate)
	}
	if err := e.run(e.sum, e.update, rows, draw); err != nil || e.adapt == nil {
		return err
	}
	return e.adapt.follow(e.net)
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

// LossQuery records the release of the clipped losses of a batch, summed, at
// k points: the parameters less a step size times the last released gradient
// sum. The mechanism's bound is that of one loss; k of them have √k times its
// sensitivity in L2. Step sizes that a call leaves out are 0, which stands for
// the parameters themselves.
func (e *Engine) LossQuery(data device.Data, query func(device.Net) (mechanism.Mechanism, error), k int) (func(rows []int32, draw uint64, steps ...float32) ([]float64, error), error) {
	m, err := query(e.net)
	if err != nil {
		return nil, err
	}
	private, err := e.net.NewScalarSum(k)
	if err != nil {
		return nil, err
	}
	released, err := e.net.NewScalars(k)
	if err != nil {
		return nil, err
	}
	ask := device.LossQuery{At: e.net.Params(), Dir: e.gradient, K: k}
	sum, err := e.net.Record(func(q device.Queue) { q.Losses(private, data, ask) })
	if err != nil {
		return nil, err
	}
	release, err := e.net.Record(func(q device.Queue) { m.Release(q, released, private) })
	if err != nil {
		return nil, err
	}
	out := make([]float32, k)
	return func(rows []int32, draw uint64, steps ...float32) ([]float64, error) {
		m.Set(&e.inputs)
		clear(e.inputs.Candidates[copy(e.inputs.Candidates[:], steps):])
		if err := e.run(sum, release, rows, draw); err != nil {
			return nil, err
		}
		if err := e.net.Read(released, out); err != nil {
			return nil, err
		}
		losses := make([]float64, k)
		for i, x := range out {
			losses[i] = float64(x)
		}
		return losses, nil
	}, nil
}

// Wait returns when all steps are done, with the first failure.
func (e *Engine) Wait() error {
	last := e.update
	if d := e.descent; d != nil {
		if last = d.move; d.keep != nil {
			last = d.keep
		}
	}
	_, err := last.Wait()
	return err
}

// Scorer records the evaluation of the parameters on public data.
func (e *Engine) Scorer(public device.Data) (func() (device.Score, error), error) {
	return scorer(e.net, e.net.Params(), public)
}

// averageScorer is Scorer for the average of the parameters; nil where none is kept.
func (e *Engine) averageScorer(public device.Data) (func() (device.Score, error), error) {
	v, ok := e.average()
	if !ok {
		return nil, nil
	}
	return scorer(e.net, v, public)
}

// average is the average of the parameters, where the optimizer keeps one.
func (e *Engine) average() (device.Vector, bool) {
	a, ok := e.optimizer.(*dpoptim.Average)
	if !ok {
		return 0, false
	}
	return a.Vector(), true
}

func scorer(net device.Net, at device.Vector, public device.Data) (func() (device.Score, error), error) {
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

// Released reads the last released sum of gradients, one value a parameter and
// not yet divided by the expected batch. It is public, as all that was released is.
func (e *Engine) Released(dst []float32) error { return e.net.Read(e.gradient, dst) }

// Params reads the parameters, SetParams writes them.
func (e *Engine) Params(dst []float32) error    { return e.net.Read(e.net.Params(), dst) }
func (e *Engine) SetParams(src []float32) error { return e.net.Write(e.net.Params(), src) }

// Close frees the network.
func (e *Engine) Close() error { return e.net.Close() }
