package vec

import "slices"

// Runs is a list of stretches of one vector that stand elsewhere in another, such as the rows of an image in a padded
// one. It is made once and used many times. The zero value is for stretches of neighbours on both sides.
type Runs struct {
	list     []int32 // triples: destination, source, length
	dst, src int     // the lengths that the vectors need
	to, from int     // steps between a stretch's elements less one, in the destination and in the source

	lines  []int32 // the same by line of the destination, as addLines takes it; nil where there are none
	groups int     // of lines
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
	if n == 0 {
		return
	}
	r.list, r.lines = append(r.list, int32(dst), int32(src), int32(n)), nil
	r.dst, r.src = max(r.dst, dst+(n-1)*(r.to+1)+1), max(r.src, src+(n-1)*(r.from+1)+1)
}

const (
	longestLine   = 16 // elements of a register
	linesTogether = 4  // of addLines
)

// Lines makes AddRuns faster where a destination has lines of one short width and many stretches lie in each. The bits stay
// the same, but for those of a NaN. It does nothing where lines are too long, or a stretch lies in two.
func (r *Runs) Lines(width int) {
	fits(1, width)
	if r.to > 0 || width > longestLine {
		return
	}
	type stretch struct{ place, mask int32 }
	type line struct {
		at, mask  int32
		stretches []stretch
	}
	lines := make([]line, (r.dst+width-1)/width)
	for i := range lines {
		lines[i].at, lines[i].mask = int32(i*width), 1<<min(width, r.dst-i*width)-1
	}
	for list := r.list; len(list) >= 3; list = list[3:] {
		dst, src, n := int(list[0]), list[1], int(list[2])
		first := dst % width
		if first+n > width {
			return
		}
		l := &lines[dst/width]
		l.stretches = append(l.stretches, stretch{src - int32(first), (1<<n - 1) << first})
	}
	// Lines of about as many stretches go together. Where one has fewer, nothing is added to it.
	slices.SortStableFunc(lines, func(a, b line) int { return len(b.stretches) - len(a.stretches) })
	r.lines, r.groups = nil, 0
	for len(lines) > 0 && len(lines[0].stretches) > 0 {
		var group [linesTogether]line
		lines = lines[copy(group[:], lines):]
		most := len(group[0].stretches)
		r.lines = append(r.lines, int32(most))
		for _, l := range group {
			r.lines = append(r.lines, l.at, l.mask)
		}
		for i := range most {
			for _, l := range group {
				var s stretch
				if i < len(l.stretches) {
					s = l.stretches[i]
				}
				r.lines = append(r.lines, s.place, s.mask)
			}
		}
		r.groups++
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
	switch {
	case r.lines != nil && use.addLines != nil:
		use.addLines(dst, src, r.lines, r.groups)
	case r.to == 0:
		use.addRuns(dst, src, r.list)
	case r.to == 1:
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
