package cpu

import (
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/device/host"
	"github.com/privgrad/privgrad/internal/ir"
)

// scaled is ir.Scaled. The product is exact in float64.
func scaled(x []float32, m ir.Map, _ host.View[float32]) {
	for i, v := range x {
		x[i] = float32(float64(v)*float64(m.Scale) + float64(m.Offset))
	}
}

// scaledBytes reads bytes and scales them at once, where that is the first map of a list. What it gives is the rest of the
// list.
func scaledBytes(x []float32, from []uint8, list ir.Gather) ir.Gather {
	if len(list) == 0 || list[0].Kind != ir.Scaled {
		vec.Bytes(x, from, 1, 0)
		return list
	}
	vec.Bytes(x, from, list[0].Scale, list[0].Offset)
	return list[1:]
}
