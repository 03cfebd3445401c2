package kernels

import "github.com/privgrad/privgrad/internal/ir"

// Drawn are the random maps of views as kernels take them: in their order, with the sides of images. Zeros are none: ir.Scaled is not drawn.
type Drawn struct {
	maps          [mostDrawn]struct{ kind, number int }
	rows, columns int
}

// mostDrawn is how many the kernels take; a list has each kind once.
const mostDrawn = 2

// drawnNumber has the number of each kind that kernels have, for drawn.cuh.
var drawnNumber = map[ir.MapKind]func(ir.Map) int{
	ir.Flip: func(ir.Map) int { return 0 },
	ir.Crop: func(m ir.Map) int { return m.Margin },
}

// HasDrawn says whether the kernels have a map of views.
func HasDrawn(k ir.MapKind) bool { return drawnNumber[k] != nil }

// DrawnOf are those of a list, which has no others, for images of a shape.
func DrawnOf(list ir.Gather, shape []int) (d Drawn) {
	for i, m := range list {
		d.maps[i].kind, d.maps[i].number = int(m.Kind), drawnNumber[m.Kind](m)
		d.rows, d.columns = shape[1], shape[2]
	}
	return d
}

func (d *Drawn) args() (all []uint64) {
	for _, m := range d.maps {
		all = append(all, I(m.kind), I(m.number))
	}
	return append(all, I(d.rows), I(d.columns))
}
