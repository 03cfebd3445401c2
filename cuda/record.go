package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/cuda/driver"
	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/admit"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
)

// step is recorded work: one graph, whose launches read what differs between runs
// from the arena's run.
type step struct {
	admit.Step
	net    *net
	graph  driver.Graph
	work   []work
	timing timing
	added  []func(*device.Inputs) // what a run changes that the host must remember
	scores []scored
	search *search // or minimum; nil: the step has none
	dots   []kernels.Ptr
	ran    bool
}

// scored is where a step leaves a score.
type scored struct {
	at   kernels.Ptr
	host []byte
}

// queue notes what a step consists of; its first error is Record's.
type queue struct {
	list
	recorded *step
	later    []func() // what enqueues the work: it may call the driver, so it runs on the device's thread
}

// Record runs body once, then captures the launches that it stands for as one graph.
func (n *net) Record(body func(device.Queue)) (device.Step, error) {
	if err := n.do(func() error { return nil }); err != nil {
		return nil, err
	}
	q := &queue{list: list{net: n, step: noStep}, recorded: &step{net: n}}
	body(q)
	if q.err != nil {
		return nil, q.err
	}
	err := n.do(func() error {
		q.launch(n.ring.advance())
		for _, f := range q.later {
			f()
		}
		err := q.err
		if err == nil {
			err = n.capture(q)
		}
		if err != nil {
			return err
		}
		n.steps = append(n.steps, q.recorded)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return q.recorded, nil
}

// load loads the kernels of the list.
func (l *list) load() (err error) {
	for i := range l.work {
		if w := &l.work[i]; w.launch.Name != "" {
			if w.function, err = l.net.device.function(&w.launch); err != nil {
				return err
			}
		}
	}
	return nil
}

// capture makes the graph. Modules are loaded before: inside a capture they may not be.
func (n *net) capture(q *queue) error {
	if err := q.load(); err != nil {
		return err
	}
	s := q.recorded
	s.work = q.work
	if err := n.wait(); err != nil {
		return err
	}
	var err error
	if s.graph, err = n.captureWork(s.work, func(int) error { return nil }); err != nil {
		return err
	}
	if n.spent != nil {
		return s.time()
	}
	return nil
}

// captureWork captures work, with a call before each piece of it and one at the end.
func (n *net) captureWork(all []work, before func(i int) error) (driver.Graph, error) {
	g, err := n.stream.Capture(func() error {
		for i := range all {
			if err := before(i); err != nil {
				return err
			}
			if err := n.enqueue(&all[i]); err != nil {
				return err
			}
		}
		return before(len(all))
	})
	if err != nil {
		return nil, n.fail(n.device.failed("recording a step of "+n.schedule.Program.Name, err))
	}
	return g, nil
}

func (n *net) enqueue(w *work) error {
	switch {
	case w.product != nil:
		if err := n.blas.products.Multiply(*w.product); err != nil {
			return fmt.Errorf("a product by cuBLAS: %w", err)
		}
	case w.zero != 0:
		if err := n.stream.Set(driver.Ptr(w.zero), 0, w.words); err != nil {
			return fmt.Errorf("zeroing memory: %w", err)
		}
	default:
		k := &w.launch
		if err := n.stream.Launch(driver.Launch{Function: w.function, Grid: k.Grid, Block: k.Block, Shared: k.Shared, Args: k.Args}); err != nil {
			return fmt.Errorf("kernel %s: %w", k.Name, err)
		}
	}
	return nil
}

// Run checks the inputs and enqueues the graph. It waits only where as many runs as
// the ring has slots are under way, or where a search goes on.
func (s *step) Run(in *device.Inputs) error {
	n := s.net
	return n.do(func() error {
		if err := s.Step.Run(in, n.options.Capacity, &n.drawn); err != nil {
			return n.fail(err)
		}
		for _, f := range s.added {
			f(in)
		}
		err := n.ring.put(in)
		if err == nil {
			err = n.stream.Run(s.toRun())
		}
		if err == nil {
			err = n.ring.enqueued()
		}
		if err == nil {
			err = s.timing.add(n.spent)
		}
		if err != nil {
			return n.fail(n.device.failed("running a step of "+n.schedule.Program.Name, err))
		}
		s.ran = true
		return nil
	})
}

// Wait is until all is done that was enqueued, and reads the outputs of the last run.
func (s *step) Wait() (out device.Outputs, err error) {
	n := s.net
	return out, n.do(func() error {
		if err := n.wait(); err != nil {
			return err
		}
		if !s.ran {
			return nil
		}
		for _, sc := range s.scores {
			if err := n.device.context.CopyOut(sc.host, driver.Ptr(sc.at)); err != nil {
				return n.fail(n.device.failed("reading a score", err))
			}
			out.Scores = append(out.Scores, n.readScore(sc.host))
		}
		if s.search != nil {
			i, err := s.search.decide()
			if err != nil {
				return err
			}
			out.Found = append(out.Found, i)
		}
		for _, at := range s.dots {
			var word [8]byte
			if err := n.device.context.CopyOut(word[:], driver.Ptr(at)); err != nil {
				return n.fail(n.device.failed("reading an inner product", err))
			}
			out.Dots = append(out.Dots, math.Float64frombits(binary.LittleEndian.Uint64(word[:])))
		}
		return nil
	})
}

func (n *net) readScore(b []byte) device.Score {
	p := n.schedule.Program
	word := func(at int) int { return int(int32(binary.LittleEndian.Uint32(b[at:]))) }
	s := device.Score{
		Count: word(kernels.ScoreCount), Correct: word(kernels.ScoreCorrect),
		Loss: math.Float64frombits(binary.LittleEndian.Uint64(b[kernels.ScoreLoss:])),
	}
	classes := kernels.Classes(p.Loss, p.Outputs())
	if s.Count == 0 || classes == 0 {
		return s
	}
	s.Confusion = make([][]int, classes)
	for t := range s.Confusion {
		s.Confusion[t] = make([]int, classes)
		for c := range s.Confusion[t] {
			s.Confusion[t][c] = word(kernels.ScoreConfusion + 4*(t*classes+c))
		}
	}
	return s
}

func (q *queue) then(f func()) { q.later = append(q.later, f) }

func (q *queue) check(err error) bool {
	if q.err == nil {
		q.err = err
	}
	return q.err == nil
}

func (q *queue) vec(v device.Vector, size int) kernels.Ptr {
	x, err := q.net.vector(v)
	if q.check(err) && x.size != size {
		q.check(fmt.Errorf("vector %d holds %d values, want %d", v, x.size, size))
	}
	return kernels.Ptr(x.at)
}

func (q *queue) sum(s device.Sum) *sum {
	if s < 0 || int(s) >= len(q.net.sums) {
		q.check(fmt.Errorf("no sum %d on this network", s))
		return &sum{}
	}
	return q.net.sums[s]
}

func (q *queue) gradients(s device.Sum) *sum {
	x := q.sum(s)
	if x.form == scalars {
		q.check(fmt.Errorf("sum %d holds no gradients", s))
	}
	return x
}

func (q *queue) scalars(s device.Sum, size int) *sum {
	x := q.sum(s)
	if n := x.scalars(); n != size {
		q.check(fmt.Errorf("sum %d holds %d scalars, want %d", s, n, size))
	}
	return x
}

func (q *queue) table(d device.Data) *table {
	t, ok := d.(*table)
	if !ok || t == nil || t.device != q.net.device {
		q.check(errors.New("the table was not loaded on this device"))
		return &table{}
	}
	if want := ir.Size(q.net.schedule.Program.Shape); t.Width != want {
		q.check(fmt.Errorf("the table's rows have %d values, network %s reads %d", t.Width, q.net.schedule.Program.Name, want))
	}
	return t
}

// tallies notes that the step adds a run's rows to a sum on a grid.
func (q *queue) tallies(s *sum) {
	q.recorded.Checks = append(q.recorded.Checks, s.tally.Add)
	q.recorded.added = append(q.recorded.added, s.tally.Added)
}

func (q *queue) ClippedSum(dst device.Sum, from device.Data) {
	s, t := q.gradients(dst), q.table(from)
	if q.err != nil {
		return
	}
	q.recorded.Tables = append(q.recorded.Tables, &t.Rows)
	q.recorded.Clips = q.recorded.Clips || q.net.schedule.Private()
	if s.form == integers {
		q.tallies(s)
	}
	q.then(func() { q.clippedSum(kernels.Ptr(s.at), 0, t) })
}

func (q *queue) CountedSum(dst, count device.Sum, from device.Data) {
	if q.net.options.Exact {
		q.check(errors.New("norms within the clip norm are not counted on exact nets, which have no factors"))
		return
	}
	s, c, t := q.gradients(dst), q.scalars(count, 1), q.table(from)
	if q.net.schedule.Clipping != ir.Flat {
		q.check(fmt.Errorf("norms within the clip norm are counted under flat clipping, the schedule's is %s", q.net.schedule.Clipping))
	}
	if q.err != nil {
		return
	}
	q.recorded.Tables = append(q.recorded.Tables, &t.Rows)
	q.recorded.Clips = true
	q.then(func() { q.clippedSum(kernels.Ptr(s.at), kernels.Ptr(c.at), t) })
}

func (q *queue) Losses(dst device.Sum, from device.Data, ask device.LossQuery) {
	if !q.check(ask.Check()) {
		return
	}
	s, t, n := q.scalars(dst, ask.K), q.table(from), q.net
	at, dir := q.vec(ask.At, n.params), q.vec(ask.Dir, n.params)
	if q.err != nil || !q.check(n.searches.Fills(dst, ask.Form)) {
		return
	}
	q.recorded.Tables = append(q.recorded.Tables, &t.Rows)
	q.recorded.Clips = true
	q.recorded.Candidates = max(q.recorded.Candidates, ask.K)
	q.tallies(s)
	q.then(func() { q.lossSums(kernels.Ptr(s.at), at, dir, t, ask) })
}

func (q *queue) Release(dst device.Vector, src device.Sum, noise device.Noise) {
	n, s := q.net, q.sum(src)
	d := q.vec(dst, s.size)
	if noise.Exact() && !n.options.Exact {
		q.check(errors.New("exact noise was to be added to a floating-point sum: compile the network with Options.Exact"))
	}
	if q.err != nil || !q.check(q.recorded.Draw(noise, s.size)) {
		return
	}
	if c := noise.Stream().Cipher(); c != stream.ChaCha20 {
		q.check(fmt.Errorf("this device draws noise from %s, the stream is %s: make it with the cipher that device.Info names", stream.ChaCha20, c))
		return
	}
	switch s.form {
	case integers:
		q.recorded.Checks = append(q.recorded.Checks, s.tally.ReleaseGradients)
	case scalars:
		q.recorded.Checks = append(q.recorded.Checks, s.tally.Release(noise))
	}
	q.recorded.added = append(q.recorded.added, func(*device.Inputs) { s.tally.Released() })
	q.then(func() {
		z, err := n.noise(noise, s.size)
		if !q.check(err) {
			return
		}
		at := kernels.Ptr(s.at)
		if s.form == integers {
			q.launch(kernels.GridRelease(n.arena.run, d, at, s.size, z))
		} else {
			q.launch(kernels.Release(n.arena.run, d, at, s.size, z))
		}
		q.launch(kernels.ReleaseOpen(n.arena.run, d, at, s.size, z))
	})
}

func (q *queue) Update(r device.Rule, p, g device.Vector, state ...device.Vector) {
	if !q.check(r.Check(len(state))) {
		return
	}
	x, y := q.vec(p, q.net.params), q.vec(g, q.net.params)
	var st []kernels.Ptr
	for _, v := range state {
		st = append(st, q.vec(v, q.net.params))
	}
	if q.err != nil {
		return
	}
	q.then(func() { q.try(kernels.Update(q.net.arena.run, r, q.net.params, x, y, st...)) })
}

func (q *queue) Score(at device.Vector, public device.Data) {
	x, t := q.vec(at, q.net.params), q.table(public)
	if q.err != nil {
		return
	}
	rows := t.Count
	q.recorded.Checks = append(q.recorded.Checks, func(*device.Inputs) error {
		if t.Count != rows {
			return errors.New("the table that a step scores was closed")
		}
		return nil
	})
	q.then(func() { q.check(q.scored(x, t)) })
}

// scored makes room for a score and for a run of all rows, which never changes: the
// table is public.
func (q *queue) scored(at kernels.Ptr, t *table) error {
	n := q.net
	p := n.schedule.Program
	bytes := kernels.ScoreBytes(p.Loss, p.Outputs())
	to, err := n.alloc(int64(bytes), "a score", lessMemory)
	if err != nil {
		return err
	}
	rows := make([]byte, kernels.RunBytes+4*t.Count)
	binary.LittleEndian.PutUint32(rows[kernels.RunLive:], uint32(t.Count))
	for i := range t.Count {
		binary.LittleEndian.PutUint32(rows[kernels.RunRows+4*i:], uint32(i))
	}
	run, err := n.alloc(int64(len(rows)), "the rows of a score", lessMemory)
	if err != nil {
		return err
	}
	if err := n.device.failed("the rows of a score", n.device.context.CopyIn(run, rows)); err != nil {
		return err
	}
	q.recorded.scores = append(q.recorded.scores, scored{kernels.Ptr(to), make([]byte, bytes)})
	q.score(at, t, kernels.Ptr(run), kernels.Ptr(to))
	return nil
}
