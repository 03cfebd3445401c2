// Package work shares work among goroutines, and says how far it is.
package work

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/privgrad/privgrad/internal/fault"
)

// A Meter counts work, and reports each of 1 to 100 percent once. Goroutines may share it.
type Meter struct {
	lock     sync.Mutex
	done, at int
	Total    int
	Report   func(percent int) // nil: nobody asks
}

// Add counts so much more of the total as done.
func (m *Meter) Add(n int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.done += n
	m.To(m.done * 100 / m.Total)
}

// Finish reports what is left.
func (m *Meter) Finish() { m.To(100) }

// To reports up to a percentage.
func (m *Meter) To(percent int) {
	for m.at < percent {
		m.at++
		if m.Report != nil {
			m.Report(m.at)
		}
	}
}

// Parallel calls do for 0 to n−1 on up to threads goroutines, each with a do of its
// own. A panic becomes an error that says where it was.
func Parallel(threads, n int, worker func() (do func(i int))) error {
	threads = max(min(threads, n), 1)
	errs := make([]error, threads)
	var next atomic.Int64
	var group sync.WaitGroup
	var work func(t int)
	work = func(t int) {
		done := false
		defer func() {
			if !done && errs[t] == nil { // runtime.Goexit: others go on
				group.Go(func() { work(t) })
			}
		}()
		defer fault.Recover(&errs[t])
		fault.Map()
		do := worker()
		for i := next.Add(1); i <= int64(n); i = next.Add(1) {
			do(int(i - 1))
		}
		done = true
	}
	for t := range threads {
		group.Go(func() { work(t) })
	}
	group.Wait()
	return errors.Join(errs...)
}
