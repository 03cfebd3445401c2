// Package mechanism turns private sums into values that may be used and shown.
// It is the only package that may add noise to a sum, and the only one that
// makes a Noisy.
package mechanism

import (
	"fmt"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/stream"
)

// Noisy is a released gradient sum: what an optimizer may learn from. Its
// zero value is refused, and only a mechanism makes another.
type Noisy struct {
	vector device.Vector
	valid  bool
}

// Vector is where the released values lie.
func (n Noisy) Vector() (device.Vector, error) {
	if !n.valid {
		return 0, fmt.Errorf("an optimizer was given a gradient that no mechanism released")
	}
	return n.vector, nil
}

type Mechanism interface {
	// Release records dst = src + noise into a step.
	Release(q device.Queue, dst device.Vector, src device.Sum) Noisy
	// Set fills in what the release reads from a run's inputs.
	Set(in *device.Inputs)
	// SetBound moves the bound on a record's share, and the noise with it: their
	// ratio, and so the event, stays. A bound must not depend on anything but
	// released and public values.
	SetBound(c float64)
	// Event is what one release costs the records it was computed from; nil
	// means that it protects nobody.
	Event() accountant.Mechanism
}

// claim takes a noise position, and fails where something has used it.
func claim(s *stream.Stream, draw uint64, what string) error {
	if !s.Claim(draw) {
		return fmt.Errorf("%s: noise position %d was used before; no noise is ever drawn twice", what, draw)
	}
	return nil
}

// claimFor is claim for so many private values. Where it fails nothing is left of them.
func claimFor(private []float64, values int, s *stream.Stream, draw uint64, what string) (err error) {
	if len(private) != values {
		err = fmt.Errorf("%s of %d values was made for %d", what, len(private), values)
	} else {
		err = claim(s, draw, what)
	}
	if err != nil {
		clear(private)
	}
	return err
}
