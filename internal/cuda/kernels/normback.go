package kernels

import "github.com/privgrad/privgrad/internal/ir"

// NormBack is what a way back through a group norm or a layer norm reads and writes. Addresses of x, dy and dx are multiples of 16.
type NormBack struct {
	X, Dy, Moments Ptr
	Weight         Ptr // 0, if there is no Dx
	// Through is the ReLU that gave X, or none: Dx is then the gradient at its input.
	Through ir.Kind
	// Dx, unless 0, gets the gradient at the input: with g = dy·weight and x̂ = (x−μ)/√(v+ε) it is (g − mean(g) − x̂·mean(g·x̂))/√(v+ε), the means over
	// what has one μ. Where Add is set, it is added to what Dx has. It must share no memory with X or Dy: blocks of an example read what others write.
	Dx  Ptr
	Add bool
	// Kept, unless 0, gets each example's gradient at Kept[b·Stride…]: Σ dy·x̂ of what has one weight, then, where the op has a bias, Σ dy.
	// Stride counts float32 values.
	Kept   Ptr
	Stride int
	// Norm2, unless 0, has parts of squared norms in float64, part·capacity + b of example b: as many parts as GroupNormNorms or LayerNormNorms says. What
	// Kept gets, or would get, is squared and added to them. Squares are exact; what sums err by stands at GroupNormBackward and at LayerNormBackward.
	Norm2 Ptr
}
