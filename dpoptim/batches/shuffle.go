package batches

import (
	"fmt"
	"math"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/internal/stream"
)

// Shuffle gives all public places, in a secret, uniform order: what takes one after the other finds
// no record in some of them. The order is no help to a price.
var Shuffle = &Kind{
	Name: "permutation", Ordered: true,
	Drawn: "in one random order", Each: "per step", Called: "records in a random order",
	Fit:   wholeTable,
	Event: accountant.PoissonBatch,
	open: func(b Batching, _ int) (drawing, error) {
		if b.Units < 1 || b.Units > math.MaxInt32 {
			return nil, fmt.Errorf("batches: %d places to shuffle: must be from 1 to %d", b.Units, math.MaxInt32)
		}
		return shuffle{b.Units}, nil
	},
}

type shuffle struct{ places int }

func (s shuffle) words(int) uint64 { return uint64(s.places - 1) }

// draw is by Fisher and Yates (Durstenfeld 1964).
func (s shuffle) draw(_ uint64, r *stream.Reader, dst []int32) []int32 {
	dst = upTo(s.places, dst)
	for i := s.places - 1; i > 0; i-- {
		j := below(r, uint64(i)+1)
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}
