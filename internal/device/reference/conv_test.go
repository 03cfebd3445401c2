package reference

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/ir"
)

// Windows of all kinds have the bits of the definition, product by product.
func TestConvolve(t *testing.T) {
	random := rand.New(rand.NewPCG(41, 1))
	draw := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = random.NormFloat64()
		}
		return x
	}
	for _, window := range []ir.Window{
		ir.Square(1, 1, 0), ir.Square(3, 1, 1), ir.Square(5, 2, 2), ir.Square(3, 1, 4),
		{H: 2, W: 3, StrideH: 3, StrideW: 2, PadTop: 1, PadBottom: 2, PadLeft: 3, PadRight: 0, DilationH: 2, DilationW: 3},
	} {
		op := &ir.Op{Kind: ir.Conv, Shape: []int{3, 9, 8}, Window: window}
		oh, ow := window.Out(9, 8)
		op.Out = []int{4, oh, ow}
		x, w, y := draw(3*9*8), draw(4*3*window.H*window.W), draw(4*oh*ow)
		want := slices.Clone(y)
		taps(op, func(o, i, k int) { want[o] += w[k] * x[i] })
		if convolve(op, y, x, w); !slices.Equal(y, want) {
			t.Errorf("window %+v: other bits", window)
		}
	}
}
