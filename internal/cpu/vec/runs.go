package vec

import (
	"math/bits"
	"slices"
)

// Runs is a list of stretches of one vector that stand elsewhere in another, such as the rows of an image in a padded
// one. It is made once and used many times. The zero value is for stretches of neighbours on both sides.
type Runs struct {
	list     []int32 // triples: destination, source, length
	dst, src int     // the lengths that the vectors need
	to, from int     // steps between a stretch's elements less one, in the destination and in the source

	lines  []int32 // the same as rows of taps, as addLines takes them; nil where they are none
	groups int     // of lines
	short  bool    // no stretch in them has more than eight elements
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

// A stretch lies in a line from some lane on: place is where lane 0 would stand in the source.
type stretch struct{ place, mask int32 }

// A line of the destination, and what is added to it.
type line struct {
	at        int32
	stretches []stretch
}

// Lines makes AddRuns faster where a destination has lines of one short width, and the stretches are those of a convolution:
// every line gets the same taps, row after row. The bits stay the same, but for those of a NaN. Elsewhere it does nothing.
func (r *Runs) Lines(width int) {
	fits(1, width)
	if r.to > 0 || width > longestLine {
		return
	}
	lines := make([]line, (r.dst+width-1)/width)
	for list := r.list; len(list) >= 3; list = list[3:] {
		dst, src, n := int(list[0]), list[1], int(list[2])
		first := dst % width
		if first+n > width {
			return
		}
		l := &lines[dst/width]
		l.at = int32(dst - first)
		l.stretches = append(l.stretches, stretch{src - int32(first), (1<<n - 1) << first})
	}
	lines = slices.DeleteFunc(lines, func(l line) bool { return l.stretches == nil })
	// Lines of as many rows go together.
	slices.SortStableFunc(lines, func(a, b line) int { return len(b.stretches) - len(a.stretches) })
	for taps := 1; len(lines) > 0 && taps <= len(lines[len(lines)-1].stretches); taps++ {
		if step, ok := rowsOfTaps(lines, taps); ok {
			r.listLines(lines, taps, step)
			return
		}
	}
}

// rowsOfTaps says whether every line's stretches are rows of so many taps, which are the same in all rows and lines, and how far
// apart rows lie in the source.
func rowsOfTaps(lines []line, taps int) (step int32, ok bool) {
	model := lines[0].stretches // of the most rows
	if len(model) > taps {
		step = model[taps].place - model[0].place
	}
	for _, l := range lines {
		if len(l.stretches)%taps != 0 {
			return 0, false
		}
		for i, s := range l.stretches {
			row, tap := int32(i/taps), i%taps
			if s.mask != model[tap].mask || s.place-l.stretches[0].place != model[tap].place-model[0].place+row*step {
				return 0, false
			}
		}
	}
	return step, true
}

// listLines writes the list that addLines takes. Where lines of as many rows do not fill a group, the last stands in it several
// times: it is then written several times.
func (r *Runs) listLines(lines []line, taps int, step int32) {
	model := lines[0].stretches[:taps]
	var lanes int32
	for _, s := range model {
		lanes |= s.mask
	}
	r.lines, r.groups = []int32{int32(4 * taps), step, 1<<bits.Len32(uint32(lanes)) - 1}, 0
	r.short = true
	for _, s := range model {
		r.short = r.short && bits.OnesCount32(uint32(s.mask)) <= longestLine/2
		first := bits.TrailingZeros32(uint32(s.mask))
		r.lines = append(r.lines, s.place-model[0].place+int32(first), s.mask, s.mask>>first, int32(first))
	}
	for ; len(lines) > 0; r.groups++ {
		group := 1
		for group < min(linesTogether, len(lines)) && len(lines[group].stretches) == len(lines[0].stretches) {
			group++
		}
		r.lines = append(r.lines, int32(len(lines[0].stretches)/taps))
		for i := range linesTogether {
			l := &lines[min(i, group-1)]
			r.lines = append(r.lines, l.at, l.stretches[0].place)
		}
		lines = lines[group:]
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
		add := use.addLines
		if r.short {
			add = use.addShortLines
		}
		add(dst, src, r.lines, r.groups)
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
