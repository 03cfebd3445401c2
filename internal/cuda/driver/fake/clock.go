package fake

import (
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/ptx"
)

// Timer does the work of kernels, and says how long work takes by the clocks.
type Timer interface {
	Kernel(Kernel) (time.Duration, error)
	Fill(bytes int) time.Duration
	Graph() time.Duration // what the start of a graph takes, beside its work
}

// Kernel is one to be run.
type Kernel struct {
	Module string
	*ptx.Kernel
	Memory      *ptx.Memory
	Launch      driver.Launch
	SharedLimit int // of ptx.Options
}

// plain runs kernels with some options, and all work takes as long.
type plain ptx.Options

const taskTime = 5 * time.Microsecond

func (p plain) Kernel(k Kernel) (time.Duration, error) {
	o := ptx.Options(p)
	o.SharedLimit = k.SharedLimit
	return taskTime, k.Kernel.Launch(k.Memory, k.Launch.Grid, k.Launch.Block, k.Launch.Shared, k.Launch.Args, o)
}

func (p plain) Fill(int) time.Duration { return taskTime }
func (p plain) Graph() time.Duration   { return 0 }

// Clock implements driver.Clock.
type Clock struct {
	context *Context
	marked  bool
	pending int // marks that the streams have not come to
	at      time.Duration
}

func (c *Context) NewClock() (driver.Clock, error) {
	if err := c.enter("cuEventCreate"); err != nil {
		return nil, err
	}
	k := &Clock{context: c}
	c.held[k] = true
	return k, nil
}

func (s *Stream) Mark(k driver.Clock) error {
	call := "cuEventRecord"
	if s.capture != nil {
		call = "cuEventRecordWithFlags"
	}
	if err := s.enter(call); err != nil {
		return err
	}
	c, ok := k.(*Clock)
	if !ok || !s.context.held[c] {
		return failure(call, invalidHandle, "the clock is closed or another context's")
	}
	s.put(task{time: c})
	return nil
}

func (k *Clock) Since(earlier driver.Clock) (time.Duration, error) {
	if err := k.Wait(); err != nil {
		return 0, err
	}
	e, ok := earlier.(*Clock)
	if !ok {
		return 0, failure("cuEventElapsedTime", invalidHandle, "no clock of this driver")
	}
	return k.Elapsed(e)
}

// Wait and Elapsed are the halves of Since, as the driver API has them.
func (k *Clock) Wait() error {
	const call = "cuEventSynchronize"
	if err := k.context.enterUncaptured(call); err != nil {
		return err
	}
	if !k.context.held[k] {
		return failure(call, invalidHandle, "the clock is closed")
	}
	k.context.advance(func() bool { return k.pending == 0 })
	return k.context.result(call)
}

// Elapsed is beside Wait.
func (k *Clock) Elapsed(earlier *Clock) (time.Duration, error) {
	const call = "cuEventElapsedTime"
	if err := k.context.enterUncaptured(call); err != nil {
		return 0, err
	}
	for _, c := range []*Clock{earlier, k} {
		switch {
		case !k.context.held[c] || !c.marked:
			return 0, failure(call, invalidHandle, "a clock is closed, or was never marked")
		case c.pending > 0:
			return 0, failure(call, notReady, "a clock is yet to be set")
		}
	}
	return k.at - earlier.at, nil
}

func (k *Clock) Close() error { return k.context.end("cuEventDestroy", k) }
