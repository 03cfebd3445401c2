package stream

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync"
)

// MaxNormals is the number of normals in one (step, tensor): 2³² pairs of 16
// bytes. ChaCha20 packs four pairs in a block and stays within the same range.
const MaxNormals = 1 << 33

// MaxRadius, sqrt(-2·ln(2⁻⁶⁵)), bounds every normal in absolute value. A true
// pair of normals lies outside that radius with probability 2⁻⁶⁵, which
// docs/privacy.md states beside δ.
const MaxRadius = 9.4925831

const chunk = 16384 // keystream bytes transformed at a time: 1024 pairs, half of L1

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// Normals writes standard normal number first+i of the stream (step, tensor) to
// dst[i]. A number depends on its position only, so any split over calls or
// goroutines gives the same values. Positions outside [0, MaxNormals) give NaN:
// a visible failure instead of noise that was used before.
//
// Numbers 2p and 2p+1 are the Box–Muller pair of keystream bytes 16p to 16p+15:
// radius sqrt(-2·ln((x+½)/2⁶⁴)) from the first little-endian word, angle from
// the second.
func (s *Stream) Normals(dst []float64, step uint64, tensor uint32, first int) {
	if !inRange(first, len(dst)) {
		outOfRange(dst)
		return
	}
	s.eachChunk(step, tensor, first, len(dst), func(lo, hi int, raw []byte, skip int) {
		d := dst[lo:hi]
		if skip == 1 {
			_, d[0] = boxMuller(raw)
			d, raw = d[1:], raw[16:]
		}
		for ; len(d) > 1; d, raw = d[2:], raw[16:] {
			d[0], d[1] = boxMuller(raw)
		}
		if len(d) > 0 {
			d[0], _ = boxMuller(raw)
		}
	})
}

// AddNormals sets dst[i] = src[i] + std·z[i] for the length of dst, where z[i] is
// standard normal number first+i of the stream (step, tensor). It is for speed;
// dst may be src.
//
// z is the number of Normals, from the same keystream, within
// 4e-7·|z| + 1e-14, down to the smallest and up to the largest radius. The sum is rounded
// once. As with Normals a value depends on its position only; one from a processor
// with AVX2 and FMA and one from another may differ within these bounds.
// Positions out of range give NaN.
func (s *Stream) AddNormals(dst, src []float32, std float32, step uint64, tensor uint32, first int) {
	src = src[:len(dst):len(src)]
	if !inRange(first, len(dst)) {
		for i := range dst {
			dst[i] = float32(math.NaN())
		}
		return
	}
	s.eachChunk(step, tensor, first, len(dst), func(lo, hi int, raw []byte, skip int) {
		s.kernels.addNormals(dst[lo:hi], src[lo:hi], raw, skip, std)
	})
}

func outOfRange(dst []float64) {
	for i := range dst {
		dst[i] = math.NaN()
	}
}

func inRange(first, n int) bool { return first >= 0 && uint64(first)+uint64(n) <= MaxNormals }

// eachChunk visits n normals in order: those from lo to hi have the pairs of raw,
// without the first normal of raw if skip is 1.
func (s *Stream) eachChunk(step uint64, tensor uint32, first, n int, visit func(lo, hi int, raw []byte, skip int)) {
	buf := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buf)
	perBlock := s.cipher.BlockSize() / 16
	for lo := 0; lo < n; {
		pair, skip := (first+lo)/2, (first+lo)%2
		before := pair % perBlock // pairs of the first block that lie before ours
		pairs := min(chunk/16-before, (skip+n-lo+1)/2)
		raw := buf[:(before+pairs)*16]
		s.Fill(raw, step, at(tensor, uint32(pair/perBlock)))
		hi := min(lo+2*pairs-skip, n)
		visit(lo, hi, raw[before*16:], skip)
		lo = hi
	}
}

// boxMuller maps 16 uniform bytes to two independent standard normals.
func boxMuller(b []byte) (float64, float64) {
	_ = b[15]
	r := radius(binary.LittleEndian.Uint64(b))
	sin, cos := sincos(binary.LittleEndian.Uint64(b[8:]))
	return r * cos, r * sin
}

// radius returns sqrt(-2·ln u), u = (x+½)/2⁶⁴.
func radius(x uint64) float64 {
	return math.Sqrt(-2 * logUnit(x))
}

// logUnit returns ln u, u = (x+½)/2⁶⁴. Close to u = 1 the logarithm is taken of
// the complement 1-u = (¬x+½)/2⁶⁴, which is exact where u has rounded: small
// radii keep all their bits too.
func logUnit(x uint64) float64 {
	if x < 15<<60 {
		return math.Log(unit(x))
	}
	return math.Log1p(-unit(^x))
}

// unit returns (x+½)/2⁶⁴. The halves convert without the branch that a uint64
// beyond 2⁶³ costs.
func unit(x uint64) float64 {
	return float64(int64(x>>32))*0x1p-32 + (float64(int64(x&0xffffffff))+0.5)*0x1p-64
}

// sincos returns the sine and cosine of a uniform angle. Two bits choose the
// quadrant and the other 62 an offset in ±π/4, so the range reduction is exact
// and Taylor polynomials suffice (remainders below 5e-17 and 3e-18).
func sincos(y uint64) (sin, cos float64) {
	t := (float64(int64(y<<2)) + 0.5) * (math.Pi / 2 * 0x1p-64)
	z := t * t
	sin = t + t*z*(-1./6+z*(1./120+z*(-1./5040+z*(1./362880+z*(-1./39916800+
		z*(1./6227020800+z*(-1./1307674368000)))))))
	cos = 1 + z*(-1./2+z*(1./24+z*(-1./720+z*(1./40320+z*(-1./3628800+
		z*(1./479001600+z*(-1./87178291200+z*(1./20922789888000))))))))

	// Turning by k quarter turns swaps and negates, here without a branch,
	// which a random k would mispredict.
	k := y >> 62
	s, c := math.Float64bits(sin), math.Float64bits(cos)
	swap := (s ^ c) & -(k & 1)
	s ^= swap ^ k>>1<<63
	c ^= swap ^ bits.RotateLeft64((k^k>>1)&1, 63)
	return math.Float64frombits(s), math.Float64frombits(c)
}
