package kernels

import (
	"fmt"

	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/ir"
)

// What follows launches gradients.cuh: gradients of the weights of a convolution, each example's, from values in Pixels.
//
// A gradient is Σ_p dy[b][p][o]·x[b][pixel(p, tap)][c] over output positions p, in the order of the weights: filter o, channel c, tap;
// then, where the op has a bias, Σ_p dy[b][p][o]. Tensor cores add it up from zero, 16 positions at a time in bf16 and 8 in tf32. The
// order of positions follows from the op and the precision alone: slabs in row-major order, and in one its positions in row-major order.
// So GradientNorm, GradientStore and GradientSum compute the same bits. Channels that only fill eights up are left out.
//
// x is of shape op.Shape, dy of op.Out. An example in which something is not finite has no finite norm, and concerns no other.

// GradientNorm adds an upper bound of the squared norm of each live example's gradient to norm2, GradientNorms parts of float64
// [part][example]. It is at most 1 + 200·2⁻²⁴ times too large.
func (m Math) GradientNorm(b Batch, op *ir.Op, x, dy, norm2 Ptr) Launch {
	p := m.planOf(op)
	examples := p.examplesOfNorm(b.Capacity)
	return p.launch("norm", tensorThreads, ceil(b.Capacity, examples), b.args(x, dy, norm2, I(examples), flag(op.Bias != ir.None)))
}

// GradientStore keeps each live example's gradient at kept[b·stride…], float32, and adds the norm as GradientNorm does. stride counts
// float32 values.
func (m Math) GradientStore(b Batch, op *ir.Op, x, dy, kept Ptr, stride int, norm2 Ptr) Launch {
	p := m.planOf(op)
	examples := p.examplesOfNorm(b.Capacity)
	l := p.launch("store", p.threads(), ceil(b.Capacity, examples), b.args(x, dy, kept, I(stride), norm2, I(examples), flag(op.Bias != ir.None)))
	l.Shared += p.copies()
	return l
}

// GradientSum writes partial sums of gradients times factors to parts[g·stride…], float32, weights then bias, for every part of the
// capacity; SumParts must follow. A part has at most ExampleBlock examples. Each gradient is completed as it was measured and then
// added, times its factor, by fused float32 operations from zero in the order of the examples. A factor that is not above zero
// leaves the example out. stride counts float32 values.
func (m Math) GradientSum(b Batch, op *ir.Op, x, dy, factors, parts Ptr, stride int) Launch {
	p := m.planOf(op)
	return p.add("sum", p.threads(), b, op, x, dy, factors, parts, stride)
}

// GradientAdd is GradientSum where nobody clips, and factors are 1 or 0: the gradients of examples are added up as one chain of products, in
// tensor cores.
func (m Math) GradientAdd(b Batch, op *ir.Op, x, dy, factors, parts Ptr, stride int) Launch {
	return m.planOf(op).add("add", tensorThreads, b, op, x, dy, factors, parts, stride)
}

func (p *gradientPlan) add(name string, threads int, b Batch, op *ir.Op, x, dy, factors, parts Ptr, stride int) Launch {
	examples := p.examples()
	return p.launch(name, threads, ceil(b.Capacity, examples), b.args(x, dy, factors, parts, I(stride), I(examples), flag(op.Bias != ir.None)))
}

// GradientNorms is the number of parts in which GradientNorm and GradientStore give a squared norm.
func (m Math) GradientNorms(op *ir.Op) int { return m.planOf(op).tiles }

// GradientParts is the number of partial sums that GradientSum writes.
func (m Math) GradientParts(op *ir.Op, capacity int) int {
	return ceil(capacity, m.planOf(op).examples())
}

// FitsGradient reports whether an op's slabs have room in shared memory: all but those of far-flung windows do.
func (m Math) FitsGradient(op *ir.Op) bool { return m.planOf(op) != nil }

// What gradients.cuh has in a warp and in a block of tensorThreads.
const (
	pairsOfWarp = 9                               // of a tap and eight channels
	unitBytes   = 16                              // of a copy
	mostTerms   = 128                             // positions of a slab
	mostSlabs   = 80 << 10                        // of shared memory: two blocks of an A100 have it, and with results that are on their way it is less than any GPU has
	copyBytes   = 4 * eight * pairsOfWarp * eight // of eight filters' results
)

// gradientPlan is how an op is cut up, whoever launches: the order of its sums is part of it.
type gradientPlan struct {
	op             *ir.Op
	module         string
	bytes          int // of an element
	stages         int
	lines          int // filters of a warp where four are in a block
	across         int // warps side by side
	filters        int // of a block
	tiles          int
	span           int // eights of channels that a block reads
	rows, cols     int // positions of a slab: of whole rows, or of a part of one
	lineRows       int // rows of x that follow each other by the stride
	lineCols       int
	slotRows       int // rows of x in a slab: lines for each phase of the stride
	slotCols       int
	rowPitch       int // bytes
	stage, tables  int // bytes of a slab, and of what is in front of all
	octet, terms   int // bytes of eight channels; positions that are multiplied at once
	dyPitch, pitch int // bytes of a pixel of dy and of x
}

// planOf gives nil where nothing fits.
func (m Math) planOf(op *ir.Op) *gradientPlan {
	w, p := op.Window, &gradientPlan{op: op, module: m.inPixels("gradients"), bytes: m.ElementBytes(Pixels), stages: 2, terms: 8}
	if device.Precision(m) == device.BF16 {
		p.stages, p.terms = 3, 16
	}
	p.octet = eight * p.bytes
	area := w.H * w.W
	pairs := ceil(op.Shape[0], eight) * area
	switch warps := ceil(pairs, pairsOfWarp); {
	case warps == 1:
		p.across = 1
	case warps == 2 || area < 4: // a block of many channels has little room for positions
		p.across = 2
	default:
		p.across = 4
	}
	down := tensorThreads / warp / p.across
	for p.lines = 16; p.lines < 64 && p.lines*down < op.Out[0]; {
		p.lines *= 2
	}
	p.filters = p.lines * min(down, ceil(op.Out[0], p.lines))
	width := p.across * pairsOfWarp
	p.tiles = ceil(op.Out[0], p.filters) * ceil(pairs, width)
	for n := 0; n < pairs; n += width {
		p.span = max(p.span, (min(n+width, pairs)-1)/area-n/area+1)
	}
	p.dyPitch, p.pitch = (p.filters/eight|1)*p.octet, (p.span|1)*p.octet
	if !p.choose() {
		return nil
	}
	return p
}

// slots is how many pixels of one axis are read at n positions: those of each phase of the stride, which lie in a line.
func slots(n, window, stride, dilation int) (lines, line int) {
	line = n + (window-1)*dilation/stride
	if window == 1 {
		return 1, line
	}
	return stride, line
}

// choose takes the slab that is read and multiplied with the least effort, in about cycles of a multiprocessor.
func (p *gradientPlan) choose() bool {
	best := 0
	for parts := 1; parts <= p.op.Out[2]; parts++ {
		cols := ceil(p.op.Out[2], parts)
		if parts > 1 && cols == ceil(p.op.Out[2], parts-1) {
			continue
		}
		for rows := 1; rows <= p.op.Out[1] && (rows == 1 || parts == 1 && rows*cols <= mostTerms); rows++ {
			q := *p
			if rows*cols > mostTerms || !q.cut(rows, cols) {
				continue
			}
			slabs := ceil(p.op.Out[1], rows) * ceil(p.op.Out[2], cols)
			cost := slabs * (14*q.positions() + 3*q.slotRows*q.slotCols + 100)
			if best == 0 || cost < best {
				best, *p = cost, q
			}
		}
	}
	return best > 0
}

// positions are those of a slab, and as many as fill up what is multiplied at once.
func (p *gradientPlan) positions() int { return ceil(p.rows*p.cols, p.terms) * p.terms }

// cut takes slabs of so many positions, if they have room.
func (p *gradientPlan) cut(rows, cols int) bool {
	w := p.op.Window
	p.rows, p.cols = rows, cols
	var phases int
	phases, p.lineRows = slots(rows, w.H, w.StrideH, w.DilationH)
	p.slotRows = phases * p.lineRows
	phases, p.lineCols = slots(cols, w.W, w.StrideW, w.DilationW)
	p.slotCols = phases * p.lineCols
	p.rowPitch = p.slotCols*p.pitch + p.gap()*p.octet
	p.stage = p.positions()*p.dyPitch + p.slotRows*p.rowPitch
	p.tables = ceil(16*p.slotRows*p.slotCols+4*(p.positions()+p.terms)+4*w.H*w.W, 16) * 16
	return p.tables+p.stages*p.stage <= mostSlabs
}

// gap is how many eights of channels to leave between rows of x so that positions that are read at once lie in different banks.
func (p *gradientPlan) gap() int {
	together := 16 / p.bytes // positions, or eights of channels until banks are the same
	best, least := 0, 0
	for gap := range together {
		passes := 0
		for first := 0; first < p.rows*p.cols; first += together {
			var banks [8]int
			most := 0
			for n := first; n < min(first+together, p.rows*p.cols); n++ {
				at := (n/p.cols*(p.slotCols*p.pitch/p.octet+gap) + n%p.cols*p.pitch/p.octet) % together
				banks[at]++
				most = max(most, banks[at])
			}
			passes += most
		}
		if gap == 0 || passes < least {
			best, least = gap, passes
		}
	}
	return best
}

// threads are those of a block whose warps have at most 32 filters.
func (p *gradientPlan) threads() int { return tensorThreads * ceil(p.lines, 32) }

// copies is what the warps of such a block take to write results, in bytes.
func (p *gradientPlan) copies() int { return copyBytes * p.threads() / warp }

// examples are those of a part: as many as there are tiles, so that all shapes have about one block for an example. They follow from the op
// alone: the order of a sum does not depend on the capacity.
func (p *gradientPlan) examples() int { return min(p.tiles, ExampleBlock) }

// examplesOfNorm are a block's, which shares its tables among them.
func (p *gradientPlan) examplesOfNorm(capacity int) int {
	return max(1, min(p.tiles*capacity/1000, ExampleBlock))
}

func (p *gradientPlan) launch(name string, threads, groups int, args []uint64) Launch {
	var cut []uint64
	for _, n := range []int{p.across, p.filters, p.span, p.rows, p.cols, p.slotRows, p.slotCols, p.lineRows, p.lineCols, p.rowPitch, p.stage, p.tables,
		threads * unitBytes / (p.filters * p.bytes), threads * unitBytes / (p.span * p.octet)} {
		cut = append(cut, I(n))
	}
	l := conv(p.module, fmt.Sprint("gradients_", name, "_", p.lines), [3]int{groups, p.tiles, 1}, threads, args, cut, geometry(p.op))
	l.Shared = p.tables + max(p.stages*p.stage, p.copies()) // results that are written at the end lie where slabs were
	return l
}
