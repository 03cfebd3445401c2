// Package local is a collective.Group of goroutines: for tests, and for processes that are threads. It can fail on
// purpose.
package local

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/privgrad/privgrad/internal/collective"
)

// Options are of all ranks.
type Options struct {
	// Limit is how long a call waits for the others; 0: a minute.
	Limit time.Duration
	// Fault is asked before every call of a rank, with its number from 0 on: an error is what the rank dies of, and
	// what stalls it may wait. nil: none.
	Fault func(rank, call int) error
}

var (
	errStalled = errors.New("another rank has not come within the time limit")
	errClosed  = errors.New("the group is closed")
	errOrder   = errors.New("ranks make different calls")
)

// New makes the ranks of a group.
func New(n int, o Options) []collective.Group {
	if o.Limit == 0 {
		o.Limit = time.Minute
	}
	r := &room{options: o, size: n}
	r.cond = sync.NewCond(&r.mu)
	all := make([]collective.Group, n)
	for i := range all {
		all[i] = &rank{room: r, number: i}
	}
	return all
}

// A room is where ranks meet: the last that comes does the work of all.
type room struct {
	options Options
	size    int
	mu      sync.Mutex
	cond    *sync.Cond
	met     int // meetings so far
	here    []any
	err     error
}

type rank struct {
	*room
	number, calls int
	closed        bool
}

// meet waits for all ranks, of which the last does work on what each has brought.
func (r *rank) meet(mine any, work func(all []any) error) error {
	if f := r.options.Fault; f != nil {
		r.calls++
		if err := f(r.number, r.calls-1); err != nil {
			r.Abort(err)
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	if r.err != nil {
		return r.err
	}
	if r.here == nil {
		r.here = make([]any, 0, r.size)
	}
	meeting := r.met
	r.here = append(r.here, mine)
	if len(r.here) == r.size {
		if err := work(r.here); err != nil {
			r.err = err
		}
		r.here, r.met = nil, r.met+1
		r.cond.Broadcast()
		return r.err
	}
	stop := time.AfterFunc(r.options.Limit, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.met == meeting && r.err == nil {
			r.err = errStalled
		}
		r.cond.Broadcast()
	})
	defer stop.Stop()
	for r.met == meeting && r.err == nil {
		r.cond.Wait()
	}
	return r.err
}

func (r *rank) Rank() int { return r.number }
func (r *rank) Size() int { return r.size }

func (r *rank) SumInt64(values []int64) error     { return sum(r, values) }
func (r *rank) SumFloat64(values []float64) error { return sum(r, values) }

// sum adds in the order of the ranks, so that floats are the same each time.
func sum[T int64 | float64](r *rank, values []T) error {
	type part struct {
		rank   int
		values []T
	}
	return r.meet(part{r.number, values}, func(all []any) error {
		parts := make([][]T, r.size)
		for _, x := range all {
			p, ok := x.(part)
			if !ok || len(p.values) != len(values) {
				return errOrder
			}
			parts[p.rank] = p.values
		}
		for i := range values {
			var total T
			for _, p := range parts {
				total += p[i]
			}
			for _, p := range parts {
				p[i] = total
			}
		}
		return nil
	})
}

func (r *rank) Broadcast(root int, data []byte) error {
	type part struct {
		rank, root int
		data       []byte
	}
	if root < 0 || root >= r.size {
		return fmt.Errorf("there is no rank %d of %d", root, r.size)
	}
	return r.meet(part{r.number, root, data}, func(all []any) error {
		var from []byte
		for _, x := range all {
			p, ok := x.(part)
			if !ok || p.root != root || len(p.data) != len(data) {
				return errOrder
			}
			if p.rank == root {
				from = p.data
			}
		}
		for _, x := range all {
			copy(x.(part).data, from)
		}
		return nil
	})
}

func (r *rank) Barrier() error {
	return r.meet(struct{}{}, func(all []any) error {
		for _, x := range all {
			if _, ok := x.(struct{}); !ok {
				return errOrder
			}
		}
		return nil
	})
}

func (r *rank) Abort(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf("rank %d: %w", r.number, err)
	}
	r.cond.Broadcast()
}

func (r *rank) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}
