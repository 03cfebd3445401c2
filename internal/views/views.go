// Package views draws what is random in the views of records: a secret word for each view of a record in a batch.
package views

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/privgrad/privgrad/internal/stream"
)

// Words draws the words of views. That of a view follows from a key, the position of the batch, the number of the record among all
// records, and the view: not from what else is in the batch, or in how many parts it is summed.
//
// The key is secret and has no other use. So words are independent of each other, of batches, noise and records, and all have the
// same law. This is why the unit stays one record (docs/proofs/views.md):
//
//   - Give every record fixed words. Its share is then a function of the record alone, clipped to C, and one record more or less
//     moves a sum by at most C.
//   - A record that is removed moves the numbers of those behind it, which therefore have other words. But no two records have
//     the same number, so the words of all records have the same joint law with and without it.
//   - What is released is thus a mixture over fixed words, with the same weights in both worlds. Its divergence is at most
//     the largest of those of its parts.
//
// With words from a seed that somebody knows, the weights differ, and the shift of all words would show.
type Words struct {
	stream *stream.Stream
	views  int    // of a record
	first  uint64 // the number of the table's first record among all records
	blocks uint64 // of the stream, for a record
	buffer []byte
}

// New draws words for so many views of the records of a table, whose first has a number among all. The key is used for nothing
// else.
func New(c stream.Cipher, key stream.Key, views, first int) (*Words, error) {
	if views < 1 || first < 0 || first > math.MaxInt32 {
		return nil, fmt.Errorf("words are drawn for one view or more of records numbered from 0 on, not for %d from %d on", views, first)
	}
	s, err := stream.New(c, key)
	if err != nil {
		return nil, err
	}
	size := c.BlockSize()
	blocks := (4*views + size - 1) / size
	return &Words{stream: s, views: views, first: uint64(first), blocks: uint64(blocks), buffer: make([]byte, 4*views)}, nil
}

// Of appends the words of a batch at a position to dst, a row's one after the other.
func (w *Words) Of(position uint64, rows []int32, dst []uint32) []uint32 {
	for _, row := range rows {
		w.stream.Fill(w.buffer, position, (w.first+uint64(row))*w.blocks)
		for k := range w.views {
			dst = append(dst, binary.LittleEndian.Uint32(w.buffer[4*k:]))
		}
	}
	clear(w.buffer)
	return dst
}
