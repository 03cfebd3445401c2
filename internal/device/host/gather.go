package host

import (
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/half"
	"github.com/privgrad/privgrad/internal/ir"
)

// Maps are those maps of a gather that a device has, by kind. Each changes the values of one record in place.
type Maps[T Float] map[ir.MapKind]func(x []T, m ir.Map, v View[T])

// View is which view of a record a map makes: the shape of records, the view's word, and room for a record.
type View[T Float] struct {
	Shape   []int
	Word    uint32
	Scratch []T
}

// Defined are all maps as the reference device has them, and Plain the same for what reads a table in float32 without a
// device.
var (
	Defined = definitions[float64]()
	Plain   = definitions[float32]()
)

// definitions has a map in a file of its own.
func definitions[T Float]() Maps[T] {
	return Maps[T]{ir.Scaled: scaled[T], ir.Flip: flip[T], ir.Crop: crop[T]}
}

// Has says whether a kind is there.
func (maps Maps[T]) Has(k ir.MapKind) bool { return maps[k] != nil }

// Apply takes a record's values through a list, all of which is there.
func (maps Maps[T]) Apply(x []T, list ir.Gather) { maps.ApplyView(x, list, View[T]{}) }

// ApplyView takes a record's values through the maps of a view.
func (maps Maps[T]) ApplyView(x []T, list ir.Gather, v View[T]) {
	for _, m := range list {
		maps[m.Kind](x, m, v)
	}
}

// Read sets x to a row of a table that was found valid for these maps: to its values, and what the maps make of them.
func (maps Maps[T]) Read(x []T, r *device.Rows, f device.Features, row int) {
	lo, hi := row*r.Width, (row+1)*r.Width
	switch f := f.(type) {
	case device.Bytes:
		for i, b := range f[lo:hi] {
			x[i] = T(b)
		}
	case device.Floats:
		for i, v := range f[lo:hi] {
			x[i] = T(v)
		}
	case device.Halves:
		for i, h := range f[lo:hi] {
			x[i] = T(half.ToFloat32(h))
		}
	}
	maps.Apply(x, r.Gather)
}
