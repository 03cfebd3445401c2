package host

import (
	"time"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/record"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/pages"
)

var _ device.Profiler = (*net[float32])(nil)

// net implements device.Net over a backend. It runs at once: Run returns when
// the work is done, and Wait only hands over outputs.
type net[T Float] struct {
	record.Net
	backend Backend[T]
	vectors [][]T
	sums    []sum[T]
}

// A sum is a device.Sum, in one of its three forms. Scalars are float64 everywhere, in
// which numbers on a grid add up without rounding.
type sum[T Float] struct {
	floats   []T
	integers []int64
	scalars  []float64
	units    []int64 // of floats that were combined, in grid steps; nil where none are
}

// New checks the schedule against what a device can compute, and wraps a backend for it.
func New[T Float](s *ir.Schedule, o device.Options, make func() Backend[T], r record.Repertoire) (device.Net, error) {
	if o.CuBLAS {
		return nil, device.ErrNoLibrary
	}
	if err := record.Check(s, o, r); err != nil {
		return nil, err
	}
	n := &net[T]{backend: make()}
	n.Net = record.New(s, o, n)
	return n, n.AddVector(n.Size)
}

// Do runs f.
func (n *net[T]) Do(f func() error) error {
	if n.Err != nil {
		return n.Err
	}
	return f()
}

func (n *net[T]) AddVector(size int) error {
	n.vectors = append(n.vectors, pages.Make[T](size))
	return nil
}

func (n *net[T]) AddSum(size int, form record.Form) error {
	var s sum[T]
	switch form {
	case record.Floats:
		s.floats = pages.Make[T](size)
	case record.Integers:
		s.integers = make([]int64, size)
	default:
		s.scalars = make([]float64, size)
	}
	n.sums = append(n.sums, s)
	return nil
}

func (n *net[T]) WriteVector(v device.Vector, src []float32) error {
	dst := n.vectors[v]
	for i, x := range src {
		dst[i] = T(x)
	}
	n.wrote(v)
	return nil
}

// wrote follows every write to a vector.
func (n *net[T]) wrote(v device.Vector) {
	if v == n.Params() {
		n.backend.Moved()
	}
}

func (n *net[T]) ReadVector(v device.Vector, dst []float32) error {
	for i, x := range n.vectors[v] {
		dst[i] = float32(x)
	}
	return nil
}

// Rows is that of a Table, whichever host device it was loaded on.
func (n *net[T]) Rows(d device.Data) *device.Rows {
	if t, ok := d.(*Table); ok && t != nil {
		return &t.Rows
	}
	return nil
}

// Rounding is the backend's.
func (n *net[T]) Rounding(rows int) float64 { return n.backend.Rounding(rows) }

// Profile times the steps of a backend that can, and of others none.
func (n *net[T]) Profile() func() []time.Duration {
	if p, ok := n.backend.(device.Profiler); ok {
		return p.Profile()
	}
	return func() []time.Duration { return nil }
}

// Close frees the network. It is idempotent.
func (n *net[T]) Close() error {
	if n.Err == device.ErrClosed {
		return nil
	}
	n.Err = device.ErrClosed
	n.vectors, n.sums = nil, nil
	n.backend.Close()
	return nil
}

// Record notes what body enqueues.
func (n *net[T]) Record(body func(device.Queue)) (device.Step, error) {
	s := &step[T]{net: n}
	if err := n.Net.Record(&s.Step, &queue[T]{net: n, step: s}, body); err != nil {
		return nil, err
	}
	return s, nil
}

type step[T Float] struct {
	record.Step
	net     *net[T]
	work    []func(*device.Inputs, *device.Outputs)
	total   []device.Sum // that are totals from here on
	outputs device.Outputs
}

func (s *step[T]) Run(in *device.Inputs) error {
	return s.net.Do(func() error {
		if err := s.Admit(in); err != nil {
			return err
		}
		s.outputs = device.Outputs{} // a caller may keep the last ones
		for _, w := range s.work {
			w(in, &s.outputs)
		}
		return s.net.Err
	})
}

func (s *step[T]) Wait() (device.Outputs, error) { return s.outputs, s.net.Err }
