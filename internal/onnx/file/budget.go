package file

import "errors"

// A model's nodes and names take more memory than in the file: two bytes can stand for a node. What is made of
// the file, but for the bytes of names, is therefore paid from a budget before it is made. A model takes the file,
// its names once more, and this budget. Numbers that are asked for take as much as in the files and 4 bytes each, or 8 bytes each
// for whole numbers, of which one constant has 2²⁰ at most. While whole numbers of one byte are not kept, all of that is less than 64 MiB
// and 8 times the files.
const mostMade = 48 << 20

// What pieces take at most, in bytes: TestMemory measures them.
const (
	nodeCosts      = 256
	nameCosts      = 40  // of an input
	outputCosts    = 160 // with an entry in the table of what is made
	attributesCost = 512 // of a node that has any
	attributeCosts = 400
	numberCosts    = 8
	valueCosts     = 128
	axisCosts      = 48
	tensorCosts    = 512
)

var errTooMuch = errors.New("the graph has more nodes, names or settings than the 48 MiB allowed for them hold: the file is not a network of ordinary size, or is damaged")

type budget struct{ left int }

// pay takes the cost of some pieces.
func (b *budget) pay(pieces, cost int) error {
	if pieces > b.left/cost {
		return errTooMuch
	}
	b.left -= pieces * cost
	return nil
}
