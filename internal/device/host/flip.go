package host

import (
	"slices"

	"github.com/privgrad/privgrad/internal/ir"
)

// flip is ir.Flip.
func flip[T Float](x []T, _ ir.Map, v View[T]) {
	if !ir.Flips(v.Word) {
		return
	}
	width := v.Shape[2]
	for ; len(x) > 0; x = x[width:] {
		slices.Reverse(x[:width])
	}
}
