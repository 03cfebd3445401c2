// Package exact draws noise rounded to integers, round(s·Z), without any error
// of floating point: Z standard normal (New) or Laplace (NewLaplace), or all
// coordinates of a vector with density ∝ exp(-‖z‖) (NewDirection). Given uniform bits, every
// probability is that of the rounded variable, up to an event of a probability
// that is 2⁻¹²⁸ for a normal and below 2⁻⁴⁰⁰ for the others. docs/exact.md has
// the proof.
//
// The method is inversion. The bits of a draw are the first binary digits of a
// uniform V, and |Z| is the point that a normal exceeds in absolute value with
// probability V. Float64 arithmetic with a proven error bound gives the integer
// unless a rounding boundary lies within the bound; then more digits of the
// same V are read and math/big decides. It is the lazy evaluation of Karney,
// "Sampling exactly from the normal distribution", ACM TOMS 42(1), 2016, by
// another route than his rejection, so that a draw takes a fixed place in the
// stream.
package exact

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"sync"

	"github.com/privgrad/privgrad/internal/stream"
)

const (
	// MinStd and MaxStd bound the standard deviation, in integers.
	MinStd = 0x1p-20
	MaxStd = 0x1p40
	// Tail bounds |Z| of a normal: V ≥ 2⁻¹²⁸ implies |Z| < Tail. A smaller V,
	// which is the event of probability 2⁻¹²⁸, gives Tail.
	Tail = 13.2
	// FarTail and LaplaceTail are the same for V ≥ 2⁻⁴⁴⁸, of the normals of a
	// Direction and of a Laplace variable of scale 1.
	FarTail     = 24.9
	LaplaceTail = 311
	// MaxDraws is how many draws one (step, tensor) holds.
	MaxDraws = 1 << 32
	// MaxTensor bounds tensors; the numbers above belong to further digits.
	MaxTensor = 1 << 31
)

// Sampler draws from one tensor of a stream. It may be used concurrently. It does
// not know which steps were drawn before: whoever releases claims a step of the
// stream first (stream.Stream.Claim), as devices do.
type Sampler struct {
	// The scale is std + low for the fast path, and wide for the slow one.
	std, low float64
	wide     *big.Float
	slack    float64 // how far the error of wide may move a tail; 0 where there is none
	law      *law
	end      end
	cells    *[octaves * perOctave]cell
	stream   *stream.Stream
	tensor   uint32
}

// New makes the sampler of normals of a standard deviation, which may be any float64 in
// [MinStd, MaxStd] and is taken as exactly that number. The tensor is below
// MaxTensor, and no other user of the stream may draw under tensor or
// tensor + MaxTensor.
func New(std float64, s *stream.Stream, tensor uint32) (*Sampler, error) {
	if !(std >= MinStd && std <= MaxStd) {
		return nil, fmt.Errorf("exact noise of standard deviation %v grid steps: must be in [%g, %g]", std, MinStd, MaxStd)
	}
	return newSampler(std, &normal, normalEnd, s, tensor)
}

// NewLaplace is New for Laplace noise: Z has density exp(-|z|)/2, and the scale
// is what New's standard deviation is. Noise of scale Δ/ε on an integer of
// sensitivity Δ gives pure ε (Dwork, McSherry, Nissim and Smith 2006), which the
// rounding does not change; the event left out here has probability 2⁻⁴⁴⁸, far below
// what a guess of the key has.
func NewLaplace(scale float64, s *stream.Stream, tensor uint32) (*Sampler, error) {
	if !(scale >= MinStd && scale <= MaxStd) {
		return nil, fmt.Errorf("exact Laplace noise of scale %v grid steps: must be in [%g, %g]", scale, MinStd, MaxStd)
	}
	return newSampler(scale, &laplace, laplaceEnd, s, tensor)
}

func newSampler(scale float64, l *law, e end, s *stream.Stream, tensor uint32) (*Sampler, error) {
	if err := Check(s, tensor); err != nil {
		return nil, err
	}
	return &Sampler{std: scale, wide: big.NewFloat(scale), law: l, end: e, cells: l.cells(), stream: s, tensor: tensor}, nil
}

// Check says whether a stream and a tensor can serve a sampler.
func Check(s *stream.Stream, tensor uint32) error {
	if s == nil {
		return fmt.Errorf("exact noise needs a stream")
	}
	if tensor >= MaxTensor {
		return fmt.Errorf("exact noise under tensor %d: must be below %d, the rest is for further digits", tensor, MaxTensor)
	}
	return nil
}

const (
	wordsPerBlock = 8
	chunk         = 1024 // words transformed at a time, inside L1
)

var chunks = sync.Pool{New: func() any { return new([8 * chunk]byte) }}

// Add adds draw number first+i of a step to dst[i]. A draw is a function of
// key, step, tensor and number alone.
//
// Draw i reads little-endian word i of the keystream of (step, tensor): its
// top bit is the sign, the other 63 the first digits of V. Eight further words
// are block i of (step, tensor + MaxTensor), digits from the highest bit on,
// and are only computed where they are needed.
//
// Draws outside [0, MaxDraws) set dst to the least int64: a visible failure,
// after which nothing is left of what stood there.
func (g *Sampler) Add(dst []int64, step uint64, first int) {
	if first < 0 || uint64(first)+uint64(len(dst)) > MaxDraws {
		for i := range dst {
			dst[i] = math.MinInt64
		}
		return
	}
	buf := chunks.Get().(*[8 * chunk]byte)
	defer chunks.Put(buf)
	for len(dst) > 0 {
		per := wordsPerBlock
		if g.stream.Cipher() == stream.AES256CTR {
			per = 2
		}
		skip := first % per
		n := min(chunk-skip, len(dst))
		raw := buf[:8*(skip+n)]
		g.stream.Fill(raw, step, uint64(g.tensor)<<32|uint64(first/per))
		raw = raw[8*skip:]
		for i := range dst[:n] {
			word := binary.LittleEndian.Uint64(raw[8*i:])
			v := word &^ (1 << 63)
			k, ok := g.fast(v)
			if !ok {
				k = g.slow(v, g.digits(step, first+i))
			}
			sign := -int64(word >> 63)
			dst[i] += k ^ sign - sign
		}
		dst, first = dst[n:], first+n
	}
}

// digits is what follows the first 63 digits of draw i.
func (g *Sampler) digits(step uint64, i int) *[64]byte {
	more := new([64]byte)
	if g.stream.Cipher() == stream.AES256CTR {
		i *= 4
	}
	g.stream.Fill(more[:], step, uint64(g.tensor|MaxTensor)<<32|uint64(i))
	return more
}

// fast gives |round(s·Z)| if the first 63 digits of V decide it within the
// error bound.
func (g *Sampler) fast(v uint64) (k int64, ok bool) {
	octave := bits.LeadingZeros64(v) - 1
	if octave >= octaves {
		return 0, false
	}
	c := &g.cells[octave*perOctave+int(v<<octave>>57&(perOctave-1))]
	whole, rest, bound := c.scaled(v, g.std, g.low)
	r := math.RoundToEven(rest)
	return int64(whole + r), 0.5-math.Abs(rest-r) > bound
}
