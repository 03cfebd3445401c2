package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
)

// read sets x to what a network reads of a table's row.
func read(x []float32, t *host.Table, row int32) {
	if t.Void(row) {
		clear(x)
		return
	}
	lo, hi := t.Span(row)
	switch f := t.Features.(type) {
	case device.Bytes:
		vec.Bytes(x, f[lo:hi], t.Scale, t.Offset)
	case device.Floats:
		copy(x, f[lo:hi])
	case device.Halves:
		vec.Halves(x, f[lo:hi])
	}
}
