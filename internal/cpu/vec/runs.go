package vec

// Runs is a list of stretches of one vector that stand elsewhere in another, such as the rows of an image in a padded
// one. It is made once and used many times. The zero value is for stretches of neighbours on both sides.
type Runs struct {
	list     []int32 // triples: destination, source, length
	dst, src int     // the lengths that the vectors need
	to, from int     // steps between a stretch's elements less one, in the destination and in the source
}

// Gather makes an empty list for CopyRuns of stretches whose elements stand step apart in the source.
func Gather(step int) Runs {
	fits(1, step)
	return Runs{from: step - 1}
}

// Scatter makes an empty list for AddRuns of stretches whose elements stand step apart in the destination.
func Scatter(step int) Runs {
	fits(1, step)
	return Runs{to: step - 1}
}

// Add appends n elements from src on that stand from dst on.
func (r *Runs) Add(dst, src, n int) {
	fits(0, min(dst, src, n))
	r.list = append(r.list, int32(dst), int32(src), int32(n))
	if n > 0 {
		r.dst, r.src = max(r.dst, dst+(n-1)*(r.to+1)+1), max(r.src, src+(n-1)*(r.from+1)+1)
	}
}

// CopyRuns copies every stretch of src to its place in dst, in order.
func CopyRuns(dst, src []float32, r *Runs) {
	fits(r.dst, len(dst))
	fits(r.src, len(src))
	fits(r.to, 0)
	switch r.from {
	case 0:
		use.copyRuns(dst, src, r.list)
	case 1:
		use.gather2(dst, src, r.list)
	default:
		gather(dst, src, r.list, r.from+1)
	}
}

// AddRuns adds every stretch of src to its place in dst, in order. Between the elements of a stretch a -0 may turn
// into 0.
func AddRuns(dst, src []float32, r *Runs) {
	fits(r.dst, len(dst))
	fits(r.src, len(src))
	fits(r.from, 0)
	switch r.to {
	case 0:
		use.addRuns(dst, src, r.list)
	case 1:
		use.scatter2(dst, src, r.list)
	default:
		scatter(dst, src, r.list, r.to+1)
	}
}

func gather(dst, src []float32, list []int32, step int) {
	for ; len(list) >= 3; list = list[3:] {
		to, from := dst[list[0]:], src[list[1]:]
		for i := range int(list[2]) {
			to[i] = from[i*step]
		}
	}
}

func scatter(dst, src []float32, list []int32, step int) {
	for ; len(list) >= 3; list = list[3:] {
		to, from := dst[list[0]:], src[list[1]:]
		for i := range int(list[2]) {
			to[i*step] += from[i]
		}
	}
}
