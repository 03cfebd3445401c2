package exact

// kernels is one implementation of the first path for many draws at a time. It begins at the first word and draw, is
// given groups of whole numbers, and stops early at will, at the latest before a vector with an open draw: it returns how many draws it has done.
type kernels struct {
	add     func(dst []int64, words []byte, f *Fixed) int
	release func(dst, src []float32, words []byte, f *Fixed, r *grid) int
}

// group is a multiple of every kernel's vector.
const group = 8

// portable leaves all draws to Fixed.Draw.
var portable = &kernels{
	add:     func([]int64, []byte, *Fixed) int { return 0 },
	release: func(_, _ []float32, _ []byte, _ *Fixed, _ *grid) int { return 0 },
}

var use = best() // replaced by tests alone

// middle is where a float64 counts integers: below it are as many as above.
const middle = 0x1.8p52

// rows is the table as kernels take it.
func rows() *[4]uint64 { return (*[4]uint64)(&table()[0]) }
