package kernels

import "github.com/privgrad/privgrad/internal/plan"

// unit bounds the relative error of one float32 operation, fused ones included.
const unit = 0x1p-24

// gamma is γ(n) = nu/(1−nu), the bound of n roundings one after the other
// (Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1).
func gamma(n int, u float64) float64 { return float64(n) * u / (1 - float64(n)*u) }

// PositionBlock is how many output positions of a convolution's gradient are summed at a time.
const PositionBlock = 64

// ConvTerms is the number of roundings that a term of a convolution's gradient goes through in
// ConvStore, ConvNorm and ConvSum: its block's and one for every block.
func ConvTerms(op *plan.Op) int {
	_, _, positions := op.Columns()
	return min(positions, PositionBlock) + ceil(positions, PositionBlock)
}

// GramRounding gives ω and γ of NormGram.
func GramRounding(op *plan.Op) (sum, gradient float64) {
	out, k, positions := op.Columns()
	return gamma(positions*positions+2*positions+k+out+40, 0x1p-53), gamma(ConvTerms(op), unit)
}
