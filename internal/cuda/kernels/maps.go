package kernels

import "github.com/privgrad/privgrad/internal/ir"

// Maps are the maps of a gather as the kernels that read a table take them, in the order of MAPS in gather.cuh.
type Maps struct {
	Scaled Scaled
}

func (m *Maps) args() []uint64 { return m.Scaled.args() }

// maps has what each kind makes of the kernels' arguments. Where it stands in a list makes no difference to a Scaled.
var maps = map[ir.MapKind]func(*Maps, ir.Map){
	ir.Scaled: func(to *Maps, m ir.Map) { to.Scaled = Scaled{m.Scale, m.Offset} },
}

// HasMap says whether the kernels have a map.
func HasMap(k ir.MapKind) bool { return maps[k] != nil }

// MapsOf are those of a list, which has no others, each at most once.
func MapsOf(list ir.Gather) Maps {
	all := Maps{Scaled: unscaled}
	for _, m := range list {
		maps[m.Kind](&all, m)
	}
	return all
}

// Scaled is ir.Scaled of a table of bytes, in one rounding (scaled.cuh). Kernels do not read it for other forms.
type Scaled struct{ Scale, Offset float32 }

// unscaled leaves a byte as it is.
var unscaled = Scaled{1, 0}

func (s Scaled) args() []uint64 { return []uint64{F(s.Scale), F(s.Offset)} }
