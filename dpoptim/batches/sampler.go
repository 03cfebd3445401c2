package batches

import (
	"fmt"
	"math/bits"

	"github.com/privgrad/privgrad/internal/stream"
)

// Sampler draws the batches of a table. It may hold secrets, for as long as an event of its kind stands. They
// end with the process: another one has other keys, and draws what is left of the schedule anew.
type Sampler interface {
	// Batch returns the indices of the records of a batch in increasing order, or in that of an Ordered kind,
	// in dst's storage where it suffices. It is a pure function of the sampler's key and the position.
	// The indices, and their number, are private. Concurrent use is allowed.
	Batch(position uint64, dst []int32) []int32
}

// drawing is what a kind's sampler does for one batch.
type drawing interface {
	// draw appends the batch's indices to dst, which is empty.
	draw(position uint64, r *stream.Reader, dst []int32) []int32
	// words are the 64-bit random words that a batch of so many records reads at most, but for rejections, whose
	// probability is below 2⁻³³ a word.
	words(size int) uint64
}

// mostWords is what one position of a stream holds, of either cipher.
const mostWords = 1 << 33

// Sampler draws from a table that holds so many records, which may be another number than the public one. The
// key must be used for nothing else.
func (b Batching) Sampler(held int, key stream.Key, cipher stream.Cipher) (Sampler, error) {
	d, err := b.open(b, held)
	if err != nil {
		return nil, err
	}
	if d.words(int(b.ExpectedBatch)+1) > mostWords {
		return nil, fmt.Errorf("batches: an expected batch of %v %ss takes more random numbers than a stream has for it: use smaller batches", b.ExpectedBatch, b.Unit)
	}
	s, err := stream.New(cipher, key)
	span := uint64(perStep) * uint64(b.span())
	return samplerFunc(func(position uint64, dst []int32) []int32 {
		first := position - position%span + position%uint64(perStep) // batches of one event read the same words
		r := s.Reader(first, 0)
		defer r.Free()
		return d.draw(position, r, dst[:0])
	}), err
}

type samplerFunc func(position uint64, dst []int32) []int32

func (f samplerFunc) Batch(position uint64, dst []int32) []int32 { return f(position, dst) }

// Part gives, of the batches of a whole table, the count records from first on, by their place among those and in
// the whole batch's order. Parts draw by samplers of one key, so that their batches together are the whole
// table's, whatever the number of parts and their sizes. A batch costs what the whole one does. A place
// behind all records, which holds none, is in no part.
func Part(whole Sampler, first, count int) Sampler {
	return samplerFunc(func(position uint64, dst []int32) []int32 {
		all := whole.Batch(position, dst)
		own := all[:0]
		for _, i := range all {
			if at := int(i) - first; at >= 0 && at < count {
				own = append(own, int32(at))
			}
		}
		return own
	})
}

// below is a uniform number below n, without bias (Lemire 2019).
func below(r *stream.Reader, n uint64) uint64 {
	high, low := bits.Mul64(r.Uint64(), n)
	for least := -n % n; low < least; {
		high, low = bits.Mul64(r.Uint64(), n)
	}
	return high
}

// upTo appends the indices below n.
func upTo(n int, dst []int32) []int32 {
	for i := range n {
		dst = append(dst, int32(i))
	}
	return dst
}
