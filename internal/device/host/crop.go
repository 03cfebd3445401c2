package host

import "github.com/privgrad/privgrad/internal/ir"

// crop is ir.Crop.
func crop[T Float](x []T, m ir.Map, v View[T]) {
	down, right := m.Shift(v.Word)
	if down == 0 && right == 0 {
		return
	}
	height, width := v.Shape[1], v.Shape[2]
	from := v.Scratch[:len(x)]
	copy(from, x)
	for c := 0; c < len(x); c += height * width {
		for y := range height {
			to, line := x[c+y*width:][:width], from[c+ir.Reflected(y+down, height)*width:][:width]
			for i := range to {
				to[i] = line[ir.Reflected(i+right, width)]
			}
		}
	}
}
