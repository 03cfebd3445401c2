package datasets

import (
	"fmt"
	"math"
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

var (
	_ Sampler = (*Poisson)(nil)
	_ Sampler = (*Subsets)(nil)
)

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

// below is a uniform number below n, without bias (Lemire 2019).
func below(r *stream.Reader, n uint64) uint64 {
	high, low := bits.Mul64(r.Uint64(), n)
	for least := -n % n; low < least; {
		high, low = bits.Mul64(r.Uint64(), n)
	}
	return high
}
