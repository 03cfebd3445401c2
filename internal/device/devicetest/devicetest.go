// Package devicetest is one conformance suite over the device contract. Every
// device runs it in one line; what it means to be right is the float64
// reference, one example at a time. What a device promises is a list of claims; each is
// a subtest of its own, so that a device that fails says which one it breaks.
//
// A test sees a sum by releasing it with noise of standard deviation 0.
package devicetest

import (
	"testing"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// claims are what a device promises, by name, each with its test. All of a list
// are tested on the same: a device, or a case on one.
type claims[On any] []struct {
	name string
	test func(*testing.T, On)
}

// run tests each claim as a subtest of its name.
func (list claims[On]) run(t *testing.T, on On) {
	for _, claim := range list {
		t.Run(claim.name, func(t *testing.T) { claim.test(t, on) })
	}
}

// Run checks a device. open is called once a group of claims and the device closed after it.
func Run(t *testing.T, open func(*testing.T) device.Device) {
	for _, test := range []struct {
		name     string
		group    func(*testing.T, device.Device)
		products bool // what it looks at depends on them
	}{
		{"sums", testSums, true},
		{"kinks", kinkClaims.run, true},
		{"metamorphic", testMetamorphic, true},
		{"stale memory", testStaleMemory, true},
		{"capacity", capacityClaims.run, true},
		{"invalid targets", targetClaims.run, true},
		{"a NaN example poisons nothing (opacus)", finiteClaims.run, true},
		{"clipping", clippingClaims.run, true},
		{"clippings", otherClippingClaims.run, true},
		{"class weights", testClassWeights, true},
		{"counted sums", on(countClaims, "thrice", 6, 34, 6), true},
		{"rounding", roundingClaims.run, true},
		{"accumulation", on(accumulationClaims, "thrice", 10, 13, 10), false},
		{"tables", tableClaims.run, false},
		{"gather", gatherClaims.run, false},
		{"maps", testMappers, false},
		{"views", testViews, true},
		{"losses", on(lossClaims, "thrice", 6, 24, 6), true},
		{"candidates", candidateClaims.run, true},
		{"losses at the present parameters", testPresentLosses, true},
		{"exact", testExact, false},
		{"release", on(releaseClaims, "dense-wide", 5, 14, 5), false},
		{"update", on(updateClaims, "dense-wide", 5, 14, 1), false},
		{"project", projectClaims.run, false},
		{"norm", on(normClaims, "thrice", 5, 66, 5), false},
		{"vectors", testVectors, false},
		{"search", on(searchClaims, "thrice", 11, 31, 11), false},
		{"score", on(scoreClaims, "thrice", 6, 16, 4), true},
		{"misuse", on(misuseClaims, "thrice", misuseRows, 18, 4), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := open(t)
			t.Cleanup(func() { must(t, d.Close()) })
			if precision(d) != device.Float32 && !test.products {
				t.Skip("it is the same in every precision")
			}
			test.group(t, d)
		})
	}
}

// Sampled is a device for which the suite takes one of every so many programs and
// schedules wherever it would take all: for those that are slow, as interpreters
// are. Which ones moves on from one list to the next, and is the same every time.
func Sampled(d device.Device, every int) device.Device { return &sampled{Device: d, every: every} }

type sampled struct {
	device.Device
	every, next int
}

// Wrapped is the device itself.
func (d *sampled) Wrapped() device.Device { return d.Device }

// At is a device all of whose nets have a precision, but for exact ones. The suite compares them with the reference's of the same.
func At(d device.Device, p device.Precision) device.Device {
	if s, ok := d.(*sampled); ok {
		s.Device = At(s.Device, p)
		return s
	}
	return &precise{d, p}
}

type precise struct {
	device.Device
	precision device.Precision
}

// Wrapped is the device itself, which maps in one precision.
func (d *precise) Wrapped() device.Device { return d.Device }

func (d *precise) Compile(s *ir.Schedule, o device.Options) (device.Net, error) {
	if !o.Exact {
		o.Precision = d.precision
	}
	return d.Device.Compile(s, o)
}

// precision is that of a device's nets.
func precision(d device.Device) device.Precision {
	switch d := d.(type) {
	case *sampled:
		return precision(d.Device)
	case *precise:
		return d.precision
	}
	return device.Float32
}

// some is a list, or a part of it for a sampled device.
func some[T any](d device.Device, list []T) []T {
	s, ok := d.(*sampled)
	if !ok {
		return list
	}
	var part []T
	for i := s.next % min(s.every, len(list)); i < len(list); i += s.every {
		part = append(part, list[i])
	}
	s.next++
	return part
}

// fewer is n, or less for a sampled device.
func fewer(d device.Device, n, less int) int {
	if _, ok := d.(*sampled); ok {
		return min(n, less)
	}
	return n
}
