// Package record is the front half of every device. It keeps a net's handles, checks what
// its steps are to consist of and what their runs are given (rows that exist, a clip
// norm and deviations that are numbers, noise positions that nobody used), and hands on
// work that can be done as it stands. A device has the memory and does the work.
package record

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// Memory is where a device keeps a net's values, by handle. What a Net asks of it is
// checked; of the methods but Do it is asked within Do.
type Memory interface {
	// Do runs f where the device works, unless the net has failed.
	Do(f func() error) error
	// AddVector and AddSum make zeros for the next handle. Vector 0, the parameters, is there.
	AddVector(size int) error
	AddSum(size int, form Form) error
	WriteVector(device.Vector, []float32) error
	ReadVector(device.Vector, []float32) error
	// Rows is the table that was loaded on the device as data, nil for another's.
	Rows(device.Data) *device.Rows
}

// Form says what a sum holds.
type Form int

const (
	Floats   Form = iota // gradients
	Integers             // an exact net's gradients, in grid steps
	Scalars
)

// Net is what a device.Net consists of beside memory and work.
type Net struct {
	Schedule *ir.Schedule
	Options  device.Options
	Size     int   // of the parameters
	Err      error // the first failure, for good
	memory   Memory
	vectors  []int // how many values each has
	sums     []*sum
	drawn    uint64 // the last noise position
	searches searches
}

type sum struct {
	size  int
	form  Form
	tally tally // of integers, and of losses among scalars
	// A sum that differences of losses fill is not one whose values are compared themselves.
	differences, based bool
}

// New is a net of a schedule that Check has found nothing in.
func New(s *ir.Schedule, o device.Options, m Memory) Net {
	size := s.Program.NumParams()
	return Net{Schedule: s, Options: o, Size: size, memory: m, vectors: []int{size}}
}

// Fail makes an error stick.
func (n *Net) Fail(err error) error {
	if n.Err == nil {
		n.Err = err
	}
	return n.Err
}

func (n *Net) Params() device.Vector { return 0 }

// Parts is 1: a net has all of its sums.
func (n *Net) Parts() int { return 1 }

// NewVector makes a zero vector of width values per parameter.
func (n *Net) NewVector(width int) (device.Vector, error) {
	var refused error
	if width < 1 {
		refused = fmt.Errorf("a vector needs at least one value per parameter, was asked for %d", width)
	}
	return n.addVector(width*n.Size, refused)
}

func (n *Net) NewScalars(size int) (device.Vector, error) {
	return n.addVector(size, checkScalars(size))
}

// NewSum makes a zero sum.
func (n *Net) NewSum() (device.Sum, error) {
	if n.Options.Exact {
		return n.addSum(n.Size, Integers, nil)
	}
	return n.addSum(n.Size, Floats, nil)
}

// NewScalarSum makes a zero sum of size values.
func (n *Net) NewScalarSum(size int) (device.Sum, error) {
	return n.addSum(size, Scalars, checkScalars(size))
}

func checkScalars(size int) error {
	if size < 1 {
		return fmt.Errorf("at least one scalar is needed, %d were asked for", size)
	}
	return nil
}

func (n *Net) add(refused error, f func() error) error {
	return n.memory.Do(func() error {
		if refused != nil {
			return refused
		}
		return f()
	})
}

func (n *Net) addVector(size int, refused error) (device.Vector, error) {
	if err := n.add(refused, func() error { return n.memory.AddVector(size) }); err != nil {
		return 0, err
	}
	n.vectors = append(n.vectors, size)
	return device.Vector(len(n.vectors) - 1), nil
}

func (n *Net) addSum(size int, form Form, refused error) (device.Sum, error) {
	if err := n.add(refused, func() error { return n.memory.AddSum(size, form) }); err != nil {
		return 0, err
	}
	n.sums = append(n.sums, &sum{size: size, form: form})
	return device.Sum(len(n.sums) - 1), nil
}

func (n *Net) values(v device.Vector) (int, error) {
	if v < 0 || int(v) >= len(n.vectors) {
		return 0, fmt.Errorf("no vector %d on this network", v)
	}
	return n.vectors[v], nil
}

// Values is how many values a vector has, and Sum how many a sum has and which. The
// handles are the net's.
func (n *Net) Values(v device.Vector) int          { return n.vectors[v] }
func (n *Net) Sum(s device.Sum) (size int, f Form) { return n.sums[s].size, n.sums[s].form }

// Write sets a vector, after all that was enqueued.
func (n *Net) Write(v device.Vector, src []float32) error {
	return n.move(v, len(src), "was given %d", func() error { return n.memory.WriteVector(v, src) })
}

// Read copies a vector out, after all that was enqueued.
func (n *Net) Read(v device.Vector, dst []float32) error {
	return n.move(v, len(dst), "room for %d was given", func() error { return n.memory.ReadVector(v, dst) })
}

// move does what moves all values of a vector, where so many were given.
func (n *Net) move(v device.Vector, count int, given string, f func() error) error {
	return n.memory.Do(func() error {
		size, err := n.values(v)
		if err != nil {
			return err
		}
		if count != size {
			return fmt.Errorf("vector %d has %d values, "+given, v, size, count)
		}
		return f()
	})
}

// Record hands what body enqueues on to to, checked, and notes in s what it asks of runs.
func (n *Net) Record(s *Step, to device.Queue, body func(device.Queue)) error {
	if err := n.memory.Do(func() error { return nil }); err != nil {
		return err
	}
	s.net = n
	q := &queue{net: n, step: s, to: to}
	body(q)
	return q.err
}
