package cuda

import (
	"errors"
	"slices"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/kernels"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/record"
	"github.com/privgrad/privgrad/internal/ir"
	"github.com/privgrad/privgrad/internal/stream"
)

// net is one compiled schedule. Its memory is one arena, laid out when it is
// compiled, and a block for every vector, sum and step that is asked for later.
type net struct {
	memory
	record.Net
	apart   bool // dense products, from activations and from each other
	stream  driver.Stream
	arena   arena
	blas    *blas           // nil: all products are the project's own
	spent   []time.Duration // by step of the schedule, since Profile was called; nil before
	ring    *ring
	vectors []kernels.Ptr // of float32
	sums    []kernels.Ptr // of float64; gradients of an exact net are int64
	steps   []*step
	fillers map[device.Sum]*step // the last step that fills a sum and does nothing else
	held    held
	keys    map[*stream.Stream]driver.Ptr // of the noise
}

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
	if err := record.Check(s, o, repertoire); err != nil {
		return nil, err
	}
	if o.CuBLAS {
		if err := d.checkCuBLAS(o); err != nil {
			return nil, err
		}
	}
	n := &net{memory: memory{device: d}, apart: apart, keys: map[*stream.Stream]driver.Ptr{}, fillers: map[device.Sum]*step{}}
	n.Net = record.New(s, o, n)
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
	what := "network " + n.Schedule.Program.Name
	if err := n.arena.layOut(n.Schedule, n.Options, max(n.device.info.SharedOptIn, n.device.info.SharedPerBlock), n.apart); err != nil {
		return err
	}
	if slices.Contains(n.arena.pixels, true) {
		if err := n.device.trusted(n.arena.math); err != nil {
			return err
		}
	}
	base, err := n.alloc(n.arena.bytes, what, lessMemory)
	if err != nil {
		return err
	}
	for _, at := range n.arena.places {
		*at += kernels.Ptr(base)
	}
	n.arena.places = nil
	n.arena.share()
	if n.arena.trunk != nil {
		if err := n.device.context.CopyIn(driver.Ptr(n.arena.stages), n.arena.table(n.Schedule)); err != nil {
			return n.device.failed(what, err)
		}
	}
	if n.stream, err = n.device.context.NewStream(); err != nil {
		return n.device.failed(what, err)
	}
	// Parts of norms that no op has stay zero, and kernels add to those that nobody reads.
	for at, bytes := range map[kernels.Ptr]int{n.arena.norm2: n.arena.normBytes(), n.arena.unread: n.arena.unreadBytes} {
		if bytes > 0 {
			if err := n.device.failed(what, n.stream.Set(driver.Ptr(at), 0, bytes/4)); err != nil {
				return err
			}
		}
	}
	if n.ring, err = n.newRing(); err != nil {
		return err
	}
	params, err := n.zeros(4*int64(n.Size), "the parameters of "+what)
	if err != nil {
		return err
	}
	n.vectors = append(n.vectors, kernels.Ptr(params))
	if n.Options.CuBLAS {
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

// Do runs f where the driver may be called, unless the net has failed.
func (n *net) Do(f func() error) error {
	err := n.device.here(func() error {
		if n.Err == nil && n.device.err != nil {
			n.Err = n.device.err
		}
		if n.Err != nil {
			return n.Err
		}
		return f()
	})
	if err == errClosed {
		return device.ErrClosed // with its device
	}
	return err
}

func (n *net) AddVector(size int) error { return n.add(&n.vectors, 4*size, "a vector of ") }

func (n *net) AddSum(size int, _ record.Form) error { return n.add(&n.sums, 8*size, "a sum of ") }

func (n *net) add(to *[]kernels.Ptr, bytes int, what string) error {
	p, err := n.zeros(int64(bytes), what+n.Schedule.Program.Name)
	if err == nil {
		*to = append(*to, kernels.Ptr(p))
	}
	return err
}

func (n *net) WriteVector(v device.Vector, src []float32) error {
	if err := n.wait(); err != nil {
		return err
	}
	return n.failed("writing a vector", n.device.context.CopyIn(driver.Ptr(n.vectors[v]), bytesOf(src)))
}

func (n *net) ReadVector(v device.Vector, dst []float32) error {
	if err := n.wait(); err != nil {
		return err
	}
	return n.failed("reading a vector", n.device.context.CopyOut(bytesOf(dst), driver.Ptr(n.vectors[v])))
}

// failed makes a failure of the driver stick, and says what was going on.
func (n *net) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return n.Fail(n.device.failed(doing, err))
}

// running is failed for what runs.
func (n *net) running(err error) error {
	return n.failed("running a step of "+n.Schedule.Program.Name, err)
}

func (n *net) Rows(d device.Data) *device.Rows {
	if t, ok := d.(*table); ok && t != nil && t.device == n.device {
		return &t.Rows
	}
	return nil
}

// wait is until the stream has done all that was enqueued, and all that is held; a failure of any of it
// shows here.
func (n *net) wait() error {
	if err := n.flush(); err != nil {
		return n.running(err)
	}
	return n.failed("network "+n.Schedule.Program.Name, n.stream.Sync())
}

// Close frees the network. It is idempotent.
func (n *net) Close() error {
	err := n.device.drop(n)
	n.device.mu.Lock()
	defer n.device.mu.Unlock()
	n.Err = device.ErrClosed
	return err
}

// free gives back all that the driver holds for the network, in an order that is
// right whatever has failed before. It may be called for a half-opened one.
func (n *net) free() error {
	var errs []error
	did := func(err error) { errs = append(errs, n.device.failed("closing a network", err)) }
	if n.stream != nil {
		if n.Err == nil {
			did(n.flush())
		}
		if err := n.stream.Sync(); n.Err == nil {
			did(err) // else it is a failure that was told
		}
		did(n.forgetKeys())
	}
	n.Err = device.ErrClosed
	for _, s := range n.steps {
		if s.graph != nil {
			did(s.graph.Close())
		}
		for _, p := range s.stops {
			if p.graph != nil {
				did(p.graph.Close())
			}
		}
		if s.pair != nil {
			did(s.pair.free())
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
