// Package tfevents encodes scalars as TensorBoard reads them: records of TFRecord, each an
// Event of tensorflow/core/util/event.proto.
package tfevents

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// A Scalar is one figure under a name.
type Scalar struct {
	Tag   string
	Value float64
}

// Start is the record with which every file begins.
func Start() []byte {
	return record(text(nil, 3, []byte("brain.Event:2")))
}

// Step is the record of what is known after a step. Its time is the number of the step,
// in seconds: real ones follow from how long private batches took.
func Step(step int, scalars []Scalar) []byte {
	var summary []byte
	for _, s := range scalars {
		value := text(nil, 1, []byte(s.Tag))
		value = append(value, 2<<3|5) // a float
		value = binary.LittleEndian.AppendUint32(value, math.Float32bits(float32(s.Value)))
		summary = text(summary, 1, value)
	}
	e := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(float64(step)))
	e = binary.AppendUvarint(append(e, 2<<3), uint64(step))
	return record(text(e, 5, summary))
}

// text appends a field of a protocol buffer.
func text(b []byte, field byte, s []byte) []byte {
	return append(binary.AppendUvarint(append(b, field<<3|2), uint64(len(s))), s...)
}

// record frames an event by its length, and sums of both.
func record(event []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(event)))
	b = binary.LittleEndian.AppendUint32(b, masked(b))
	b = append(b, event...)
	return binary.LittleEndian.AppendUint32(b, masked(event))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is a checksum as TFRecord stores it, so that one of data which hold sums is no odd one.
func masked(b []byte) uint32 {
	sum := crc32.Checksum(b, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}
