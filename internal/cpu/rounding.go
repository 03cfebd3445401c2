package cpu

import (
	"math"
	"math/bits"
)

// unit bounds the relative error of one float32 operation. Portable fused
// operations round to float64 first and then to float32, hence the last factor.
const unit = 0x1p-24 * (1 + 0x1p-28)

// gamma is γ(n) = nu/(1−nu), the bound of n roundings one after the other.
func gamma(n, u float64) float64 { return n * u / (1 - n*u) }

// leastRoundings is what Rounding counts for an example at least. It is enough
// for every strategy and for batches of up to two dozen chunks: the noise that
// follows then depends on the number of rows alone.
const leastRoundings = 55

// Rounding is 2·rows·γ(w), where w is the root mean square of the number of
// roundings that an example's clipped gradient goes through on its way into
// the sum, and the factor 2 is for the two batches that are compared.
func (n *net) Rounding(rows int) float64 {
	if rows <= 0 || !n.schedule.Private() {
		return 0
	}
	chunk := min(n.chunk, rows)
	blocks := func(block int) int { return (chunk + block - 1) / block }
	tree := func(block int) float64 {
		return chain(min(block, chunk)) + float64(bits.Len(uint(blocks(block)-1))) + 1
	}
	w := max(
		chain(min(rowBlock, chunk))+chain(blocks(rowBlock)), // denseGradSum: each block is added to the sum
		tree(exampleBlock), // sumExamples
		tree(n.unit),       // pass, sumParts
	)
	run := min(n.capacity, rows)
	if chunks := (run + n.chunk - 1) / n.chunk; chunks > 1 {
		w += chain(min(chunks, chunkGroup)) + chain((chunks+chunkGroup-1)/chunkGroup)
	}
	w += chain((rows+run-1)/run) + 1 // a product's own rounding, where it is not fused
	return 2 * float64(rows) * gamma(max(w, leastRoundings), unit)
}

// chain is the root mean square of the roundings in a chain of n additions, of
// which the last may be of fewer rows than the others: that of 1 to n without
// the 1.
func chain(n int) float64 {
	if n < 2 {
		return 1
	}
	x := float64(n)
	return math.Sqrt((x*(x+1)*(2*x+1)/6 - 1) / (x - 1))
}
