package exact

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/privgrad/privgrad/internal/stream"
)

// A Law is a distribution of real noise Z.
type Law uint8

const (
	Normal  Law = iota // standard normal
	Laplace            // density exp(-|z|)/2, so that |Z| is exponential
)

// Reals compares sums of real numbers with real noise. Nothing is rounded: a comparison is decided by as many digits of
// the noise as it needs, so that what is proven of continuous noise holds as it stands. What a Sampler leaves out is left out
// here, and that all digits leave a comparison open: below 2⁻⁵⁰⁰ at up to 2²⁰ draws. It may be used concurrently.
type Reals struct {
	law *law
	end end
	source
}

// NewReals checks what New does. Draws are those of a Sampler of the tensor, before they are scaled and rounded.
func NewReals(l Law, s *stream.Stream, tensor uint32) (*Reals, error) {
	if err := Check(s, tensor); err != nil {
		return nil, err
	}
	switch l {
	case Normal:
		return &Reals{&normal, normalEnd, source{s, tensor}}, nil
	case Laplace:
		return &Reals{&laplace, laplaceEnd, source{s, tensor}}, nil
	}
	return nil, fmt.Errorf("exact comparisons with noise of law %d: use Normal or Laplace", l)
}

// A Term is Scale·Z or, of magnitude, Scale·|Z|, where Z is draw number Draw of a step. Scale is finite, of any sign.
type Term struct {
	Scale     float64
	Draw      int
	Magnitude bool
}

// AtLeastZero says whether constants and terms add up to 0 or more, as real numbers. An infinite constant decides it. What
// is no number, NaN, infinities of both signs, a scale that is not finite, or a draw outside [0, Draws), is not at least 0.
func (r *Reals) AtLeastZero(step uint64, constants []float64, terms ...Term) bool {
	sum := newExact()
	for _, c := range constants {
		if math.IsNaN(c) || math.IsInf(c, 0) {
			return infinite(constants)
		}
		sum.Add(sum, big.NewFloat(c))
	}
	noises := make([]*noise, 0, len(terms))
	for _, t := range terms {
		if t.Scale == 0 {
			continue
		}
		if math.IsNaN(t.Scale) || math.IsInf(t.Scale, 0) || !r.holds(t.Draw, 1) {
			return false
		}
		noises = append(noises, r.noise(step, t))
	}
	for digits := uint(wordDigits); ; digits += 128 {
		low, high := newExact().Set(sum), newExact().Set(sum)
		for _, n := range noises {
			n.add(low, high, min(digits, mostDigits))
		}
		switch {
		case low.Sign() >= 0:
			return true
		case high.Sign() < 0:
			return false
		case digits >= mostDigits:
			return low.Add(low, high).Sign() >= 0 // what all digits leave open
		}
	}
}

// Index is a number below n that a draw's word gives, each with the same probability; −1 for a word
// among the last 2⁶⁴ mod n, which would favor some. No Term may have the same draw.
func (r *Reals) Index(step uint64, draw, n int) int {
	if n < 1 || !r.holds(draw, 1) {
		return -1
	}
	high, low := bits.Mul64(r.word(step, draw), uint64(n)) // Lemire 2019
	if low < -uint64(n)%uint64(n) {
		return -1
	}
	return int(high)
}

// infinite is AtLeastZero of constants of which some are not finite.
func infinite(constants []float64) bool {
	above := false
	for _, c := range constants {
		if math.IsNaN(c) || math.IsInf(c, -1) {
			return false
		}
		above = above || math.IsInf(c, 1)
	}
	return above
}

// exactPrec holds sums of float64 and of products of two, one of which is neither large nor small, without rounding:
// their bits lie between 2¹¹⁰⁰ and 2⁻²³⁵⁰.
const exactPrec = 3500

func newExact() *big.Float { return new(big.Float).SetPrec(exactPrec) }

const wordDigits = 63

// A noise is a term whose draw is known.
type noise struct {
	*Reals
	scale float64 // of |Z|, with its sign
	v     uint64  // the first digits
	more  func() *[digitBytes]byte
}

func (r *Reals) noise(step uint64, t Term) *noise {
	word := r.word(step, t.Draw)
	scale := t.Scale
	if word>>63 == 1 && !t.Magnitude {
		scale = -scale
	}
	return &noise{r, scale, word &^ (1 << 63), func() *[digitBytes]byte { return r.digits(step, t.Draw) }}
}

// add adds to low and high the bounds of the term that so many digits give.
func (n *noise) add(low, high *big.Float, digits uint) {
	least, most := n.bounds(digits)
	if n.scale < 0 {
		least, most = most, least
	}
	scale := big.NewFloat(n.scale)
	low.Add(low, newExact().Mul(least, scale))
	high.Add(high, newExact().Mul(most, scale))
}

// bounds gives two numbers between which |Z| lies.
func (n *noise) bounds(digits uint) (least, most *big.Float) {
	if digits == wordDigits {
		return n.law.quickly(n.v, n.end)
	}
	all := wholeOf(n.v, n.more())
	if n.end.reached(all) {
		return big.NewFloat(n.end.most), big.NewFloat(n.end.most)
	}
	return n.law.between(all.Rsh(all, mostDigits-digits), digits, n.end)
}

// quickly bounds |Z| by its cell.
func (l *law) quickly(v uint64, e end) (least, most *big.Float) {
	c := l.cellOf(v)
	if c == nil {
		return new(big.Float), big.NewFloat(e.most)
	}
	whole, rest, bound := c.scaled(v, 1, 0)
	near := newExact().Add(big.NewFloat(whole), big.NewFloat(rest))
	off := big.NewFloat(bound)
	return newExact().Sub(near, off), newExact().Add(near, off)
}

// between bounds |Z| for V in [v, v+1]·2^-digits, by a point near it and the tails on both sides of that.
func (l *law) between(v *big.Int, digits uint, e end) (least, most *big.Float) {
	prec := digits + guard
	from, to := fractions(v, digits)
	middle := new(big.Float).Add(from, to)
	middle.SetMantExp(middle, -1)
	f, _ := middle.Float64()
	near := l.inverse(f, e.most)
	slope := l.rate(near, prec)
	slope.SetMantExp(slope, 63) // -d|Z|/dV
	// Newton's method with one slope: a step leaves some 2⁻⁴⁰ of the error.
	z := new(big.Float).SetPrec(prec).SetFloat64(near)
	for range digits/32 + 2 {
		d := new(big.Float).Sub(l.tail(z), middle)
		z.Add(z, d.Mul(d, slope))
		if z.Sign() < 0 {
			z.SetInt64(0)
		}
	}
	// Twice what V leaves open, and more until tails have shown that it is enough.
	margin := tailError(prec)
	reach := new(big.Float).Sub(to, from)
	reach.Mul(reach.Add(reach, margin), slope)
	least, most = new(big.Float), big.NewFloat(e.most)
	for range prec {
		reach.SetMantExp(reach, 1)
		low, high := new(big.Float).Sub(z, reach), new(big.Float).Add(z, reach)
		below := low.Sign() > 0 && low.Cmp(most) < 0
		above := high.Cmp(most) < 0
		if below {
			t := l.tail(low)
			if t.Sub(t, margin).Cmp(to) < 0 {
				continue
			}
		}
		if above {
			t := l.tail(high)
			if t.Add(t, margin).Cmp(from) > 0 {
				continue
			}
		}
		if below {
			least = low
		}
		if above {
			most = high
		}
		break
	}
	return least, most
}
