package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// maps are those of a gather that the CPU has, each in a file of its own.
var maps = host.Maps[float32]{ir.Scaled: scaled, ir.Flip: host.Plain[ir.Flip], ir.Crop: host.Plain[ir.Crop]}

// load checks a table, and that all its maps are there.
func load(r device.Rows, f device.Features) (*host.Table, error) { return host.Load(name, maps, r, f) }

// read sets x to what a network reads of a table's row: its values, and what the table's maps make of them.
func read(x []float32, t *host.Table, row int32) {
	if t.Void(row) {
		clear(x)
		return
	}
	lo, hi := t.Span(row)
	rest := t.Gather
	switch f := t.Features.(type) {
	case device.Bytes:
		rest = scaledBytes(x, f[lo:hi], rest)
	case device.Floats:
		copy(x, f[lo:hi])
	case device.Halves:
		vec.Halves(x, f[lo:hi])
	}
	maps.Apply(x, rest)
}

// mostPrefetched is how many values of a row are asked for. While these are read, the processor fetches the others by itself.
const mostPrefetched = 4096

// prefetch has the first values of a table's row brought into the cache, and its target. Rows of a batch lie anywhere, and
// memory is slow to answer.
func prefetch(t *host.Table, row int32, values int) {
	lo, hi := t.Span(row)
	hi = min(hi, lo+values)
	vec.Prefetch(t.Targets[row : row+1])
	switch f := t.Features.(type) {
	case device.Bytes:
		vec.Prefetch(f[lo:hi])
	case device.Floats:
		vec.Prefetch(f[lo:hi])
	case device.Halves:
		vec.Prefetch(f[lo:hi])
	}
}
