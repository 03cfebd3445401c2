package cuda

import (
	"errors"

	"github.com/privgrad/privgrad/internal/fault"
)

var errClosed = errors.New("the GPU is closed")

// here runs f on the caller's thread, with the GPU's context current on it: one call at a time, and none after
// Close. That costs a call of the driver and no change of threads. Where the GPU is lost the context may not
// become current any more; f runs all the same, to let go of what belongs to the process.
func (d *Device) here(f func() error) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	if err := d.context.Enter(); err != nil {
		if err = d.failed("coming to the GPU", err); d.err == nil {
			return err
		}
		return guarded(f)
	}
	defer func() {
		if left := d.failed("leaving the GPU", d.context.Leave()); err == nil {
			err = left
		}
	}()
	return guarded(f)
}

// guarded makes an error of a fault, which must not end the process.
func guarded(f func() error) (err error) {
	defer fault.Recover(&err)
	return f()
}

// do is here unless the GPU is lost.
func (d *Device) do(f func() error) error {
	return d.here(func() error {
		if d.err != nil {
			return d.err
		}
		return f()
	})
}
