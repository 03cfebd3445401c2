package mechanism

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/exact"
	"github.com/privgrad/privgrad/internal/stream"
)

// Local turns one record's gradient into a report that anybody may see: local privacy. Whatever two
// gradients a record may have, the probability of a report differs by a factor of at most e^ε.
//
// Report works in the gradient's place, at a noise position that nothing has used. It clips the gradient to
// the bound first; a gradient with a number that is not finite counts as zero. Where it fails nothing is
// left of the gradient. docs/proofs/local.md has the proof.
type Local interface {
	Report(gradient []float64, draw uint64) error
	// Event is what a report costs where a record is added or removed: replacing it, which is what local
	// privacy is about, costs twice that.
	Event() accountant.Mechanism
}

// NewLocal makes reports at the pure ε of an event, twice that for replacing a record, of gradients of so many
// values and a norm of at most bound. With a radius they are points of a sphere (Duchi, Jordan and Wainwright 2018);
// with 0 the noise has a Gamma radius in a uniform direction (Song, Chaudhuri and Sarwate 2013). The tensor
// must be no other mechanism's.
func NewLocal(noise accountant.Pure, bound, radius float64, values int, s *stream.Stream, tensor uint32) (Local, error) {
	if radius == 0 {
		v, err := NewVector(noise, bound, values, s, tensor)
		return &gamma{v, bound}, err
	}
	return newHemisphere(noise, bound, radius, values, s, tensor)
}

// gamma adds a vector of density ∝ exp(−ε‖z‖/2G). A vector's event is for moves of G, and two clipped
// gradients are two of them apart.
type gamma struct {
	*Vector
	bound float64
}

func (m *gamma) Report(gradient []float64, draw uint64) error {
	clip(gradient, m.bound)
	return m.Release(gradient, draw)
}

// hemisphere gives the sphere's point radius·s·u. The direction u has a law that no record changes, and s says
// in which half about it the gradient lies, as randomized response: s is wrong with probability 1/(1+e^ε).
// So all that a report tells of a record is one randomized bit, however the rest is rounded.
type hemisphere struct {
	noise  accountant.Pure
	bound  float64
	values int
	stream *stream.Stream
	tensor uint32
	normal *exact.Sampler
	flip   uint64  // out of 2⁶⁴: how often the bit is wrong
	radius float64 // of the sphere, which privacy does not depend on
}

// directionScale is the deviation of the integers that a direction is made of.
const directionScale = 0x1p30

func newHemisphere(noise accountant.Pure, bound, radius float64, values int, s *stream.Stream, tensor uint32) (*hemisphere, error) {
	epsilon := 2 * noise.Epsilon
	switch {
	case !(epsilon > 0):
		return nil, fmt.Errorf("hemisphere noise at ε = %v: must be above 0", epsilon)
	case !(bound > 0) || bound > device.MostClip || !(radius > 0) || math.IsInf(radius, 0):
		return nil, fmt.Errorf("hemisphere noise on gradients up to %v, on a sphere of radius %v: both must be above 0, the first at most %g", bound, radius, float64(device.MostClip))
	case values < 1 || uint64(values) > 1<<24:
		return nil, fmt.Errorf("hemisphere noise on %d values: must be 1 to %d", values, 1<<24)
	}
	normal, err := exact.New(directionScale, s, tensor)
	if err != nil {
		return nil, err
	}
	// The factor is for the float64 operations of this line, so that the bit is wrong often enough.
	wrong := min(1/(1+math.Exp(epsilon))*(1+0x1p-48), 0.5)
	flip := max(uint64(math.Ceil(wrong*0x1p64)), 1)
	return &hemisphere{noise: noise, bound: bound, values: values, stream: s, tensor: tensor, normal: normal, flip: flip, radius: radius}, nil
}

func (m *hemisphere) Report(gradient []float64, draw uint64) error {
	if err := claimFor(gradient, m.values, m.stream, draw, "a report"); err != nil {
		return err
	}
	direction := make([]int64, m.values)
	m.normal.Add(direction, draw, 0)
	norm := clip(gradient, m.bound)
	along, length := 0.0, 0.0
	for i, k := range direction {
		along += float64(k) * gradient[i]
		length += float64(k) * float64(k)
	}
	if length == 0 {
		direction[0], length = 1, 1
	}
	size := m.radius / math.Sqrt(length)
	if !m.ahead(along, norm, draw) {
		size = -size
	}
	for i, k := range direction {
		gradient[i] = size * float64(k)
	}
	return nil
}

// coinBlock is where a report's coins begin. A direction's numbers end below block 2²³.
const coinBlock = 1 << 31

// ahead is the randomized bit. The vector asked about is the gradient or its opposite, at random, so
// that a report's mean has the gradient's norm.
func (m *hemisphere) ahead(along, norm float64, draw uint64) bool {
	var coins [16]byte
	m.stream.Fill(coins[:], draw, uint64(m.tensor)<<32|coinBlock)
	own := float64(binary.LittleEndian.Uint64(coins[:])>>11)*0x1p-53 < 0.5+norm/(2*m.bound)
	wrong := binary.LittleEndian.Uint64(coins[8:]) < m.flip
	return (along >= 0) == (own != wrong)
}

// Event is the noise that was given.
func (m *hemisphere) Event() accountant.Mechanism { return m.noise }

// clip scales a vector to a norm of at most bound, in exact arithmetic, and gives the norm that it then
// has, nearly. One with a number that is not finite becomes zero.
func clip(v []float64, bound float64) float64 {
	most := 0.0
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			clear(v)
			return 0
		}
		most = max(most, math.Abs(x))
	}
	if most == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += x / most * (x / most)
	}
	rounding := 0x1p-52 * float64(len(v)+8)
	norm := math.Sqrt(sum)
	if most*norm*(1+rounding) <= bound {
		return most * norm
	}
	scale := bound / norm * (1 - rounding)
	for i, x := range v {
		v[i] = x / most * scale
	}
	return bound
}
