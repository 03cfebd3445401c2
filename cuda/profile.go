package cuda

import (
	"errors"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/device"
)

var _ device.Profiler = (*net)(nil)

// Profile times every step of the schedule from now on: a step that is run takes a
// second graph, which has clocks between the launches of different steps, and
// Run waits for it. What lies between, as the gathering of rows, belongs to no step; the time of a
// launch that does several steps to the one whose launch it is, the first of equals, and the others get none. Where the
// driver fails, the times are nil and the network is spoiled.
func (n *net) Profile() func() []time.Duration {
	err := n.Do(func() error {
		n.spent = make([]time.Duration, len(n.Schedule.Steps))
		if err := n.wait(); err != nil {
			return err
		}
		for _, s := range n.steps {
			if err := s.time(); err != nil {
				return err
			}
		}
		return nil
	})
	return func() (all []time.Duration) {
		if err != nil {
			return nil
		}
		n.device.mu.Lock()
		defer n.device.mu.Unlock()
		return append(all, n.spent...)
	}
}

// timing is a step's graph with clocks.
type timing struct {
	graph  driver.Graph
	clocks []driver.Clock
	steps  []int // of the schedule, between a clock and the next
}

// time captures the step with clocks, if it does anything that the schedule says, and the host has no part in it.
func (s *step) time() error {
	n, t := s.net, &s.timing
	if t.graph != nil || s.stops != nil {
		return nil
	}
	any := false
	last := noStep - 1
	var marks []int
	for i, w := range s.work {
		if w.step != last {
			marks, last = append(marks, i), w.step
			t.steps = append(t.steps, w.step)
			any = any || w.step != noStep
		}
	}
	if !any {
		return nil
	}
	for range len(marks) + 1 {
		k, err := n.device.context.NewClock()
		if err != nil {
			return n.failed("a clock", err)
		}
		t.clocks = append(t.clocks, k)
	}
	marks = append(marks, len(s.work))
	next := 0
	var err error
	t.graph, err = n.captureWork(s.work, func(i int) error {
		if i != marks[next] {
			return nil
		}
		next++
		return n.stream.Mark(t.clocks[next-1])
	})
	return err
}

// toRun is the graph with clocks where there is one.
func (s *step) toRun() driver.Graph {
	if s.timing.graph != nil {
		return s.timing.graph
	}
	return s.graph
}

// add waits for the run and adds its times.
func (t *timing) add(spent []time.Duration) error {
	for i, step := range t.steps {
		if t.graph == nil || step == noStep {
			continue
		}
		d, err := t.clocks[i+1].Since(t.clocks[i])
		if err != nil {
			return err
		}
		spent[step] += d
	}
	return nil
}

func (t *timing) free() error {
	var errs []error
	if t.graph != nil {
		errs = append(errs, t.graph.Close())
	}
	for _, k := range t.clocks {
		errs = append(errs, k.Close())
	}
	*t = timing{}
	return errors.Join(errs...)
}
