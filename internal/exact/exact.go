// Package exact draws noise rounded to integers, round(s·Z), without any error
// of floating point: Z standard normal (New) or Laplace (NewLaplace), or all
// coordinates of a vector with density ∝ exp(-‖z‖) (NewDirection). Given uniform bits, every
// probability is that of the rounded variable, up to an event of probability 2⁻¹²⁸ for a
// normal and below 2⁻⁴⁰⁰ for the others. docs/proofs/exact-noise.md has the proof.
//
// The method is inversion: |Z| is the point that a normal exceeds in absolute value with
// probability V, where V is uniform and a draw's bits are its first binary digits. Float64
// arithmetic with a proven error bound gives the integer unless a rounding boundary lies
// within the bound; then more digits of V are read and math/big decides. That is lazy, as in
// Karney, "Sampling exactly from the normal distribution", ACM TOMS 42(1), 2016, but
// without his rejection, so that a draw takes a fixed place in the stream.
package exact

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"github.com/privgrad/privgrad/internal/stream"
)

const (
	// MinStd and MaxStd bound the standard deviation, in integers.
	MinStd = 0x1p-20
	MaxStd = 0x1p40
)

// Sampler draws from one tensor of a stream. It may be used concurrently. Whoever releases
// claims a step of the stream first (stream.Stream.Claim), as devices do.
type Sampler struct {
	// The scale is std + low for the cells, and wide for the slow path.
	std, low float64
	wide     *big.Float
	slack    float64 // how far the error of wide may move a tail; 0 where there is none
	law      *law
	end      end
	fixed    *Fixed // nil where draws begin with cells
	source
}

// New makes the sampler of normals of a standard deviation, taken as exactly that number, in
// [MinStd, MaxStd]. The tensor is below MaxTensor, and no other user of the stream may draw under
// tensor or tensor + MaxTensor. New is cheap: a deviation that changes may have a new sampler at every step.
func New(std float64, s *stream.Stream, tensor uint32) (*Sampler, error) {
	g, err := newSampler("noise of standard deviation", std, &normal, normalEnd, s, tensor)
	if err == nil && fused {
		g.fixed, _ = NewFixed(std)
	}
	return g, err
}

// NewLaplace is New for Laplace noise: Z has density exp(-|z|)/2, and the scale
// is what New's standard deviation is. Noise of scale Δ/ε on an integer of
// sensitivity Δ gives pure ε (Dwork, McSherry, Nissim and Smith 2006).
func NewLaplace(scale float64, s *stream.Stream, tensor uint32) (*Sampler, error) {
	return newSampler("Laplace noise of scale", scale, &laplace, laplaceEnd, s, tensor)
}

func newSampler(what string, scale float64, l *law, e end, s *stream.Stream, tensor uint32) (*Sampler, error) {
	if !(scale >= MinStd && scale <= MaxStd) {
		return nil, fmt.Errorf("exact %s %v grid steps: must be in [%g, %g]", what, scale, MinStd, MaxStd)
	}
	if err := Check(s, tensor); err != nil {
		return nil, err
	}
	return &Sampler{std: scale, wide: big.NewFloat(scale), law: l, end: e, source: source{s, tensor}}, nil
}

// Add adds draw number first+i of a step to dst[i]. A draw is a function of
// key, step, tensor and number alone. Draws outside [0, Draws) set dst to the
// least int64: a visible failure, after which nothing is left of what stood there.
//
// Draw i reads little-endian word i of the keystream of (step, tensor): its
// top bit is the sign, the other 63 the first digits of V. Where they are needed, 512
// more follow under (step, tensor + MaxTensor), from the highest bit on: block i of
// ChaCha20, blocks 4i to 4i+3 of AES.
func (g *Sampler) Add(dst []int64, step uint64, first int) {
	if !g.holds(first, len(dst)) {
		for i := range dst {
			dst[i] = math.MinInt64
		}
		return
	}
	g.each(len(dst), step, first,
		func(from, to int, words []byte) int { return use.add(dst[from:to], words, g.fixed) },
		func(i int, k int64) { dst[i] += k })
}

// each draws n numbers from first on: by many as far as it gets, which is given the words of numbers from and on, some
// groups of them, and one at a time.
func (g *Sampler) each(n int, step uint64, first int, many func(from, to int, words []byte) int, one func(i int, k int64)) {
	buf := chunks.Get().(*buffer)
	defer chunks.Put(buf)
	for i := 0; i < n; {
		words := g.words(buf, step, first+i, n-i)
		for end := i + len(words)/8; i < end; {
			if whole := (end - i) &^ (group - 1); whole > 0 && g.fixed != nil {
				done := many(i, i+whole, words)
				i, words = i+done, words[8*done:]
			}
			for next := min(i+group, end); i < next; i++ {
				one(i, g.draw(binary.LittleEndian.Uint64(words), step, first+i))
				words = words[8:]
			}
		}
	}
}

// draw gives draw i of a step, whose word is given.
func (g *Sampler) draw(word, step uint64, i int) int64 {
	if g.fixed != nil {
		if k, ok := g.fixed.Draw(word); ok {
			return k
		}
	}
	v := word &^ (1 << 63)
	k, ok := g.fast(v)
	if !ok {
		k = g.slow(v, g.digits(step, i))
	}
	sign := -int64(word >> 63)
	return k ^ sign - sign
}

// fast gives |round(s·Z)| if the first 63 digits of V decide it.
func (g *Sampler) fast(v uint64) (k int64, ok bool) {
	c := g.law.cellOf(v)
	if c == nil {
		return 0, false
	}
	whole, rest, bound := c.scaled(v, g.std, g.low)
	r := math.RoundToEven(rest)
	return int64(whole + r), 0.5-math.Abs(rest-r) > bound
}
