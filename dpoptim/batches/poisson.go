package batches

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/stream"
)

// Poisson draws each record independently with one probability.
var Poisson = &Kind{
	Name: "poisson", Offered: true,
	Drawn: "Poisson sampling", Each: "per step on average", Called: "Poisson batches",
	Event: accountant.PoissonBatch,
	open:  func(b Batching, held int) (drawing, error) { return newPoisson(b, held) },
}

// poisson samples batches: each of n records enters each batch independently
// with probability q. A batch costs O(q·n·log n), not O(n).
//
// The gap before the next sampled record is geometric, P(gap = k) = (1-q)ᵏ·q.
// Because (1-q)ᵏ factorises over the binary digits of k, the digits are
// independent: digit j is 1 with odds (1-q)^(2ʲ). Each is one comparison of 64
// secret bits with a threshold computed once in 256-bit arithmetic and rounded
// to nearest, so no logarithm is rounded at run time.
//
// A comparison is off its exact probability by at most 2⁻⁶⁴. With J =
// ⌈log₂(n+1)⌉ digits and one comparison for "beyond n", the distribution of a
// batch is therefore within total variation (q·n+1)·(J+1)·2⁻⁶⁴ of independent
// Bernoulli(q) draws, apart from the pseudorandomness of the stream: 6e-16 a step
// at n = 60,000 and q = 0.01, which docs/proofs/rounding.md states beside δ. At q = 1 it
// is exact, and nothing is drawn.
type poisson struct {
	n      int64
	all    bool     // q = 1
	beyond uint64   // P(gap ≥ 2ᴶ)·2⁶⁴
	digit  []uint64 // P(digit j of the gap is 1)·2⁶⁴
}

func newPoisson(b Batching, n int) (*poisson, error) {
	q := b.SamplingRate
	if !(q > 0 && q <= 1) {
		return nil, fmt.Errorf("batches: sampling rate %v is outside (0, 1]", q)
	}
	if n < 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("batches: the sampler takes from 0 to %d %ss", math.MaxInt32, b.Unit)
	}
	p := &poisson{n: int64(n), all: q == 1}

	// power = (1-q)^(2ʲ). The relative error of j squarings is below 2^(j-254).
	power := newFloat(1)
	power.Sub(power, newFloat(q))
	for range bits.Len(uint(n)) {
		odds := newFloat(1)
		odds.Quo(power, odds.Add(odds, power))
		p.digit = append(p.digit, threshold(odds))
		power.Mul(power, power)
	}
	p.beyond = threshold(power)
	return p, nil
}

func newFloat(x float64) *big.Float { return new(big.Float).SetPrec(256).SetFloat64(x) }

// threshold returns round(p·2⁶⁴), at most 2⁶⁴-1.
func threshold(p *big.Float) uint64 {
	x := newFloat(0x1p64)
	x.Mul(x, p).Add(x, newFloat(0.5))
	t, _ := x.Uint64() // truncates, and saturates at 2⁶⁴-1
	return t
}

// words are those of a gap before each record, and of one beyond the last.
func (p *poisson) words(size int) uint64 {
	if p.all {
		return 0
	}
	return uint64(size+1) * uint64(1+len(p.digit))
}

// draw may find no record.
func (p *poisson) draw(_ uint64, r *stream.Reader, dst []int32) []int32 {
	if p.all {
		return upTo(int(p.n), dst)
	}
	for i := p.gap(r); i < p.n; i += 1 + p.gap(r) {
		dst = append(dst, int32(i))
	}
	return dst
}

// gap returns the number of records skipped before the next sampled one, or n if
// that lies beyond the last record.
func (p *poisson) gap(r *stream.Reader) int64 {
	if r.Uint64() < p.beyond {
		return p.n
	}
	var k int64
	for j, t := range p.digit {
		_, below := bits.Sub64(r.Uint64(), t, 0) // no branch: nobody could foretell it
		k |= int64(below) << j
	}
	return k
}
