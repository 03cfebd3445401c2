package onnx

import (
	"encoding/binary"
	"math"
)

// A message is a protocol buffer in the making. Numbers of fields are those of onnx.proto.
type message []byte

// Types of fields on the wire.
const (
	wireVarint = 0
	wireBytes  = 2
	wireFixed4 = 5
)

func (m *message) tag(field, wire int) {
	*m = binary.AppendUvarint(*m, uint64(field<<3|wire))
}

func (m *message) number(field int, v int64) {
	m.tag(field, wireVarint)
	*m = binary.AppendUvarint(*m, uint64(v)) // negative ones take ten bytes, as the format has it
}

func (m *message) float(field int, v float32) {
	m.tag(field, wireFixed4)
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(v))
}

func (m *message) bytes(field int, b []byte) {
	m.tag(field, wireBytes)
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

func (m *message) text(field int, s string) { m.bytes(field, []byte(s)) }
