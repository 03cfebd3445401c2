package kernels

import (
	"math"

	"github.com/privgrad/privgrad/internal/ir"
)

// unit bounds the relative error of one float32 operation, fused ones included.
const unit = 0x1p-24

// gamma is γ(n) = nu/(1−nu), the bound of n roundings one after the other
// (Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1).
func gamma(n int, u float64) float64 { return float64(n) * u / (1 - float64(n)*u) }

// ExampleBlock is how many examples are added in float32 at most, one after the other. Dense sums are other sums, in which a share passes no
// more roundings.
const ExampleBlock = 32

// SumRoundings is the root mean square of the roundings that an example's share goes through on its way into a sum, in
// launches of DenseSums, or of ConvSum and SumParts, over so many rows in all, in units of float32's: in a full block
// the i-th of n examples passes n−i+1, its product with the factor, or of f·dy with x, among them; and every block added later, in whatever
// launch, rounds in float64 what is there; a launch that adds blocks in groups adds no block more often than there are blocks. Dense sums'
// blocks of 16, of which at most 16 are added in float32, have no more; but of 17 rows the last is added once more. See docs/proofs/rounding.md for the use of the root mean square. blocks counts all blocks
// of a release.
func SumRoundings(rows, blocks int) float64 {
	n := min(rows, ExampleBlock)
	squares := float64((n+1)*(2*n+1)) / 6
	if n == sumBlock+1 {
		squares += (2*2 - 1) / float64(n)
	}
	return math.Sqrt(squares) + float64(blocks+1)*0x1p-29
}

// DenseSumRoundings is SumRoundings where dense layers are summed on tensor cores, too, in launches of Math.DenseSums. It is that of the worst part: in a part of n
// examples a share passes the products of its block from its own on, which chainRoundings bounds, and an addition for
// each block of the part from its own on, but for the first, which is added to zero. Products of zeros alone add exactly.
func (m Math) DenseSumRoundings(rows, blocks int) float64 {
	worst, terms := 0.0, m.terms()
	for n := range min(rows, SumPart) + 1 {
		squares := 0
		for b := range n {
			block := b / sumBlock
			products := ceil(min(sumBlock, n-block*sumBlock), terms) - b%sumBlock/terms
			w := chainRoundings(terms*products) + ceil(n, sumBlock) - max(block, 1)
			squares += w * w
		}
		worst = max(worst, float64(squares)/float64(max(n, 1)))
	}
	return max(math.Sqrt(worst)+float64(blocks+1)*0x1p-29, SumRoundings(rows, blocks))
}

// terms are those of one product of fragments.
func (m Math) terms() int { return 32 / m.ElementBytes(Pixels) }

// chainRoundings bounds, in units of float32's, what a tensor core does to each of n terms of a chain that begins from zero:
// γ(4n). Whoever adds m exact products and a sum at a time cuts all but the largest off at 2⁻²³ of it or later, and the
// result likewise: an error of at most (m+1)·2⁻²³ of the sum of magnitudes. n/m such passes make (1+(m+1)·2⁻²³)^(n/m) − 1 ≤
// γ(2n+2n/m), at most γ(4n) whatever m is. Known tensor cores have m ≥ 4 and keep more digits: Fasi, Higham, Mikaitis
// and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7 (2021).
func chainRoundings(n int) int { return 4 * n }

// PositionBlock is how many output positions of a convolution's gradient are summed at a time.
const PositionBlock = 64

// ConvTerms bounds the roundings that a term of a convolution's gradient goes through in ConvStore, ConvNorm and ConvSum:
// those of its block, and one for every block. An element differs from its exact value by at most
// γ(ConvTerms)·Σ_t|dy_t||a_t|, γ(n) = n·2⁻²⁴/(1−n·2⁻²⁴).
func ConvTerms(op *ir.Op) int {
	_, _, positions := op.Columns()
	return min(positions, PositionBlock) + ceil(positions, PositionBlock)
}

// GramRounding gives ω and γ of NormGram.
//
// γ is for the float32 gradient that will be summed: in the Frobenius norm it differs from ΔAᵀ by at most γ(ConvTerms)·‖|Δ||A|ᵀ‖ ≤
// γ(ConvTerms)·B, whatever it is itself.
//
// ω is for n². A dot product of columns, a chain of k fused operations and one for the bias, errs by at most
// γ(k+1)‖a_s‖‖a_t‖ in float64, one of dy by γ(out)‖δ_s‖‖δ_t‖; products of floats are exact. Their product rounds once and passes a chain
// of additions, four for each of a thread's pairs of tiles of gramSide positions, and a tree of eight levels. By
// Cauchy–Schwarz Σ_st‖a_s‖‖a_t‖‖δ_s‖‖δ_t‖ = B².
func GramRounding(op *ir.Op) (sum, gradient float64) {
	out, k, positions := op.Columns()
	tiles := ceil(positions, gramSide)
	return gamma(k+1+out+1+4*tiles*(tiles+1)/2+8, 0x1p-53), gamma(ConvTerms(op), unit)
}

const gramSide = 32
