package plan

import (
	"math"

	"github.com/privgrad/privgrad/internal/devices"
)

// filesInMemory is how much more memory than its records a file takes while it is read.
const filesInMemory = 3

// RecordBytes is about what a record takes of the host's memory, as it lies in a file and as what a network reads.
// Of one that is mapped, that is its label alone, as a byte and as a target.
func (p *Plan) RecordBytes(mapped bool) int64 {
	const label = 1 + 4
	m := p.Set.Train
	width := int64(m.Shape[0]) * int64(m.Shape[1]) * int64(m.Shape[2])
	if m.Unit || m.Values != nil {
		width *= 4
	}
	if mapped {
		return label + int64(p.RowBytes())
	}
	return filesInMemory*width + label + int64(p.RowBytes())
}

// ExampleBytes is the memory that a record takes on its way through the network.
func (p *Plan) ExampleBytes() int64 { return p.Schedule.ExampleBytes(p.costs.Passes) }

// PlannedMemory is about what one of several processes takes of the host's memory, by public numbers alone: the program, the
// records and so many public test records, a batch, and vectors of parameters.
func (p *Plan) PlannedMemory(tests float64, processes int) int64 {
	const program, vectors = 64 << 20, 10
	records := math.Ceil(float64(p.PublicN*p.Config.UnitRows())/float64(max(processes, 1))) + tests
	batch := int64(p.Schedule.Chunk) * p.ExampleBytes()
	return program + int64(records)*p.RecordBytes(p.Set.Train.Mapped) + batch + 4*vectors*int64(p.Trained().NumParams())
}

// StatedMemory is the memory that the result of one of several processes states. Of public records it is measured. Of one's own it is the
// planned one, as a single record, such as a very large image, would show in the peak.
func (p *Plan) StatedMemory(processes int) int64 {
	memory := devices.PeakRSS()
	if p.Whole || !p.PublicRecords() { // the peak of a tuning would tell of earlier trials
		tests := 0
		if p.Set.TestIsPublic {
			tests = p.Set.Test.Len()
		}
		memory = p.PlannedMemory(float64(tests), processes)
	}
	return devices.Coarse(memory, p.RowBytes())
}

// PublicRecords says whether nothing has to be kept of the training records, or of whose they are.
func (p *Plan) PublicRecords() bool {
	return (p.builtIn || p.Config.PublishedSet) && !p.Config.ByUser() || p.Config.DataIsPublic
}
