// Package host is what devices in the host's memory share: handles, recording,
// noise positions and sticky errors. A backend supplies the arithmetic.
package host

import (
	"fmt"
	"time"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/admit"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/pages"
)

// Float is the type a backend computes in.
type Float interface{ float32 | float64 }

// Backend computes for one compiled schedule. Slices have one element per
// parameter; errors come only from what the host could not know.
type Backend[T Float] interface {
	// ClippedSum returns the centred count of Queue.CountedSum, which means
	// nothing but under flat clipping.
	ClippedSum(dst, params []T, t *Table, rows []int32, clip float32) float64
	// Losses adds what q.Form says of each row to sums, one for every step size.
	Losses(sums []float64, q Query[T], t *Table, rows []int32)
	// Moved is called whenever the parameters may have been written: what a backend has
	// kept of the ones before is stale.
	Moved()
	// Apply does a release, then an update; either may be nil. When both are
	// there, the update's gradient is what the release writes, and a backend
	// may take a stretch of values through both before it turns to the next.
	Apply(*Release[T], *Update[T])
	Project(*Projection[T])
	Score(params []T, t *Table) device.Score
	// GridSum adds to integers on a grid what ClippedSum adds to floats: for exact
	// nets alone.
	GridSum(dst []int64, params []T, t *Table, rows []int32, g device.Grid)
	// Blocks covers [0, n) by calls of f, perhaps at once.
	Blocks(n int, f func(lo, hi int))
	Rounding(rows int) float64 // of device.Net
	Close()
}

// Release is ReleaseTo of all values.
type Release[T Float] struct {
	Dst, Src []T
	Sampler  *exact.Sampler
	Step     float64
	Draw     uint64
}

// Update is a rule's change of the parameters P by the gradient G.
type Update[T Float] struct {
	Rule    device.Rule
	Scalars [device.Slots]float32
	P, G    []T
	State   [][]T
}

// Projection is a learned rule's change of the parameters P by the gradient G.
type Projection[T Float] struct {
	LSTM           device.LSTM
	Scalars        [device.Slots]float32
	P, G, W, State []T
}

// Table is data loaded into host memory.
type Table struct {
	device.Rows
	Features []uint8
}

// Load checks a table and keeps it, without a copy.
func Load(r device.Rows, features []uint8) (*Table, error) {
	if err := r.Validate(features); err != nil {
		return nil, err
	}
	return &Table{r, features}, nil
}

// Close drops the table's memory.
func (t *Table) Close() error {
	t.Count, t.Features, t.Targets = 0, nil, nil
	return nil
}

// Row gives the bytes of one row.
func (t *Table) Row(i int32) []uint8 {
	return t.Features[int(i)*t.Width : (int(i)+1)*t.Width]
}

// Net implements device.Net over a backend. It runs at once: Run returns when
// the work is done, and Wait only hands over outputs.
type Net[T Float] struct {
	schedule *ir.Schedule
	options  device.Options
	backend  Backend[T]
	params   int
	vectors  [][]T
	sums     []*sum[T]
	drawn    uint64
	searches admit.Searches
	err      error // the first failure, for good
}

// New checks the schedule and wraps a backend for it, which has some precisions beside Float32.
func New[T Float](s *ir.Schedule, o device.Options, make func() Backend[T], has ...device.Precision) (*Net[T], error) {
	if o.CuBLAS {
		return nil, device.ErrNoLibrary
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := admit.CheckOptions(s, o, has); err != nil {
		return nil, err
	}
	n := &Net[T]{schedule: s, options: o, params: s.Program.NumParams(), backend: make()}
	n.vectors = append(n.vectors, nil) // Params
	n.vectors[0] = newSlice[T](n.params)
	return n, nil
}

func newSlice[T Float](n int) []T { return pages.Make[T](n) }

// Params is the handle of the parameters.
func (n *Net[T]) Params() device.Vector { return 0 }

// NewVector makes a zero vector of width values per parameter.
func (n *Net[T]) NewVector(width int) (device.Vector, error) {
	if n.err != nil {
		return 0, n.err
	}
	if width < 1 {
		return 0, fmt.Errorf("a vector needs at least one value per parameter, was asked for %d", width)
	}
	n.vectors = append(n.vectors, newSlice[T](n.params*width))
	return device.Vector(len(n.vectors) - 1), nil
}

// NewScalars makes n zero values.
func (n *Net[T]) NewScalars(size int) (device.Vector, error) {
	if err := n.scalars(size); err != nil {
		return 0, err
	}
	n.vectors = append(n.vectors, make([]T, size))
	return device.Vector(len(n.vectors) - 1), nil
}

func (n *Net[T]) scalars(size int) error {
	if n.err == nil && size < 1 {
		return fmt.Errorf("at least one scalar is needed, %d were asked for", size)
	}
	return n.err
}

func (n *Net[T]) vector(v device.Vector) ([]T, error) {
	if n.err != nil {
		return nil, n.err
	}
	if v < 0 || int(v) >= len(n.vectors) {
		return nil, fmt.Errorf("no vector %d on this network", v)
	}
	return n.vectors[v], nil
}

// Write sets a vector.
func (n *Net[T]) Write(v device.Vector, src []float32) error {
	dst, err := n.vector(v)
	if err != nil {
		return err
	}
	if len(src) != len(dst) {
		return fmt.Errorf("vector %d has %d values, was given %d", v, len(dst), len(src))
	}
	for i, x := range src {
		dst[i] = T(x)
	}
	n.wrote(v)
	return nil
}

// wrote follows every write to a vector.
func (n *Net[T]) wrote(v device.Vector) {
	if v == n.Params() {
		n.backend.Moved()
	}
}

// Read copies a vector out.
func (n *Net[T]) Read(v device.Vector, dst []float32) error {
	src, err := n.vector(v)
	if err != nil {
		return err
	}
	if len(src) != len(dst) {
		return fmt.Errorf("vector %d has %d values, room for %d was given", v, len(src), len(dst))
	}
	for i, x := range src {
		dst[i] = float32(x)
	}
	return nil
}

// Rounding is the backend's.
func (n *Net[T]) Rounding(rows int) float64 { return n.backend.Rounding(rows) }

// Profile times the steps of a backend that can, and of others none.
func (n *Net[T]) Profile() func() []time.Duration {
	if p, ok := n.backend.(device.Profiler); ok {
		return p.Profile()
	}
	return func() []time.Duration { return nil }
}

// Close frees the network. It is idempotent.
func (n *Net[T]) Close() error {
	if n.err == device.ErrClosed {
		return nil
	}
	n.err = device.ErrClosed
	n.vectors, n.sums = nil, nil
	n.backend.Close()
	return nil
}

// fail makes an error stick.
func (n *Net[T]) fail(err error) error {
	if n.err == nil {
		n.err = err
	}
	return n.err
}

// Record notes what body enqueues.
func (n *Net[T]) Record(body func(device.Queue)) (device.Step, error) {
	if n.err != nil {
		return nil, n.err
	}
	q := &queue[T]{net: n, step: &step[T]{net: n}}
	body(q)
	if q.err != nil {
		return nil, q.err
	}
	return q.step, nil
}

type step[T Float] struct {
	admit.Step
	net     *Net[T]
	work    []func(*device.Inputs, *device.Outputs)
	outputs device.Outputs
}

func (s *step[T]) Run(in *device.Inputs) error {
	n := s.net
	if n.err != nil {
		return n.err
	}
	if err := s.Step.Run(in, n.options.Capacity, &n.drawn); err != nil {
		return n.fail(err)
	}
	s.outputs = device.Outputs{} // a caller may keep the last ones
	for _, w := range s.work {
		w(in, &s.outputs)
	}
	return n.err
}

func (s *step[T]) Wait() (device.Outputs, error) { return s.outputs, s.net.err }

// queue records; its first error is Record's.
type queue[T Float] struct {
	net  *Net[T]
	step *step[T]
	err  error
	last *pass[T] // what was recorded last, if it was a release
}

// pass is a release, an update, or one and the other.
type pass[T Float] struct {
	release *Release[T]
	drawn   sampler
	update  *Update[T]
	writes  []device.Vector
}

func (q *queue[T]) check(err error) bool {
	if q.err == nil {
		q.err = err
	}
	return q.err == nil
}

func (q *queue[T]) vec(v device.Vector, size int) []T {
	x, err := q.net.vector(v)
	if q.check(err) && len(x) != size {
		q.check(fmt.Errorf("vector %d holds %d values, want %d", v, len(x), size))
	}
	return x
}

func (q *queue[T]) table(d device.Data) *Table {
	t, ok := d.(*Table)
	if !ok || t == nil {
		q.check(fmt.Errorf("the table was not loaded on this device"))
		return nil
	}
	if want := ir.Size(q.net.schedule.Program.Shape); t.Width != want {
		q.check(fmt.Errorf("the table's rows have %d values, network %s reads %d", t.Width, q.net.schedule.Program.Name, want))
	}
	return t
}

func (q *queue[T]) add(w func(*device.Inputs, *device.Outputs)) {
	q.step.work = append(q.step.work, w)
	q.last = nil
}

func (q *queue[T]) addPass(p *pass[T]) {
	n := q.net
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		if r := p.release; r != nil {
			var err error
			if r.Sampler, err = p.drawn.of(in); err != nil {
				n.err = err
				return
			}
			r.Step, r.Draw = float64(in.Scalars[p.drawn.noise.Step()]), in.Draw
		}
		if u := p.update; u != nil {
			u.Scalars = in.Scalars
		}
		n.backend.Apply(p.release, p.update)
		for _, v := range p.writes {
			n.wrote(v)
		}
	})
	q.last = p
}

func (q *queue[T]) ClippedSum(dst device.Sum, from device.Data) {
	n := q.net
	if n.options.Exact {
		q.exactClippedSum(dst, from)
		return
	}
	s, t := q.gradients(dst), q.table(from)
	if q.err != nil {
		return
	}
	q.step.Tables = append(q.step.Tables, &t.Rows)
	q.step.Clips = q.step.Clips || n.schedule.Private()
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		n.backend.ClippedSum(s, n.vectors[0], t, in.Rows, in.Scalars[device.Clip])
	})
}

func (q *queue[T]) CountedSum(dst, count device.Sum, from device.Data) {
	n := q.net
	if n.options.Exact {
		q.check(fmt.Errorf("norms within the clip norm are not counted on exact nets, which have no factors"))
		return
	}
	s, c, t := q.gradients(dst), q.scalars(count, 1), q.table(from)
	if n.schedule.Clipping != ir.Flat {
		q.check(fmt.Errorf("norms within the clip norm are counted under flat clipping, the schedule's is %s", n.schedule.Clipping))
	}
	if q.err != nil {
		return
	}
	q.step.Tables = append(q.step.Tables, &t.Rows)
	q.step.Clips = true
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		c.scalars[0] += n.backend.ClippedSum(s, n.vectors[0], t, in.Rows, in.Scalars[device.Clip])
	})
}

func (q *queue[T]) Losses(dst device.Sum, from device.Data, ask device.LossQuery) {
	if !q.check(ask.Check()) {
		return
	}
	s, t, n := q.scalars(dst, ask.K), q.table(from), q.net
	at, dir := q.vec(ask.At, n.params), q.vec(ask.Dir, n.params)
	if q.err != nil || !q.check(n.searches.Fills(dst, ask.Form)) {
		return
	}
	q.step.Tables = append(q.step.Tables, &t.Rows)
	q.step.Clips = true
	q.step.Candidates = max(q.step.Candidates, ask.K)
	q.step.Checks = append(q.step.Checks, s.tally.Add)
	q.add(func(in *device.Inputs, _ *device.Outputs) {
		n.backend.Losses(s.scalars, Query[T]{ask.Form, at, ask.At == n.Params(), dir, in.Candidates[:ask.K], in.Scalars[device.Clip], float64(in.Scalars[device.NoiseStep])}, t, in.Rows)
		s.tally.Added(in)
	})
}

func (q *queue[T]) Release(dst device.Vector, src device.Sum, noise device.Noise) {
	s := q.sum(src)
	if noise.Exact() && !q.net.options.Exact {
		q.check(fmt.Errorf("exact noise was to be added to a floating-point sum: compile the network with Options.Exact"))
	}
	if q.err != nil {
		return
	}
	switch {
	case s.scalars != nil:
		q.releaseScalars(dst, s, noise)
	case s.integers != nil:
		q.exactRelease(dst, s, noise)
	default:
		if d := q.vec(dst, len(s.floats)); q.claim(noise, len(d)) {
			q.addPass(&pass[T]{release: &Release[T]{Dst: d, Src: s.floats}, drawn: sampler{noise: noise}, writes: []device.Vector{dst}})
		}
	}
}

// claim notes the noise of one more release of the step.
func (q *queue[T]) claim(noise device.Noise, values int) bool {
	if q.err == nil {
		q.err = q.step.Draw(noise, values)
	}
	return q.err == nil
}

func (q *queue[T]) Update(r device.Rule, p, g device.Vector, state ...device.Vector) {
	if !q.check(r.Check(len(state))) {
		return
	}
	x, y := q.vec(p, q.net.params), q.vec(g, q.net.params)
	var st [][]T
	for _, v := range state {
		st = append(st, q.vec(v, q.net.params))
	}
	if q.err != nil {
		return
	}
	u := &Update[T]{Rule: r, P: x, G: y, State: st}
	writes := append([]device.Vector{p}, state...)
	if l := q.last; l != nil && l.release != nil && l.update == nil && g != p && &l.release.Dst[0] == &y[0] {
		l.update, l.writes = u, append(l.writes, writes...)
		return
	}
	q.addPass(&pass[T]{update: u, writes: writes})
}

func (q *queue[T]) Score(at device.Vector, public device.Data) {
	x, t, n := q.vec(at, q.net.params), q.table(public), q.net
	if q.err != nil {
		return
	}
	q.add(func(_ *device.Inputs, out *device.Outputs) {
		out.Scores = append(out.Scores, n.backend.Score(x, t))
	})
}
