package cpu

import (
	"sync/atomic"
	"time"

	"github.com/privgrad/privgrad/internal/device"
)

var _ device.Profiler = (*net)(nil)

// Profile times every step of the schedule from now on, example by example, but for dense layers and convolutions of several examples.
func (n *net) Profile() func() []time.Duration {
	spent := make([]atomic.Int64, len(n.schedule.Steps))
	n.build(func(step int, p phase) phase {
		return p.around(func(f func(int, *worker)) func(int, *worker) {
			return func(i int, w *worker) {
				start := time.Now()
				f(i, w)
				spent[step].Add(int64(time.Since(start)))
			}
		})
	})
	return func() []time.Duration {
		all := make([]time.Duration, len(spent))
		for i := range spent {
			all[i] = time.Duration(spent[i].Load())
		}
		return all
	}
}

// around wraps every function of a phase.
func (p phase) around(wrap func(func(int, *worker)) func(int, *worker)) phase {
	for i, f := range p.each {
		p.each[i] = wrap(f)
	}
	if rows := p.rows; rows != nil {
		p.rows = func(r0, r1 int, w *worker) { wrap(func(r0 int, w *worker) { rows(r0, r1, w) })(r0, w) }
	}
	if p.body != nil {
		p.body = wrap(p.body)
	}
	return p
}
