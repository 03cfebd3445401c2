package golden

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// recorder is a device that notes what reads private records, what releases and what
// moves the parameters, in the order in which it is run. Steps are not noted: how
// calls are cut into them is nobody's promise.
type recorder struct {
	device.Device
	lines []string
	// shape leaves out what depends on drawn numbers, where they follow from no seed.
	shape bool
	// crash is the run of a step that fails, and all after it; 0 for none.
	crash, runs int
}

var errCrash = errors.New("crashed on purpose")

func (d *recorder) note(format string, a ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, a...))
}

// drawn notes what depends on drawn numbers.
func (d *recorder) drawn(format string, a ...any) string {
	if d.shape {
		return ""
	}
	return fmt.Sprintf(format, a...)
}

func (d *recorder) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	d.note("compile capacity=%d exact=%v cublas=%v precision=%v", o.Capacity, o.Exact, o.CuBLAS, o.Precision)
	n, err := d.Device.Compile(s, o)
	if err != nil {
		return nil, err
	}
	return &recordedNet{Net: n, d: d, params: s.Program.NumParams(), scalars: map[device.Vector]int{}}, nil
}

type recordedNet struct {
	device.Net
	d       *recorder
	params  int
	scalars map[device.Vector]int // vectors of values that belong to no parameter
}

func (n *recordedNet) NewScalars(size int) (device.Vector, error) {
	v, err := n.Net.NewScalars(size)
	n.scalars[v] = size
	return v, err
}

func (n *recordedNet) Write(v device.Vector, values []float32) error {
	n.d.note("write %d values=%s", len(values), digestOf(values))
	return n.Net.Write(v, values)
}

func (n *recordedNet) Record(body func(device.Queue)) (device.Step, error) {
	s := &recordedStep{net: n}
	var err error
	s.Step, err = n.Net.Record(func(q device.Queue) { body(&recordedQueue{Queue: q, step: s}) })
	return s, err
}

// recordedStep notes its operations after each run of it.
type recordedStep struct {
	device.Step
	net      *recordedNet
	ops      []func(in *device.Inputs, out *device.Outputs)
	searches bool // whether a run answers a search
}

func (s *recordedStep) Run(in *device.Inputs) error {
	if d := s.net.d; d.crash > 0 {
		if d.runs++; d.runs >= d.crash {
			return errCrash
		}
	}
	if err := s.Step.Run(in); err != nil {
		s.net.d.note("refused: %v", err)
		return err
	}
	var out device.Outputs
	if s.searches {
		var err error
		if out, err = s.Step.Wait(); err != nil {
			return err
		}
	}
	for _, op := range s.ops {
		op(in, &out)
	}
	return nil
}

// recordedQueue hides the operations that it does not note.
type recordedQueue struct {
	device.Queue
	step *recordedStep
}

func (q *recordedQueue) add(op func(*device.Inputs, *device.Outputs)) {
	q.step.ops = append(q.step.ops, op)
}

func (q *recordedQueue) ClippedSum(dst device.Sum, from device.Data) {
	q.Queue.ClippedSum(dst, from)
	d := q.step.net.d
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		d.note("clipped-sum clip=%v%s", in.Scalars[device.Clip], d.drawn(" rows=%s", rowsOf(in)))
	})
}

func (q *recordedQueue) CountedSum(dst, count device.Sum, from device.Data) {
	q.Queue.CountedSum(dst, count, from)
	d := q.step.net.d
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		d.note("counted-sum clip=%v%s", in.Scalars[device.Clip], d.drawn(" rows=%s", rowsOf(in)))
	})
}

func (q *recordedQueue) Losses(dst device.Sum, from device.Data, ask device.LossQuery) {
	q.Queue.Losses(dst, from, ask)
	d := q.step.net.d
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		d.note("losses %v clip=%v%s", ask.Form, in.Scalars[device.Clip],
			d.drawn(" candidates=%s rows=%s", digestOf(in.Candidates[:ask.K]), rowsOf(in)))
	})
}

func (q *recordedQueue) Norm(dst, src device.Sum) {
	q.Queue.Norm(dst, src)
	q.add(func(*device.Inputs, *device.Outputs) { q.step.net.d.note("norm") })
}

func (q *recordedQueue) Release(dst device.Vector, src device.Sum, noise device.Noise) {
	q.Queue.Release(dst, src, noise)
	n := q.step.net
	size, scalars := n.scalars[dst]
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		value := ""
		if scalars { // later operations of the step change gradients
			v := make([]float32, size)
			if err := n.Read(dst, v); err != nil {
				value = err.Error()
			} else {
				value = n.d.drawn(" value=%v", v)
			}
		}
		if noise.Exact() {
			value += " exact"
		}
		n.d.note("release draw=%d tensor=%d std=%v step=%v%s", in.Draw, noise.Tensor(),
			in.Scalars[noise.Std()], in.Scalars[noise.Step()], value)
	})
}

// AboveThreshold and ArgMin are noted by names of their own.
func (q *recordedQueue) AboveThreshold(src device.Sum, s device.Search) {
	q.Queue.AboveThreshold(src, s)
	q.searched("search-first", s.Tensor())
}

func (q *recordedQueue) ArgMin(src device.Sum, m device.Minimum) {
	q.Queue.ArgMin(src, m)
	q.searched("search-least", m.Tensor())
}

// searched notes a search, its scales, and what it found.
func (q *recordedQueue) searched(name string, tensor uint32) {
	q.step.searches = true
	d := q.step.net.d
	q.add(func(in *device.Inputs, out *device.Outputs) {
		d.note("%s draw=%d tensor=%d threshold=%v query=%v%s", name, in.Draw, tensor, in.Scalars[device.ThresholdStd],
			in.Scalars[device.QueryStd], d.drawn(" asked=%d found=%v", in.First, out.Found))
	})
}

func (q *recordedQueue) Update(r device.Rule, p, g device.Vector, state ...device.Vector) {
	q.Queue.Update(r, p, g, state...)
	q.updated(fmt.Sprint("update ", r), p)
}

func (q *recordedQueue) Project(l device.LSTM, p, g, weights, state device.Vector) {
	q.Queue.Project(l, p, g, weights, state)
	q.updated("project", p)
}

// updated notes what a vector of one value per parameter has become.
func (q *recordedQueue) updated(what string, p device.Vector) {
	n := q.step.net
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		values := make([]float32, n.params)
		if err := n.Read(p, values); err != nil {
			n.d.note("%s: %v", what, err)
			return
		}
		n.d.note("%s%s", what, n.d.drawn(" values=%s", digestOf(values)))
	})
}

func (q *recordedQueue) Score(at device.Vector, public device.Data) {
	q.Queue.Score(at, public)
	q.add(func(*device.Inputs, *device.Outputs) { q.step.net.d.note("score") })
}

// rowsOf is the number of a run's rows and a digest of which they are.
func rowsOf(in *device.Inputs) string {
	var b []byte
	for _, r := range in.Rows {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return fmt.Sprintf("%d:%s", len(in.Rows), short(b))
}

func digestOf(values []float32) string {
	var b []byte
	for _, x := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return short(b)
}

func short(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:4])
}

func (d *recorder) text() string { return strings.Join(d.lines, "\n") }
