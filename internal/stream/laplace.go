package stream

import "encoding/binary"

// MaxLaplace, -ln(2⁻⁶⁵), bounds every Laplace number in absolute value. A true one
// lies outside with probability 2⁻⁶⁵.
const MaxLaplace = 45.0545668

// Laplaces writes Laplace number first+i, of density e^(−|x|)/2, of the stream
// (step, tensor) to dst[i]: as Normals does, which it must not share a position
// with, half as many to a position.
//
// Number j is made of keystream bytes 16j to 16j+15: the magnitude is
// −ln((x+½)/2⁶⁴) of the first little-endian word, and the least bit of the second
// its sign.
func (s *Stream) Laplaces(dst []float64, step uint64, tensor uint32, first int) {
	if !inRange(2*first, 2*len(dst)) {
		outOfRange(dst)
		return
	}
	s.eachChunk(step, tensor, 2*first, 2*len(dst), func(lo, hi int, raw []byte, _ int) {
		for i := lo / 2; i < hi/2; i, raw = i+1, raw[16:] {
			dst[i] = -logUnit(binary.LittleEndian.Uint64(raw))
			if raw[8]&1 == 1 {
				dst[i] = -dst[i]
			}
		}
	})
}
