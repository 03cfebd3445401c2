//go:build gocuda && cgo && linux

package cudrv

// #include "cuda.h"
import "C"

import (
	"fmt"
	"time"

	"github.com/privgrad/privgrad/internal/cuda/driver"
)

// clock is an event with a time.
type clock struct {
	*holding
	event C.CUevent
}

func (c *context) NewClock() (driver.Clock, error) {
	const call = "cuEventCreate"
	if err := c.enter(call); err != nil {
		return nil, err
	}
	var e C.CUevent
	if err := code(call, C.cuEventCreate(&e, C.CU_EVENT_DEFAULT)); err != nil {
		return nil, err
	}
	return &clock{c.hold("cuEventDestroy", func() error { return code("cuEventDestroy", C.cuEventDestroy(e)) }), e}, nil
}

// Mark records the event. In a capture that alone would order streams and set no
// time: an external record is a node of the graph.
func (s *stream) Mark(k driver.Clock) error {
	const call = "cuEventRecord"
	if err := s.context.enter(call); err != nil {
		return err
	}
	c, ok := k.(*clock)
	if !ok {
		return fmt.Errorf("cannot set %T on this driver", k)
	}
	if s.capturing {
		return code("cuEventRecordWithFlags", C.cuEventRecordWithFlags(c.event, s.handle, C.CU_EVENT_RECORD_EXTERNAL))
	}
	return code(call, C.cuEventRecord(c.event, s.handle))
}

func (c *clock) Since(earlier driver.Clock) (time.Duration, error) {
	if err := c.context.enter("cuEventSynchronize"); err != nil {
		return 0, err
	}
	e, ok := earlier.(*clock)
	if !ok {
		return 0, fmt.Errorf("cannot compare with %T on this driver", earlier)
	}
	if err := code("cuEventSynchronize", C.cuEventSynchronize(c.event)); err != nil {
		return 0, err
	}
	var ms C.float
	err := code("cuEventElapsedTime", C.cuEventElapsedTime(&ms, e.event, c.event))
	return time.Duration(float64(ms) * 1e6), err
}
