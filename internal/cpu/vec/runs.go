package vec

// Runs is a list of stretches of one vector that stand elsewhere in another, such as the rows of an image among the
// columns of a convolution. It is made once and used many times.
type Runs struct {
	list     []int32 // triples: destination, source, length
	dst, src int     // the lengths that the vectors need
}

// Add appends n elements from src on that stand from dst on.
func (r *Runs) Add(dst, src, n int) {
	fits(0, min(dst, src, n))
	r.list = append(r.list, int32(dst), int32(src), int32(n))
	r.dst, r.src = max(r.dst, dst+n), max(r.src, src+n)
}

// CopyRuns copies every stretch of src to its place in dst, in order.
func CopyRuns(dst, src []float32, r *Runs) {
	fits(r.dst, len(dst))
	fits(r.src, len(src))
	use.copyRuns(dst, src, r.list)
}

// AddRuns adds every stretch of src to its place in dst, in order.
func AddRuns(dst, src []float32, r *Runs) {
	fits(r.dst, len(dst))
	fits(r.src, len(src))
	use.addRuns(dst, src, r.list)
}
