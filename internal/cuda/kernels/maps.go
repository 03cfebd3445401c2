package kernels

import "github.com/privgrad/privgrad/internal/ir"

// Maps are the maps of a gather as kernels that read a table take them, in the order of MAPS in gather.cuh. Each is a type in
// a file of its own, like the struct in its .cuh.
type Maps struct {
	Scaled Scaled
}

func (m *Maps) args() []uint64 { return m.Scaled.args() }

// maps has what each kind sets among them. A Scaled may stand anywhere in a list: it changes every value alike.
var maps = map[ir.MapKind]func(*Maps, ir.Map){
	ir.Scaled: func(to *Maps, m ir.Map) { to.Scaled = Scaled{m.Scale, m.Offset} },
}

// HasMap says whether the kernels have a map, of tables or of views.
func HasMap(k ir.MapKind) bool { return maps[k] != nil || HasDrawn(k) }

// MapsOf are those of a list, which has no others, each at most once.
func MapsOf(list ir.Gather) Maps {
	all := Maps{Scaled: unscaled}
	for _, m := range list {
		maps[m.Kind](&all, m)
	}
	return all
}
