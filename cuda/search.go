package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/privgrad/privgrad/cuda/driver"
	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

// search is a step's search, of which the GPU does the comparison: it gets the
// thresholds with the run, and the sum never leaves it.
type search struct {
	right   device.Search
	queries int
	at      kernels.Ptr // of the index
}

func (s *search) draw(in *device.Inputs, thresholds []float64) {
	s.right.Thresholds(in, thresholds[:s.queries])
}

func (q *queue) FirstAbove(src device.Sum, of device.Search) {
	n := q.net
	if n.options.Exact {
		q.check(errors.New("exact nets have no line search yet: its noise is not exact"))
		return
	}
	x := q.sum(src, 0)
	if q.err != nil || !q.check(q.recorded.Search(of, src, x.size, &n.searches)) {
		return
	}
	queries, err := of.Queries(x.size)
	if !q.check(err) {
		return
	}
	s := &search{right: of, queries: queries}
	q.recorded.search = s
	q.recorded.added = append(q.recorded.added, func(*device.Inputs) {
		n.searches.Found = func() (bool, error) { // when the next run of the search asks
			if err := n.wait(); err != nil {
				return false, err
			}
			first, err := n.first(s.at)
			return first >= 0, err
		}
	})
	q.then(func() {
		at, err := n.alloc(4, "a search's index", lessMemory)
		if q.check(err) {
			s.at = kernels.Ptr(at)
			q.launch(kernels.FirstAbove(n.arena.run, kernels.Ptr(x.at), queries, of.Baseline(), of.Least(), s.at))
		}
	})
}

// first reads the index of the last search of a step.
func (n *net) first(at kernels.Ptr) (int, error) {
	var word [4]byte
	if err := n.device.context.CopyOut(word[:], driver.Ptr(at)); err != nil {
		return 0, n.fail(n.device.failed("reading a search's index", err))
	}
	return int(int32(binary.LittleEndian.Uint32(word[:]))), nil
}

// pair is two vectors of one width.
func (q *queue) pair(v, w device.Vector) (x, y kernels.Ptr, size int) {
	a, err := q.net.vector(v)
	q.check(err)
	return kernels.Ptr(a.at), q.vec(w, a.size), a.size
}

func (q *queue) Axpy(y device.Vector, a device.Slot, x device.Vector) {
	if a >= device.Slots {
		q.check(fmt.Errorf("there is no scalar %d", a))
	}
	to, from, size := q.pair(y, x)
	if q.err != nil {
		return
	}
	q.then(func() { q.launch(kernels.Axpy(q.net.arena.run, a, size, from, to)) })
}

func (q *queue) Dot(x, y device.Vector) {
	a, b, size := q.pair(x, y)
	if q.err != nil {
		return
	}
	q.then(func() {
		parts := kernels.Dots(size)
		at, err := q.net.alloc(int64(8*(parts+1)), "an inner product", lessMemory)
		if !q.check(err) {
			return
		}
		dst := kernels.Ptr(at)
		q.recorded.dots = append(q.recorded.dots, dst)
		q.launch(kernels.DotParts(size, a, b, dst+8))
		q.launch(kernels.DotSum(parts, dst+8, dst))
	})
}
