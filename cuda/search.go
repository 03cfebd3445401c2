package cuda

import (
	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
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

func (q *queue) AboveThreshold(src device.Sum, of device.Search) { q.decide(src, of.Decide) }

func (q *queue) ArgMin(src device.Sum, of device.Minimum) { q.decide(src, of.Decide) }

// decide puts a sum aside for the host to decide.
func (q *queue) decide(src device.Sum, by func(*device.Inputs, []float64) (int, error)) {
	n := q.net
	size, _ := n.Sum(src)
	s := &search{net: n, by: by, values: make([]float64, size)}
	q.recorded.search, q.recorded.Index = s, s.decide
	q.then(func() {
		var err error
		s.at, err = n.zeros(8*int64(size), "the sum of a search")
		if q.check(err) {
			q.launch(kernels.Take(n.sums[src], size, kernels.Ptr(s.at)))
		}
	})
}

// ask notes a run that is to be decided.
func (s *search) ask(in *device.Inputs) {
	asked := *in
	asked.Rows = nil
	s.asked = &asked
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
		return 0, n.failed("reading the sum of a search", err)
	}
	if s.index, err = s.by(s.asked, s.values); err != nil {
		return 0, n.Fail(err)
	}
	s.asked = nil
	return s.index, nil
}

func (q *queue) Axpy(y device.Vector, a device.Slot, x device.Vector) {
	n := q.net
	q.then(func() { q.launch(kernels.Axpy(n.arena.run, a, n.Values(y), n.vectors[x], n.vectors[y])) })
}

func (q *queue) Dot(x, y device.Vector) {
	n, size := q.net, q.net.Values(x)
	q.then(func() {
		parts := kernels.Dots(size)
		at, err := n.alloc(int64(8*(parts+1)), "an inner product", lessMemory)
		if !q.check(err) {
			return
		}
		dst := kernels.Ptr(at)
		q.recorded.dots = append(q.recorded.dots, dst)
		q.launch(kernels.DotParts(size, n.vectors[x], n.vectors[y], dst+8))
		q.launch(kernels.DotSum(parts, dst+8, dst))
	})
}
