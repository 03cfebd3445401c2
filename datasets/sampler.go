package datasets

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/privgrad/privgrad/internal/stream"
)

// Sampler draws the batches of a table.
type Sampler interface {
	// Batch returns the indices of the records of a step in increasing order, in dst's
	// storage where it suffices. It is a pure function of the sampler's key and the
	// step. The indices are private. Concurrent use is allowed.
	Batch(step uint64, dst []int32) []int32
}

// Poisson samples batches: each of n records enters each batch independently
// with probability q. A batch is a pure function of (key, step) and costs
// O(q·n·log n), not O(n).
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
type Poisson struct {
	n      int64
	all    bool // q = 1
	stream *stream.Stream
	beyond uint64   // P(gap ≥ 2ᴶ)·2⁶⁴
	digit  []uint64 // P(digit j of the gap is 1)·2⁶⁴
}

// NewPoisson returns the sampler of n records at rate q in (0, 1]. The key must
// be used for nothing else. n may be the private row count: no error quotes it.
func NewPoisson(n int, q float64, key stream.Key, cipher stream.Cipher) (*Poisson, error) {
	if !(q > 0 && q <= 1) {
		return nil, fmt.Errorf("datasets: sampling rate %v is outside (0, 1]", q)
	}
	if n < 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("datasets: the sampler takes from 0 to %d records", math.MaxInt32)
	}
	s, err := stream.New(cipher, key)
	if err != nil {
		return nil, err
	}
	p := &Poisson{n: int64(n), all: q == 1, stream: s}

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

// Batch may be empty. The number of indices is private, too.
func (p *Poisson) Batch(step uint64, dst []int32) []int32 {
	dst = dst[:0]
	if p.all {
		for i := range p.n {
			dst = append(dst, int32(i))
		}
		return dst
	}
	r := p.stream.Reader(step, 0)
	defer r.Free()
	for i := p.gap(r); i < p.n; i += 1 + p.gap(r) {
		dst = append(dst, int32(i))
	}
	return dst
}

// gap returns the number of records skipped before the next sampled one, or n if
// that lies beyond the last record.
func (p *Poisson) gap(r *stream.Reader) int64 {
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

// Subsets samples batches of a fixed size: each is a uniformly random subset of n
// places, drawn anew without replacement. Its guarantees are under replace-one.
//
// Records take the places in their order. A place that no record takes adds zero, and
// records beyond the places are never drawn, so that nothing follows from how many
// records there are. Where one record's label or text decides whether it is among
// them, replacing it still replaces what stands in at most one place, up to the order
// of places, which a uniform subset does not see.
type Subsets struct {
	records, n, size int
	stream           *stream.Stream
}

// NewSubsets returns the sampler of subsets of size out of n places, which so many
// records take. The key must be used for nothing else.
func NewSubsets(records, n, size int, key stream.Key, cipher stream.Cipher) (*Subsets, error) {
	if n < 1 || n > math.MaxInt32 || size < 1 || size > n {
		return nil, fmt.Errorf("datasets: subsets of %d out of %d records: the size must be from 1 to all of at most %d", size, n, math.MaxInt32)
	}
	s, err := stream.New(cipher, key)
	return &Subsets{records, n, size, s}, err
}

// Batch draws by Floyd's algorithm (Bentley and Floyd 1987), whose subsets are uniform
// where its numbers are.
func (s *Subsets) Batch(step uint64, dst []int32) []int32 {
	dst = dst[:0]
	r := s.stream.Reader(step, 0)
	defer r.Free()
	chosen := make([]uint64, (s.n+63)/64)
	for last := s.n - s.size; last < s.n; last++ {
		i := below(r, uint64(last)+1)
		if chosen[i/64]>>(i%64)&1 != 0 {
			i = uint64(last)
		}
		chosen[i/64] |= 1 << (i % 64)
	}
	for k, word := range chosen {
		for ; word != 0; word &= word - 1 {
			if i := 64*k + bits.TrailingZeros64(word); i < s.records {
				dst = append(dst, int32(i))
			}
		}
	}
	return dst
}

// Shuffle gives all public places, in a secret, uniform order: what takes one after the other finds
// no record in some of them.
type Shuffle struct {
	places int
	stream *stream.Stream
}

// NewShuffle shuffles so many places. The key must be used for nothing else.
func NewShuffle(places int, key stream.Key, cipher stream.Cipher) (*Shuffle, error) {
	if places < 1 || places > math.MaxInt32 {
		return nil, fmt.Errorf("datasets: %d places to shuffle: must be from 1 to %d", places, math.MaxInt32)
	}
	s, err := stream.New(cipher, key)
	return &Shuffle{places, s}, err
}

// Batch is not in increasing order (Fisher and Yates; Durstenfeld 1964).
func (s *Shuffle) Batch(step uint64, dst []int32) []int32 {
	dst = dst[:0]
	for i := range s.places {
		dst = append(dst, int32(i))
	}
	r := s.stream.Reader(step, 0)
	defer r.Free()
	for i := s.places - 1; i > 0; i-- {
		j := below(r, uint64(i)+1)
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}

// below is a uniform number below n, without bias (Lemire 2019).
func below(r *stream.Reader, n uint64) uint64 {
	high, low := bits.Mul64(r.Uint64(), n)
	for least := -n % n; low < least; {
		high, low = bits.Mul64(r.Uint64(), n)
	}
	return high
}
