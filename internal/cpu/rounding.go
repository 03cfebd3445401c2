package cpu

import (
	"math"
	"math/bits"
)

// unit bounds the relative error of one float32 operation; the last factor is for portable
// fused ones, which round to float64 first.
const unit = 0x1p-24 * (1 + 0x1p-28)

// gamma is γ(n) = nu/(1−nu), the bound of n roundings one after the other.
func gamma(n, u float64) float64 { return n * u / (1 - n*u) }

// leastRoundings is what Rounding counts for an example at least. It is enough
// for every strategy at rows up to 1,384, and for batches of up to two dozen
// chunks at any: the noise that follows then depends on the number of rows alone.
const leastRoundings = 60

// Rounding is 2·rows·γ(w), where w is the root mean square of the number of
// roundings that an example's clipped gradient goes through on its way into
// the sum, and the factor 2 is for the two batches that are compared.
func (n *net) Rounding(rows int) float64 {
	if rows <= 0 || !n.schedule.Private() || n.exact != nil {
		return 0
	}
	return 2 * float64(rows) * gamma(max(n.roundings(rows), leastRoundings), unit)
}

func (n *net) roundings(rows int) float64 {
	parts := func(whole, part int) int { return (whole + part - 1) / part }
	run := min(n.capacity, rows)
	chunk := min(n.chunk, run)
	runs, chunks := parts(rows, run), parts(run, chunk)
	// sum is what follows when a chunk adds to the sum so many times: every
	// addition rounds all that is there, the shares of earlier chunks included.
	sum := func(times int) float64 {
		if chunks == 1 {
			return chain(times * runs)
		}
		group := chunkGroup(n.chunk)
		return chain(times*min(chunks, group)) + chain(parts(chunks, group)) + chain(runs)
	}
	// blocked is what precedes: a chain in a block, and the blocks pairwise.
	blocked := func(block int) float64 {
		return chain(min(block, chunk)) + float64(bits.Len(uint(parts(chunk, block)-1)))
	}
	return 1 + max( // a product's own rounding, where it is not fused
		chain(min(rowBlock, chunk))+sum(parts(chunk, rowBlock)), // denseGradSum: block after block
		blocked(exampleBlock)+sum(1),                            // sumExamples
		blocked(n.unit)+sum(1),                                  // pass, convGradSum
	)
}

// chain is the root mean square of the roundings in a chain of n additions, of
// which the last may be of fewer rows: that of 2 to n.
func chain(n int) float64 {
	if n < 2 {
		return 1
	}
	x := float64(n)
	return math.Sqrt((x*(x+1)*(2*x+1)/6 - 1) / (x - 1))
}
