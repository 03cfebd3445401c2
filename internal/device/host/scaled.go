package host

import "github.com/privgrad/privgrad/internal/ir"

// scaled is ir.Scaled of values that float32 holds.
func scaled[T Float](x []T, m ir.Map, _ View[T]) {
	for i, v := range x {
		x[i] = T(float32(v)*m.Scale + m.Offset)
	}
}
