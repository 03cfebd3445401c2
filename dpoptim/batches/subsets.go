package batches

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/stream"
	"github.com/privgrad/privgrad/internal/usage"
)

// Subsets draws batches of a fixed size without replacement: each is a uniformly random subset of the public places.
//
// Records take the places in their order. A place that no record takes adds zero, and
// records beyond the places are never drawn, so that nothing follows from how many
// records there are. Where one record's label or text decides whether it is among
// them, replacing it still replaces what stands in at most one place, up to the order
// of places, which a uniform subset does not see.
var Subsets = &Kind{
	Name: "fixed-size", Offered: true,
	Drawn: "subsets of a fixed size", Each: "per step", Called: "batches of a fixed size",
	Relation: accountant.ReplaceOne, Why: "a record that is added takes another's place", Accountant: accountant.CTCDP,
	Fit:   wholeSize,
	Event: accountant.SubsetBatch,
	open:  newSubsets,
}

func wholeSize(n int, rate float64) (fitted, size float64, err error) {
	expected := rate * float64(n)
	if size = math.Round(expected); size < 1 {
		return 0, 0, usage.Errorf("an expected batch of %v records: subsets have a record at least; raise --batch", expected)
	}
	return size / float64(n), size, nil
}

type subsets struct{ held, n, size int }

func newSubsets(b Batching, held int) (drawing, error) {
	size := int(b.ExpectedBatch)
	if b.Units < 1 || b.Units > math.MaxInt32 || size < 1 || size > b.Units {
		return nil, fmt.Errorf("batches: subsets of %d out of %d %ss: the size must be from 1 to all of at most %d", size, b.Units, b.Unit, math.MaxInt32)
	}
	return subsets{held, b.Units, size}, nil
}

func (s subsets) words(int) uint64 { return uint64(s.size) }

// draw follows Floyd's algorithm (Bentley and Floyd 1987), whose subsets are uniform
// where its numbers are.
func (s subsets) draw(_ uint64, r *stream.Reader, dst []int32) []int32 {
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
			if i := 64*k + bits.TrailingZeros64(word); i < s.held {
				dst = append(dst, int32(i))
			}
		}
	}
	return dst
}
