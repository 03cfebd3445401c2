// Package nccl is a collective.Group of processes with a GPU each. NCCL adds up what they have; it is found at run time, as
// the driver is. Rank 0 listens at an address by which the others find it.
//
// Sums are the host's. Each goes to the GPU, is added up there, and comes back.
package nccl

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/privgrad/privgrad/internal/collective"
	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/fault"
)

// Options say which process this is.
type Options struct {
	Rank, Size int
	GPU        int    // its number on this machine
	Address    string // host and port of rank 0
	Limit      time.Duration
	// Chunk is how many bytes are on the GPU at a time, a multiple of 8; 0: 32 MiB.
	Chunk int
}

// group implements collective.Group. Its Context stays with one goroutine. The device has another of the same GPU, current
// where it asks for a sum.
type group struct {
	o       Options
	line    *line
	calls   chan func()
	context driver.Context
	stream  driver.Stream
	member  driver.Rank
	buffer  driver.Ptr
	err     error
}

// Version is that of the library that a driver finds. The error says what was looked for and what to do.
func Version(d driver.Driver) (string, error) {
	l, ok := d.(driver.NCCL)
	if !ok {
		return "", errors.New("this driver has no NCCL")
	}
	v, err := l.NCCL()
	if err != nil {
		return "", fmt.Errorf("NCCL was not found: %w: install it (libnccl2, or Python's nvidia-nccl) and put its directory into LD_LIBRARY_PATH", err)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100), nil
}

// Choose gives the number of a process's GPU, by that of the process on its machine. A launcher may show each process its own GPU alone.
func Choose(d driver.Driver, local int) (int, error) {
	n, err := d.Devices()
	switch {
	case err != nil:
		return 0, err
	case n == 1:
		return 0, nil
	case local >= n:
		return 0, fmt.Errorf("process %d of this machine, counted from 0, has no GPU: there are %d; start one process for each GPU", local, n)
	}
	return local, nil
}

// Open finds the other ranks and joins their group.
func Open(d driver.Driver, o Options) (collective.Group, error) {
	if _, err := Version(d); err != nil {
		return nil, err
	}
	if o.Chunk == 0 {
		o.Chunk = 32 << 20
	}
	l, id, err := meet(o.Rank, o.Size, o.Address, o.Limit, d.(driver.NCCL).NewNCCLID)
	if err != nil {
		return nil, err
	}
	g := &group{o: o, line: l, calls: make(chan func())}
	go func() {
		for f := range g.calls {
			f()
		}
	}()
	if err := g.do("joining the group", func() error { return g.join(d, id) }); err != nil {
		g.end()
		return nil, err
	}
	return g, nil
}

func (g *group) join(d driver.Driver, id driver.NCCLID) (err error) {
	if g.context, err = d.Open(g.o.GPU); err != nil {
		return err
	}
	if g.stream, err = g.context.NewStream(); err != nil {
		return err
	}
	if g.buffer, err = g.context.Alloc(int64(g.o.Chunk)); err != nil {
		return fmt.Errorf("memory for sums of several GPUs: %w", err)
	}
	if g.member, err = g.context.(driver.NCCLContext).NewRank(g.stream, id, g.o.Rank, g.o.Size); err != nil {
		return err
	}
	return g.wait(g.member.Ready)
}

// do runs f on the goroutine of the context. Its error is final, and ends the group.
func (g *group) do(what string, f func() error) error {
	if g.err != nil {
		return g.err
	}
	done := make(chan error)
	g.calls <- func() {
		var err error
		defer func() { done <- err }()
		defer fault.Recover(&err)
		if err = f(); err == nil {
			return
		}
		g.leave()
		if !errors.As(err, new(heard)) {
			err = fmt.Errorf("%s: %w", what, err)
			g.line.tell(err)
		}
		err = fmt.Errorf("NCCL: %w", err)
	}
	g.err = <-done
	return g.err
}

// leave ends NCCL's own waiting.
func (g *group) leave() {
	if g.member != nil {
		_ = g.member.Close() // after a failure, which is told
		g.member = nil
	}
}

// The first questions follow each other at once; later ones leave the processor to others.
const spins = 200

var errStalled = errors.New("another rank has not come")

// wait is until something is done, or has failed on any rank.
func (g *group) wait(done func() (bool, error)) error {
	started := time.Now()
	for poll := 0; ; poll++ {
		ok, err := done()
		switch {
		case ok && err == nil:
			return nil
		case err != nil:
			return g.cause(err)
		}
		if err := g.line.failure(); err != nil {
			return err
		}
		if poll < spins {
			continue
		}
		waited := time.Since(started)
		if waited > g.o.Limit {
			return fmt.Errorf("%w within %s; %s", errStalled, g.o.Limit, raise)
		}
		collective.Nap(waited)
	}
}

// cause is the failure of another rank that NCCL's own is due to, where there is one: it arrives about then.
func (g *group) cause(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Call, "nccl") {
		return err
	}
	select {
	case <-g.line.failed:
		return g.line.failure()
	case <-time.After(time.Second):
		return err
	}
}

// done says whether the last call is, with its work. What has failed shows at the member, while the stream waits on.
func (g *group) done() (bool, error) {
	if ok, err := g.member.Ready(); !ok || err != nil {
		return false, err
	}
	return g.stream.Query()
}

// through takes values to the GPU, a part at a time, where call makes others of them.
func (g *group) through(what string, values []byte, call func(at driver.Ptr, bytes int) error) error {
	return g.do(what, func() error {
		for len(values) > 0 {
			part := values[:min(len(values), g.o.Chunk)]
			if err := g.context.CopyIn(g.buffer, part); err != nil {
				return err
			}
			if err := call(g.buffer, len(part)); err != nil {
				return g.cause(err)
			}
			if err := g.wait(g.done); err != nil {
				return err
			}
			if err := g.context.CopyOut(part, g.buffer); err != nil {
				return err
			}
			values = values[len(part):]
		}
		return nil
	})
}

func bytesOf[T int64 | float64](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 8*len(x))
}

func (g *group) Rank() int { return g.o.Rank }
func (g *group) Size() int { return g.o.Size }

// GPU is the number of the rank's own, on which the run is to compute as well.
func (g *group) GPU() int { return g.o.GPU }

func (g *group) SumInt64(values []int64) error {
	return g.through("a sum", bytesOf(values), func(at driver.Ptr, n int) error { return g.member.Sum(at, n/8, driver.Int64) })
}

// SumFloat64 gives all ranks the sums of rank 0: NCCL does not promise that theirs have the same bits.
func (g *group) SumFloat64(values []float64) error {
	err := g.through("a sum", bytesOf(values), func(at driver.Ptr, n int) error { return g.member.Sum(at, n/8, driver.Float64) })
	if err != nil {
		return err
	}
	return g.Broadcast(0, bytesOf(values))
}

func (g *group) Broadcast(root int, data []byte) error {
	if root < 0 || root >= g.o.Size {
		return fmt.Errorf("there is no rank %d of %d", root, g.o.Size)
	}
	return g.through("a message", data, func(at driver.Ptr, n int) error { return g.member.Broadcast(at, n, root) })
}

// Barrier is a sum that nobody reads.
func (g *group) Barrier() error {
	return g.through("a barrier", make([]byte, 8), func(at driver.Ptr, n int) error { return g.member.Sum(at, 1, driver.Int64) })
}

// Abort tells the others by the line.
func (g *group) Abort(err error) {
	if g.err != nil {
		return
	}
	g.line.tell(err)
	_ = g.do("", func() error { return heard{err} })
	g.err = err
}

// Close ends the group when all ranks are done. After a failure, which was told, it waits for nobody.
func (g *group) Close() error {
	var err error
	if g.err == nil {
		if err = g.line.part(g.o.Limit); err != nil {
			err = fmt.Errorf("NCCL: ending: %w", err)
		}
	}
	if g.err != errClosed {
		g.end()
	}
	g.err = errClosed
	return err
}

var errClosed = errors.New("the group is closed")

// end gives everything back.
func (g *group) end() {
	done := make(chan struct{})
	g.calls <- func() {
		defer close(done)
		g.leave()
		if g.context != nil {
			if g.err == nil {
				_ = g.context.CopyIn(g.buffer, make([]byte, g.o.Chunk)) // it holds a total without noise
			}
			_ = g.context.Close()
		}
	}
	<-done
	close(g.calls)
	g.line.hangUp()
}
