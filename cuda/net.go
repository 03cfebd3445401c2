package cuda

import (
	"errors"
	"fmt"
	"time"

	"github.com/privgrad/privgrad/cuda/driver"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/admit"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
)

// net is one compiled schedule. Its memory is one arena, laid out when it is
// compiled, and a block for every vector, sum and step that is asked for later.
type net struct {
	memory
	schedule *ir.Schedule
	options  device.Options
	apart    bool // dense products, from activations and from each other
	params   int
	stream   driver.Stream
	arena    arena
	blas     *blas           // nil: all products are the project's own
	spent    []time.Duration // by step of the schedule, since Profile was called; nil before
	ring     *ring
	vectors  []vector
	sums     []*sum
	steps    []*step
	keys     map[*stream.Stream]driver.Ptr // of the noise
	drawn    uint64
	searches admit.Searches
	err      error // the first failure, for good
}

// vector is float32 values on the device.
type vector struct {
	at   driver.Ptr
	size int
}

// sum is float64 values on the device; gradients of an exact net are int64.
type sum struct {
	at    driver.Ptr
	size  int
	form  form
	tally admit.Tally // of integers, and of losses among scalars
}

// scalars is how many a sum holds.
func (s *sum) scalars() int {
	if s.form == scalars {
		return s.size
	}
	return 0
}

// form says what a sum holds.
type form int

const (
	floats   form = iota // gradients
	integers             // an exact net's gradients, in grid steps
	scalars
)

const lessMemory = "choose a smaller batch that goes through the network together (memory, max_physical_batch), or a strategy that keeps less"

// Compile lays out a schedule's memory and gives it a stream.
func (d *Device) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	n, err := d.compile(s, o, o.CuBLAS)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// compile keeps dense products apart where cuBLAS multiplies, or what it does is compared.
func (d *Device) compile(s *ir.Schedule, o device.Options, apart bool) (*net, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := admit.CheckOptions(s, o, precisions); err != nil {
		return nil, err
	}
	if o.CuBLAS {
		if err := d.checkCuBLAS(o); err != nil {
			return nil, err
		}
	}
	n := &net{memory: memory{device: d}, schedule: s, options: o, apart: apart, params: s.Program.NumParams(), keys: map[*stream.Stream]driver.Ptr{}}
	err := d.do(func() error {
		err := n.open()
		if err != nil {
			return errors.Join(err, n.free())
		}
		d.owners = append(d.owners, n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

func (n *net) open() error {
	what := "network " + n.schedule.Program.Name
	if err := n.arena.layOut(n.schedule, n.options, max(n.device.info.SharedOptIn, n.device.info.SharedPerBlock), n.apart); err != nil {
		return err
	}
	base, err := n.alloc(n.arena.bytes, what, lessMemory)
	if err != nil {
		return err
	}
	n.arena.place(base)
	if n.arena.trunk != nil {
		if err := n.device.context.CopyIn(driver.Ptr(n.arena.stages), n.arena.table(n.schedule.Program)); err != nil {
			return n.device.failed(what, err)
		}
	}
	if n.stream, err = n.device.context.NewStream(); err != nil {
		return n.device.failed(what, err)
	}
	if n.ring, err = n.newRing(); err != nil {
		return err
	}
	params, err := n.zeros(4*int64(n.params), "the parameters of "+what)
	if err != nil {
		return err
	}
	n.vectors = append(n.vectors, vector{params, n.params})
	if n.options.CuBLAS {
		return n.openBLAS()
	}
	return nil
}

// zeros gives zeroed memory of whole 32-bit words.
func (n *net) zeros(bytes int64, what string) (driver.Ptr, error) {
	p, err := n.alloc(bytes, what, lessMemory)
	if err != nil {
		return 0, err
	}
	return p, n.device.failed(what, n.stream.Set(p, 0, int(bytes/4)))
}

// do runs f on the device's thread unless the net has failed.
func (n *net) do(f func() error) error {
	err := n.device.thread.do(func() error {
		if n.err == nil && n.device.err != nil {
			n.err = n.device.err
		}
		if n.err != nil {
			return n.err
		}
		return f()
	})
	if err == errClosed {
		return device.ErrClosed // with its device
	}
	return err
}

// fail makes an error stick. The caller is on the device's thread.
func (n *net) fail(err error) error {
	if n.err == nil {
		n.err = err
	}
	return n.err
}

// Params is the handle of the parameters.
func (n *net) Params() device.Vector { return 0 }

// NewVector makes a zero vector of width values per parameter.
func (n *net) NewVector(width int) (v device.Vector, err error) {
	return v, n.do(func() error {
		if width < 1 {
			return fmt.Errorf("a vector needs at least one value per parameter, was asked for %d", width)
		}
		v, err = n.newVector(width * n.params)
		return err
	})
}

// NewScalars makes size zero values.
func (n *net) NewScalars(size int) (v device.Vector, err error) {
	return v, n.do(func() error {
		if err := checkScalars(size); err != nil {
			return err
		}
		v, err = n.newVector(size)
		return err
	})
}

// NewSum makes a zero sum.
func (n *net) NewSum() (s device.Sum, err error) {
	return s, n.do(func() error {
		s, err = n.newSum(n.params, n.gradients())
		return err
	})
}

// NewScalarSum makes a zero sum of size values.
func (n *net) NewScalarSum(size int) (s device.Sum, err error) {
	return s, n.do(func() error {
		if err := checkScalars(size); err != nil {
			return err
		}
		s, err = n.newSum(size, scalars)
		return err
	})
}

func checkScalars(size int) error {
	if size < 1 {
		return fmt.Errorf("at least one scalar is needed, %d were asked for", size)
	}
	return nil
}

func (n *net) newVector(size int) (device.Vector, error) {
	p, err := n.zeros(4*int64(size), "a vector of "+n.schedule.Program.Name)
	if err != nil {
		return 0, err
	}
	n.vectors = append(n.vectors, vector{p, size})
	return device.Vector(len(n.vectors) - 1), nil
}

// gradients is the form of a sum of them.
func (n *net) gradients() form {
	if n.options.Exact {
		return integers
	}
	return floats
}

func (n *net) newSum(size int, f form) (device.Sum, error) {
	p, err := n.zeros(8*int64(size), "a sum of "+n.schedule.Program.Name)
	if err != nil {
		return 0, err
	}
	n.sums = append(n.sums, &sum{at: p, size: size, form: f})
	return device.Sum(len(n.sums) - 1), nil
}

func (n *net) vector(v device.Vector) (vector, error) {
	if v < 0 || int(v) >= len(n.vectors) {
		return vector{}, fmt.Errorf("no vector %d on this network", v)
	}
	return n.vectors[v], nil
}

// Write sets a vector, after all that was enqueued.
func (n *net) Write(v device.Vector, src []float32) error {
	return n.do(func() error {
		dst, err := n.vector(v)
		if err != nil {
			return err
		}
		if len(src) != dst.size {
			return fmt.Errorf("vector %d has %d values, was given %d", v, dst.size, len(src))
		}
		if err := n.wait(); err != nil {
			return err
		}
		if err := n.device.failed("writing a vector", n.device.context.CopyIn(dst.at, bytesOf(src))); err != nil {
			return n.fail(err)
		}
		return nil
	})
}

// Read copies a vector out, after all that was enqueued.
func (n *net) Read(v device.Vector, dst []float32) error {
	return n.do(func() error {
		src, err := n.vector(v)
		if err != nil {
			return err
		}
		if len(dst) != src.size {
			return fmt.Errorf("vector %d has %d values, room for %d was given", v, src.size, len(dst))
		}
		if err := n.wait(); err != nil {
			return err
		}
		if err := n.device.failed("reading a vector", n.device.context.CopyOut(bytesOf(dst), src.at)); err != nil {
			return n.fail(err)
		}
		return nil
	})
}

// wait is until the stream has done all that was enqueued; a failure of any of it
// shows here.
func (n *net) wait() error {
	if err := n.device.failed("network "+n.schedule.Program.Name, n.stream.Sync()); err != nil {
		return n.fail(err)
	}
	return nil
}

// Close frees the network. It is idempotent.
func (n *net) Close() error {
	err := n.device.drop(n)
	n.device.thread.do(func() error {
		n.err = device.ErrClosed
		return nil
	})
	return err
}

// free gives back all that the driver holds for the network, in an order that is
// right whatever has failed before. It may be called for a half-opened one.
func (n *net) free() error {
	var errs []error
	did := func(err error) { errs = append(errs, n.device.failed("closing a network", err)) }
	if n.stream != nil {
		if err := n.stream.Sync(); n.err == nil {
			did(err) // else it is a failure that was told
		}
		did(n.forgetKeys())
	}
	n.err = device.ErrClosed
	for _, s := range n.steps {
		if s.graph != nil {
			did(s.graph.Close())
		}
		did(s.timing.free())
	}
	n.steps = nil
	if n.blas != nil {
		did(n.blas.products.Close())
		n.blas = nil
	}
	if n.ring != nil {
		did(n.ring.free())
		n.ring = nil
	}
	if n.stream != nil {
		did(n.stream.Close())
		n.stream = nil
	}
	n.vectors, n.sums = nil, nil
	return n.device.joined(append(errs, n.release()))
}
