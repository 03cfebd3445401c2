package cuda

import (
	"errors"
	"math"
	"slices"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/record"
	"github.com/privgrad/privgrad/internal/exact"
)

var _ device.Combiner = (*queue)(nil)

var errGrid = errors.New("sums of several processes were to be added on a grid whose step is no power of two")

// A stop is where the host does a part of a step: it waits until the GPU has come there.
type stop struct {
	at    int // pieces of the step's work before it
	do    func(*device.Inputs) error
	graph driver.Graph // of what comes behind, up to the next stop; nil where there is nothing
}

// stop has the host do a part of the step here.
func (q *queue) stop(do func(*device.Inputs) error) {
	q.then(func() { q.recorded.stops = append(q.recorded.stops, stop{at: len(q.work), do: do}) })
}

// captureStops makes the graphs of what comes behind each stop. Their runs read the inputs of the step's first graph, which no other
// graph comes between.
func (s *step) captureStops() (err error) {
	for i := range s.stops {
		end := len(s.work)
		if i+1 < len(s.stops) {
			end = s.stops[i+1].at
		}
		if part := s.work[s.stops[i].at:end]; len(part) > 0 {
			if s.stops[i].graph, err = s.net.captureWork(part, func(int) error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// goOn does what comes behind the first stop, and waits for all but the end.
func (s *step) goOn(in *device.Inputs) error {
	for i := range s.stops {
		p := &s.stops[i]
		if err := s.net.stream.Sync(); err != nil {
			return err
		}
		if err := p.do(in); err != nil {
			return err
		}
		if p.graph != nil {
			if err := s.net.stream.Run(p.graph); err != nil {
				return err
			}
		}
	}
	return nil
}

// Combine has the host add up what the GPUs of all ranks have. A total is at most 2⁴⁹ steps of the grid, so that float64 has it.
func (q *queue) Combine(src device.Sum, on device.Hidden, of device.Totals) {
	n := q.net
	size, form := n.Sum(src)
	if form == record.Integers {
		values := make([]int64, size)
		q.stop(func(*device.Inputs) error {
			return edit(n, n.sums[src], values, func() error { return of.SumInt64(values) })
		})
		return
	}
	p := newParts(size)
	q.stop(func(in *device.Inputs) error {
		return edit(n, n.sums[src], p.values, func() error { return p.total(on.Grid(in), of) })
	})
}

// normBlock squares are added one after the other, and then the blocks.
const normBlock = 4096

// CombinedNorm leaves the sum as it is. The squares are added in blocks, as those of Norm are.
func (q *queue) CombinedNorm(dst, src device.Sum, on device.Hidden, of device.Totals) {
	n, p, norm := q.net, newParts(q.net.Size), make([]float64, 1)
	q.stop(func(in *device.Inputs) error {
		defer clear(p.values)
		if err := n.device.context.CopyOut(bytesOf(p.values), driver.Ptr(n.sums[src])); err != nil {
			return err
		}
		if err := p.total(on.Grid(in)/4, of); err != nil {
			return err
		}
		squares := 0.0
		for block := range slices.Chunk(p.values, normBlock) {
			sum := 0.0
			for _, x := range block {
				sum += float64(x * x)
			}
			squares += sum
		}
		return edit(n, n.sums[dst], norm, func() error {
			norm[0] += math.Sqrt(squares)
			return nil
		})
	})
}

// edit has f change values of the GPU, and leaves none of them on the host.
func edit[T int64 | float64](n *net, at kernels.Ptr, values []T, f func() error) error {
	defer clear(values)
	err := n.device.context.CopyOut(bytesOf(values), driver.Ptr(at))
	if err == nil {
		err = f()
	}
	if err == nil {
		err = n.device.context.CopyIn(driver.Ptr(at), bytesOf(values))
	}
	return err
}

// parts are what a rank has of a total, while it is added up.
type parts struct {
	values []float64
	units  []int64
}

func newParts(size int) *parts { return &parts{make([]float64, size), make([]int64, size)} }

// total puts the sum over all ranks in the place of the values, each of which is rounded to the grid first. Without noise the
// step is 0, and nothing is rounded.
func (p *parts) total(step float64, of device.Totals) error {
	if step == 0 {
		return of.SumFloat64(p.values)
	}
	defer clear(p.units)
	if !exact.Units(p.units, p.values, step) {
		return errGrid
	}
	if err := of.SumInt64(p.units); err != nil {
		return err
	}
	exact.Clamp(p.units)
	for i, k := range p.units {
		p.values[i] = float64(k) * step
	}
	return nil
}
