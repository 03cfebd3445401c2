package cuda

import (
	"fmt"

	"github.com/privgrad/privgrad/cuda/driver"
	"github.com/privgrad/privgrad/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
)

// search is a step's search, or its minimum. The GPU puts the sum of a run aside, and the host decides when it is
// asked for the index: the comparison takes as many digits of the noise as it needs.
type search struct {
	net    *net
	by     func(*device.Inputs, []float64) (int, error)
	values []float64      // of the sum, while it is decided
	at     driver.Ptr     // where the GPU puts them
	asked  *device.Inputs // of the last run, until it is decided
	index  int
}

func (q *queue) AboveThreshold(src device.Sum, of device.Search) {
	n, x := q.net, q.sum(src)
	if q.err != nil || !q.check(q.recorded.Search(of, src, x.scalars(), &n.searches)) {
		return
	}
	s := q.search(x, of.Decide)
	q.recorded.added = append(q.recorded.added, func(*device.Inputs) {
		n.searches.Found = func() (bool, error) { // when the next run of the search asks
			first, err := s.decide()
			return first >= 0, err
		}
	})
}

func (q *queue) ArgMin(src device.Sum, of device.Minimum) {
	x := q.sum(src)
	if q.err != nil || !q.check(q.recorded.Minimum(of, src, x.scalars(), &q.net.searches)) {
		return
	}
	q.search(x, of.Decide)
}

// search puts a sum aside for the host to decide.
func (q *queue) search(x *sum, by func(*device.Inputs, []float64) (int, error)) *search {
	n := q.net
	s := &search{net: n, by: by, values: make([]float64, x.size)}
	q.recorded.search = s
	q.recorded.Checks = append(q.recorded.Checks, x.tally.Search)
	q.recorded.added = append(q.recorded.added, func(in *device.Inputs) {
		x.tally.Released()
		asked := *in
		asked.Rows = nil
		s.asked = &asked
	})
	q.then(func() {
		var err error
		s.at, err = n.zeros(8*int64(x.size), "the sum of a search")
		if q.check(err) {
			q.launch(kernels.Take(kernels.Ptr(x.at), x.size, kernels.Ptr(s.at)))
		}
	})
	return s
}

// decide gives the index that the last run has found, and leaves nothing of the sum.
func (s *search) decide() (int, error) {
	if s.asked == nil {
		return s.index, nil
	}
	n := s.net
	if err := n.wait(); err != nil {
		return 0, err
	}
	defer clear(s.values)
	err := n.device.context.CopyOut(bytesOf(s.values), s.at)
	if err == nil {
		err = n.stream.Set(s.at, 0, 2*len(s.values))
	}
	if err != nil {
		return 0, n.fail(n.device.failed("reading the sum of a search", err))
	}
	if s.index, err = s.by(s.asked, s.values); err != nil {
		return 0, n.fail(err)
	}
	s.asked = nil
	return s.index, nil
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
