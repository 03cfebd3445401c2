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
