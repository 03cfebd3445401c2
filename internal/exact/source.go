package exact

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/privgrad/privgrad/internal/stream"
)

const (
	// maxDraws is Draws of ChaCha20.
	maxDraws = 1 << 32
	// MaxTensor bounds tensors; the numbers above belong to further digits.
	MaxTensor = 1 << 31
)

// Draws is how many draws one (step, tensor) of a cipher holds: each has its blocks for further digits.
func Draws(c stream.Cipher) uint64 { return maxDraws / moreBlocks(c) }

// Check says whether a stream and a tensor can serve a sampler.
func Check(s *stream.Stream, tensor uint32) error {
	if s == nil {
		return fmt.Errorf("exact noise needs a stream")
	}
	if tensor >= MaxTensor {
		return fmt.Errorf("exact noise under tensor %d: must be below %d, the rest is for further digits", tensor, uint32(MaxTensor))
	}
	return nil
}

// A source is one tensor of a stream, and so the digits of its draws.
type source struct {
	stream *stream.Stream
	tensor uint32
}

// digitBytes is what follows the first 63 digits of a draw.
const digitBytes = 64

// moreBlocks is how many blocks of a cipher that takes.
func moreBlocks(c stream.Cipher) uint64 { return uint64(digitBytes / c.BlockSize()) }

// holds says whether a step has draws first to first+n-1.
func (s *source) holds(first, n int) bool {
	return first >= 0 && uint64(first)+uint64(n) <= Draws(s.stream.Cipher())
}

// A buffer is words transformed at a time, inside the L1 cache.
type buffer [8 * 1024]byte

var chunks = sync.Pool{New: func() any { return new(buffer) }}

// words gives the words of draws first, first+1, …: of n draws, or of as many as the buffer takes.
func (s *source) words(buf *buffer, step uint64, first, n int) []byte {
	perBlock := s.stream.Cipher().BlockSize() / 8
	skip := 8 * (first % perBlock)
	raw := buf[:min(skip+8*n, len(buf))]
	s.stream.Fill(raw, step, uint64(s.tensor)<<32|uint64(first/perBlock))
	return raw[skip:]
}

// word is the word of draw i.
func (s *source) word(step uint64, i int) uint64 {
	var block [64]byte
	perBlock := s.stream.Cipher().BlockSize() / 8
	s.stream.Fill(block[:8*perBlock], step, uint64(s.tensor)<<32|uint64(i/perBlock))
	return binary.LittleEndian.Uint64(block[8*(i%perBlock):])
}

// digits is what follows the first 63 digits of draw i.
func (s *source) digits(step uint64, i int) *[digitBytes]byte {
	more := new([digitBytes]byte)
	s.stream.Fill(more[:], step, uint64(s.tensor|MaxTensor)<<32|uint64(i)*moreBlocks(s.stream.Cipher()))
	return more
}
