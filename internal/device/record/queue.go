package record

import (
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// queue checks what a step is to consist of and hands it on; its first error is Record's.
type queue struct {
	net  *Net
	step *Step
	to   device.Queue
	err  error
}

func (q *queue) check(err error) bool {
	if q.err == nil {
		q.err = err
	}
	return q.err == nil
}

// vectors are some of so many values each.
func (q *queue) vectors(size int, all ...device.Vector) {
	for _, v := range all {
		if have, err := q.net.values(v); q.check(err) && have != size {
			q.check(fmt.Errorf("vector %d holds %d values, want %d", v, have, size))
		}
	}
}

// pair is two vectors of one width.
func (q *queue) pair(v, w device.Vector) {
	size, err := q.net.values(v)
	q.check(err)
	q.vectors(size, w)
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
	if x.form == Scalars {
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

// scalars is how many a sum holds.
func (s *sum) scalars() int {
	if s.form == Scalars {
		return s.size
	}
	return 0
}

func (q *queue) table(d device.Data) *device.Rows {
	n := q.net
	t := n.memory.Rows(d)
	if t == nil {
		q.check(errors.New("the table was not loaded on this device"))
		return nil
	}
	if want := ir.Size(n.Schedule.Program.Shape); t.Width != want {
		q.check(fmt.Errorf("the table's rows have %d values, network %s reads %d", t.Width, n.Schedule.Program.Name, want))
	}
	return t
}

// gathers notes that the step adds up units of a private table, of so many rows each, clipped.
func (q *queue) gathers(from device.Data, rows int, clips bool) bool {
	if t := q.table(from); q.err == nil {
		q.step.tables = append(q.step.tables, gathered{t, t.Count / max(rows, 1)})
		q.step.clips = q.step.clips || clips
	}
	return q.err == nil
}

func (q *queue) ClippedSum(dst device.Sum, from device.Data) {
	s := q.gradients(dst)
	if !q.gathers(from, q.net.Schedule.UnitRows, q.net.Schedule.Private()) {
		return
	}
	q.views()
	if s.form == Integers {
		q.step.tallies(s)
	}
	q.to.ClippedSum(dst, from)
}

func (q *queue) CountedSum(dst, count device.Sum, from device.Data) {
	if q.net.Options.Exact {
		q.check(errors.New("norms within the clip norm are not counted on exact nets, which have no factors"))
		return
	}
	q.gradients(dst)
	q.scalars(count, 1)
	if c := q.net.Schedule.Clipping; c != ir.Flat {
		q.check(fmt.Errorf("norms within the clip norm are counted under flat clipping, the schedule's is %s", c))
	}
	if q.gathers(from, q.net.Schedule.UnitRows, true) {
		q.views()
		q.to.CountedSum(dst, count, from)
	}
}

// views notes that the step gathers views, which random maps draw.
func (q *queue) views() {
	if s := q.net.Schedule; len(s.Augment) > 0 {
		q.step.words = s.Views()
	}
}

func (q *queue) Losses(dst device.Sum, from device.Data, ask device.LossQuery) {
	if !q.check(ask.Check()) {
		return
	}
	s := q.scalars(dst, ask.K)
	q.vectors(q.net.Size, ask.At, ask.Dir)
	if q.err != nil || !q.check(s.fills(ask.Form)) || !q.gathers(from, 1, true) {
		return
	}
	q.step.candidates = max(q.step.candidates, ask.K)
	q.step.tallies(s)
	q.to.Losses(dst, from, ask)
}

func (q *queue) Release(dst device.Vector, src device.Sum, noise device.Noise) {
	s := q.sum(src)
	q.vectors(s.size, dst)
	if noise.Exact() && !q.net.Options.Exact {
		q.check(errors.New("exact noise was to be added to a floating-point sum: compile the network with Options.Exact"))
	}
	if q.err != nil || !q.check(q.step.releases(noise, s.size)) {
		return
	}
	switch s.form {
	case Integers:
		q.step.clears(s, s.tally.releaseGradients)
	case Scalars:
		q.step.clears(s, s.tally.hidden(noise.Std()))
	}
	q.to.Release(dst, src, noise)
}

func (q *queue) AboveThreshold(src device.Sum, s device.Search) {
	if q.asks(src, func(x *sum) error { return q.step.searches(s, x) }) {
		q.to.AboveThreshold(src, s)
	}
}

func (q *queue) ArgMin(src device.Sum, m device.Minimum) {
	if q.asks(src, func(x *sum) error { return q.step.minimum(m, x) }) {
		q.to.ArgMin(src, m)
	}
}

// asks notes that the step asks a sum for an index.
func (q *queue) asks(src device.Sum, note func(*sum) error) bool {
	x := q.sum(src)
	if q.err != nil || !q.check(note(x)) {
		return false
	}
	q.step.clears(x, x.tally.hidden(device.ThresholdStd, device.QueryStd))
	return true
}

func (q *queue) Axpy(y device.Vector, a device.Slot, x device.Vector) {
	if a >= device.Slots {
		q.check(fmt.Errorf("there is no scalar %d", a))
	}
	if q.pair(y, x); q.err == nil {
		q.to.Axpy(y, a, x)
	}
}

func (q *queue) Dot(x, y device.Vector) {
	if q.pair(x, y); q.err == nil {
		q.to.Dot(x, y)
	}
}

func (q *queue) Norm(dst, src device.Sum) {
	if q.norm(dst, src); q.err == nil {
		q.to.Norm(dst, src)
	}
}

func (q *queue) norm(dst, src device.Sum) {
	if q.net.Options.Exact {
		q.check(errors.New("exact nets release no norms: a record could move one by more than their integers tell"))
		return
	}
	q.scalars(dst, 1)
	q.gradients(src)
}

func (q *queue) Update(r device.Rule, p, g device.Vector, state ...device.Vector) {
	if !q.check(r.Check(len(state))) {
		return
	}
	q.vectors(q.net.Size, p, g)
	if q.vectors(q.net.Size, state...); q.err == nil {
		q.to.Update(r, p, g, state...)
	}
}

func (q *queue) Project(l device.LSTM, p, g, weights, state device.Vector) {
	if !q.check(l.Check()) {
		return
	}
	q.vectors(q.net.Size, p, g)
	q.vectors(l.Weights(), weights)
	if q.vectors(q.net.Size*l.States(), state); q.err == nil {
		q.to.Project(l, p, g, weights, state)
	}
}

// combiner is the device's, and nil where it has none.
func (q *queue) combiner() device.Combiner {
	c, ok := q.to.(device.Combiner)
	if !ok {
		q.check(device.ErrNoCombining)
	}
	return c
}

func (q *queue) Combine(src device.Sum, on device.Hidden, of device.Totals) {
	c := q.combiner()
	if q.sum(src); q.err == nil {
		c.Combine(src, on, of)
	}
}

func (q *queue) CombinedNorm(dst, src device.Sum, on device.Hidden, of device.Totals) {
	c := q.combiner()
	if q.norm(dst, src); q.err == nil {
		c.CombinedNorm(dst, src, on, of)
	}
}

func (q *queue) Score(at device.Vector, public device.Data) {
	q.vectors(q.net.Size, at)
	t := q.table(public)
	if q.err != nil {
		return
	}
	rows := t.Count
	q.step.checks = append(q.step.checks, func(*device.Inputs) error {
		if t.Count != rows {
			return errors.New("the table that a step scores was closed")
		}
		return nil
	})
	q.to.Score(at, public)
}
