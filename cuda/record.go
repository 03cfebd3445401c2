package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/record"
	"github.com/privgrad/privgrad/internal/stream"
)

// step is recorded work: one graph, whose launches read what differs between runs
// from the arena's run.
type step struct {
	record.Step
	net    *net
	graph  driver.Graph
	work   []work
	timing timing
	scores []scored
	search *search // or minimum; nil: the step has none
	dots   []kernels.Ptr
	stops  []stop
	pair   *pair // with a step that fills the sum that this one releases, or nil
	paired bool  // with one that releases the sum that this one fills
	// counts says that the host reads a released count after every step.
	counts bool
	ran    bool
}

// scored is where a step leaves a score.
type scored struct {
	at   kernels.Ptr
	host []byte
}

// queue makes launches of what was checked.
type queue struct {
	list
	recorded *step
	later    []func() // what enqueues the work: it may call the driver
	fills    []device.Sum
	releases []device.Sum
	gathers  bool // rows of its runs
}

// Record runs body once, then captures the launches that it stands for as one graph.
func (n *net) Record(body func(device.Queue)) (device.Step, error) {
	q := &queue{list: list{net: n, step: noStep}, recorded: &step{net: n}}
	if err := n.Net.Record(&q.recorded.Step, q, body); err != nil {
		return nil, err
	}
	err := n.Do(func() error {
		q.launch(n.ring.advance(1))
		for _, f := range q.later {
			f()
		}
		if q.err != nil {
			return q.err
		}
		n.steps = append(n.steps, q.recorded)
		return n.capture(q)
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
	first := s.work
	if len(s.stops) > 0 {
		first = s.work[:s.stops[0].at]
	}
	if s.graph, err = n.captureWork(first, func(int) error { return nil }); err != nil {
		return err
	}
	if err := s.captureStops(); err != nil {
		return err
	}
	if n.spent != nil {
		if err := s.time(); err != nil {
			return err
		}
	}
	return n.pairUp(q)
}

// pairUp finds what a step is half of.
func (n *net) pairUp(q *queue) (err error) {
	s := q.recorded
	switch {
	case len(q.fills) == 1 && len(q.later) == 1:
		n.fillers[q.fills[0]] = s
	case !q.gathers && s.stops == nil && s.scores == nil && s.search == nil && s.dots == nil:
		i := slices.IndexFunc(q.releases, func(sum device.Sum) bool { return n.fillers[sum] != nil })
		if i >= 0 {
			s.pair, err = n.newPair(n.fillers[q.releases[i]], s)
		}
	}
	return err
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
		return nil, n.failed("recording a step of "+n.Schedule.Program.Name, err)
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

// Run checks the inputs, and enqueues the graph or holds the run back until others have come. It waits
// only where as many runs as the ring has slots are under way, where a search goes on, or where the host has a part.
func (s *step) Run(in *device.Inputs) error {
	n := s.net
	return n.Do(func() error {
		if err := s.Admit(in); err != nil {
			return err
		}
		if s.search != nil {
			s.search.ask(in)
		}
		s.ran = true
		err := n.run(s, in)
		if err == nil {
			err = s.goOn(in)
		}
		return n.running(err)
	})
}

// Wait is until all is done that was enqueued, and reads the outputs of the last run.
func (s *step) Wait() (out device.Outputs, err error) {
	n := s.net
	return out, n.Do(func() error {
		if err := n.wait(); err != nil {
			return err
		}
		if !s.ran {
			return nil
		}
		for _, sc := range s.scores {
			if err := n.device.context.CopyOut(sc.host, driver.Ptr(sc.at)); err != nil {
				return n.failed("reading a score", err)
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
				return n.failed("reading an inner product", err)
			}
			out.Dots = append(out.Dots, math.Float64frombits(binary.LittleEndian.Uint64(word[:])))
		}
		return nil
	})
}

func (n *net) readScore(b []byte) device.Score {
	p := n.Schedule.Program
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

func (q *queue) ClippedSum(dst device.Sum, from device.Data) {
	q.fills, q.gathers = append(q.fills, dst), true
	q.then(func() { q.clippedSum(q.net.sums[dst], 0, from.(*table)) })
}

func (q *queue) CountedSum(dst, count device.Sum, from device.Data) {
	q.fills, q.gathers, q.recorded.counts = append(q.fills, dst), true, true
	q.then(func() { q.clippedSum(q.net.sums[dst], q.net.sums[count], from.(*table)) })
}

func (q *queue) Losses(dst device.Sum, from device.Data, ask device.LossQuery) {
	n := q.net
	q.gathers = true
	q.then(func() { q.lossSums(n.sums[dst], n.vectors[ask.At], n.vectors[ask.Dir], from.(*table), ask) })
}

func (q *queue) Release(dst device.Vector, src device.Sum, noise device.Noise) {
	n := q.net
	if c := noise.Stream().Cipher(); c != stream.ChaCha20 {
		q.check(fmt.Errorf("this device draws noise from %s, the stream is %s: make it with the cipher that device.Info names", stream.ChaCha20, c))
		return
	}
	size, form := n.Sum(src)
	q.releases = append(q.releases, src)
	q.then(func() {
		z, err := n.noise(noise)
		if !q.check(err) {
			return
		}
		d, at := n.vectors[dst], n.sums[src]
		if form == record.Integers {
			q.launch(kernels.GridRelease(n.arena.run, d, at, size, z))
		} else {
			q.launch(kernels.Release(n.arena.run, d, at, size, z))
		}
	})
}

func (q *queue) Update(r device.Rule, p, g device.Vector, state ...device.Vector) {
	n := q.net
	q.then(func() {
		if last := &q.work[len(q.work)-1].launch; r == device.SGD && len(state) == 0 {
			if l, ok := kernels.Descend(*last, n.Size, n.vectors[p], n.vectors[g]); ok {
				*last = l
				return
			}
		}
		var st []kernels.Ptr
		for _, v := range state {
			st = append(st, n.vectors[v])
		}
		q.try(kernels.Update(n.arena.run, r, n.Size, n.vectors[p], n.vectors[g], st...))
	})
}

func (q *queue) Project(l device.LSTM, p, g, weights, state device.Vector) {
	n, v := q.net, q.net.vectors
	q.then(func() { q.try(kernels.Project(n.arena.run, l, n.Size, v[p], v[g], v[weights], v[state])) })
}

func (q *queue) Norm(dst, src device.Sum) {
	n := q.net
	q.then(func() {
		parts := kernels.Dots(n.Size)
		at, err := n.alloc(int64(8*parts), "the norm of a sum", lessMemory)
		if !q.check(err) {
			return
		}
		q.launch(kernels.SquareParts(n.Size, n.sums[src], kernels.Ptr(at)))
		q.launch(kernels.AddNorm(parts, kernels.Ptr(at), n.sums[dst]))
	})
}

func (q *queue) Score(at device.Vector, public device.Data) {
	q.then(func() { q.check(q.scored(q.net.vectors[at], public.(*table))) })
}

// scored makes room for a score and for a run of all rows, which never changes: the
// table is public.
func (q *queue) scored(at kernels.Ptr, t *table) error {
	n := q.net
	p := n.Schedule.Program
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
