package cpu

import "github.com/privgrad/privgrad/internal/cpu/vec"

// pairwise adds blocks in a binary tree, which keeps rounding small; its shape depends on their number alone.
type pairwise struct {
	stack [][]float32
	depth int
	count int
	size  int
}

// begin starts a sum of blocks of one size.
func (t *pairwise) begin(size int) { t.depth, t.count, t.size = 0, 0, size }

// next is the buffer for the next block, of unspecified values. push adds it.
func (t *pairwise) next() []float32 {
	if t.depth == len(t.stack) {
		t.stack = append(t.stack, nil)
	}
	t.stack[t.depth] = grow(t.stack[t.depth], t.size)
	return t.stack[t.depth]
}

func (t *pairwise) push() {
	t.depth++
	t.count++
	for k := t.count; k&1 == 0; k >>= 1 {
		t.merge()
	}
}

func (t *pairwise) merge() {
	t.depth--
	vec.AddVec(t.stack[t.depth-1][:t.size], t.stack[t.depth][:t.size])
}

// sum is the total of all blocks; begin must have been followed by a push.
func (t *pairwise) sum() []float32 {
	for t.depth > 1 {
		t.merge()
	}
	return t.stack[0][:t.size]
}
