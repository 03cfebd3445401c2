package gemm

// Convolutions of one image without its columns: the kernels read the image where it lies.

// Taps says how the outputs of a convolution read an image. Output (i, j) of rows by cols, at stride one, is
// Σ_p a[p]·x[i·pitch + j + offset(p)]; in memory it stands at i·cols + j.
type Taps struct {
	offsets    []int32 // in bytes
	rows, cols int
	pitch      int
	exact      []int32 // pairs of groups of outputs, as the kernel wants them
	spilling   []int32 // the same, where what stands behind a group is written again later
	jumps      []int32 // bytes from the end of each row of outputs to the next
	reach      int     // floats of an image that are read, outputs that do not exist among them

	run    int       // taps follow each other in runs of so many neighbours
	starts []int32   // offsets of the runs
	lanes  []laneSet // the runs as contractFew wants them
}

const (
	group     = 8   // outputs of one register
	blockPos  = 256 // positions that Contract sums up before it turns to the next taps
	narrowM   = 8   // taps of a tile where a group holds all channels, or registers are wide
	fewM      = 8   // most channels whose taps fill the lanes of wide registers
	fewRuns   = 3   // runs of taps in such a register
	pairWords = 6
)

// NewTaps describes a convolution with the taps at offsets, in floats, from the place of an output in its image.
func NewTaps(offsets []int, rows, cols, pitch int) *Taps {
	t := &Taps{rows: rows, cols: cols, pitch: pitch}
	furthest := 0
	for _, o := range offsets {
		within(0, o, o)
		t.offsets = append(t.offsets, int32(4*o))
		furthest = max(furthest, o)
	}
	var groups [][3]int // place in the image, place among the outputs, length
	for i := range rows {
		for j := 0; j < cols; j += group {
			groups = append(groups, [3]int{i*pitch + j, i*cols + j, min(group, cols-j)})
			t.reach = max(t.reach, i*pitch+j+group+furthest)
		}
	}
	if len(groups)%2 == 1 {
		last := groups[len(groups)-1]
		groups = append(groups, [3]int{last[0], last[1], 0})
	}
	for k := 0; k < len(groups); k += 2 {
		g, h := groups[k], groups[k+1]
		spill := func(g [3]int) int32 {
			if g[2] > 0 && g[1]+group <= rows*cols {
				return group
			}
			return int32(g[2])
		}
		places := []int32{int32(4 * g[0]), int32(4 * h[0]), int32(4 * g[1]), int32(4 * h[1])}
		t.exact = append(append(t.exact, places...), int32(g[2]), int32(h[2]))
		t.spilling = append(append(t.spilling, places...), spill(g), spill(h))
	}
	for range rows {
		t.jumps = append(t.jumps, int32(4*(pitch-cols)))
	}
	t.findRuns()
	return t
}

// findRuns cuts the taps into runs of neighbours, all as long as the first one or all of one tap.
func (t *Taps) findRuns() {
	next := func(p int) bool { return t.offsets[p] == t.offsets[p-1]+4 }
	for t.run = 1; t.run < len(t.offsets) && next(t.run); t.run++ {
	}
	for p := range t.offsets {
		if p > 0 && next(p) == (p%t.run == 0) || len(t.offsets)%t.run > 0 {
			t.run = 1
			break
		}
	}
	for p := 0; p < len(t.offsets); p += t.run {
		t.starts = append(t.starts, t.offsets[p])
	}
	if t.run*fewRuns <= wideN/2 {
		for r := 0; r < len(t.starts); r += 2 * fewRuns {
			t.lanes = append(t.lanes, newLaneSet(t.starts[r:min(r+2*fewRuns, len(t.starts))], t.run))
		}
	}
}

// Reach is how many floats an image needs to have: more than outputs read, as registers are loaded whole.
func (t *Taps) Reach() int { return t.reach }

// Outputs is the number of outputs of a channel.
func (t *Taps) Outputs() int { return t.rows * t.cols }

// Lanes is how many outputs of a channel are computed, those that do not exist among them.
func (t *Taps) Lanes() int { return len(t.exact) / pairWords * 2 * group }

// Terms bounds the roundings of an element of Contract over one image: within γ(Terms) of its terms' magnitudes.
func (t *Taps) Terms() int {
	rows := max(blockPos/t.cols, 1)
	return min(rows*t.cols, t.rows*t.cols) + (t.rows+rows-1)/rows + 2
}

// Columns writes what the taps of every output read, one row an output.
func (t *Taps) Columns(dst, x []float32) {
	for i := range t.rows {
		for j := range t.cols {
			row, from := dst[(i*t.cols+j)*len(t.offsets):][:len(t.offsets)], x[i*t.pitch+j:]
			for p, o := range t.offsets {
				row[p] = from[o/4]
			}
		}
	}
}

// Correlate computes c = A·X, or c += A·X when accumulate is set: output o of channel i, at c[i·ldc+o], is row i of a
// against the taps of o in x, in the chain of multiply-adds of Mul. Then bias[i] is added, unless bias is nil, and with
// relu what is below zero becomes zero. c[i·ldc:] needs room for all outputs.
func Correlate(c []float32, ldc int, a *PackedA, x []float32, t *Taps, accumulate bool, bias []float32, relu bool) {
	agree(a.k, len(t.offsets))
	within(t.reach, len(x), len(x))
	outputs := t.rows * t.cols
	if a.m == 0 || outputs == 0 || a.k == 0 {
		return
	}
	_ = c[(a.m-1)*ldc+outputs-1]
	if bias != nil {
		_ = bias[a.m-1]
	}
	height, step := split(a.m), blockLen(a.k, blockK)
	for p0 := 0; p0 < a.k; p0 += step {
		kc := min(step, a.k-p0)
		pairs, add := t.spilling, accumulate || p0 > 0
		if add {
			pairs = t.exact
		}
		last := p0+kc == a.k
		for i := range height.panels {
			row, h := height.panel(i)
			var b []float32
			if bias != nil && last {
				b = bias[row : row+h]
			}
			correlate(h, kc, a.data[(i*a.k+p0)*TileM:], t.offsets[p0:p0+kc], x, pairs, c[row*ldc:], ldc, add, b, relu && last)
		}
	}
}

// Contract computes the gradient of a convolution's weights, C = X·δᵀ, or C += X·δᵀ when accumulate is set: element
// (p, j) of C sums x[position + offset(p)]·δ[j, position] over the positions, in order, blocks of whole rows at a time, of
// at most blockPos positions or one row. delta has a row for every channel of outputs and CS = 1, c a row for every tap and
// CS = 1. What scratch holds is lost.
func Contract(c Matrix, x []float32, t *Taps, delta Matrix, accumulate bool, scratch *PackedB) {
	delta.check()
	agree(delta.CS, 1)
	c.checkResult(len(t.offsets), t.rows*t.cols, delta.Cols, delta.Rows)
	within(t.reach, len(x), len(x))
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	if few := c.Cols <= fewM && len(t.starts) > fewRuns; few && wide && t.run > 2 && len(t.lanes) > 0 {
		scratch.data = grow(scratch.data, fewM*wideN)
		t.contractFew(c, x, delta, accumulate, (*[fewM * wideN]float32)(scratch.data))
		return
	}
	packed := scratch
	PackB(packed, delta.T())
	t.blocks(func(r0, r1 int, accumulates bool) {
		for j := range packed.Panels() {
			p := product{
				rows: r1 - r0, inner: t.cols, jumps: t.jumps[r0:r1], x: x[r0*t.pitch:], b: packed.panel(j)[r0*t.cols*TileN : r1*t.cols*TileN],
				n: min(TileN, packed.n-j*TileN), accumulate: accumulate || accumulates,
			}
			p.contract(c.Data[j*TileN:], c.RS, t)
		}
	})
}

// blocks visits blocks of rows; all but the first add to what there is.
func (t *Taps) blocks(visit func(r0, r1 int, accumulate bool)) {
	step := max(blockPos/t.cols, 1)
	blocks := (t.rows + step - 1) / step
	for r := range blocks {
		visit(t.rows*r/blocks, t.rows*(r+1)/blocks, r > 0)
	}
}

// product is a block of rows of positions against a panel of δ.
type product struct {
	rows, inner int
	jumps       []int32
	x, b        []float32
	n           int
	accumulate  bool
}

// contract computes all taps against the panel: whole groups of runs, where there is a kernel, then the rest.
func (p *product) contract(c []float32, ldc int, t *Taps) {
	first := 0
	if size := runsOfTile(t.run); wide && p.n <= wideN/2 && size > 0 {
		for r := 0; r+size <= len(t.starts); r += size {
			contractRuns(t.run, p, t.starts[r:r+size], c[first*ldc:], ldc)
			first += size * t.run
		}
	}
	most := TileM
	if wide || p.n <= group {
		most = narrowM
	}
	if first == len(t.offsets) {
		return
	}
	rest := splitBy(len(t.offsets)-first, most)
	for i := range rest.panels {
		row, h := rest.panel(i)
		row += first
		contract(h, p.rows, p.inner, p.jumps, p.x, t.offsets[row:row+h], p.b, c[row*ldc:], ldc, p.n, p.accumulate)
	}
}

// A laneSet puts up to six runs of taps into the lanes of two registers, three a register.
type laneSet struct {
	runs, lanes [2 * fewRuns]int32 // byte offsets of the first lane; bits of the lanes that a run fills
	places      []int              // of each tap, its lane
}

func newLaneSet(starts []int32, run int) (s laneSet) {
	for r, at := range starts {
		first := r % fewRuns * run
		s.runs[r], s.lanes[r] = at-int32(4*first), (1<<run-1)<<first
		for i := range run {
			s.places = append(s.places, r/fewRuns*wideN/2+first+i)
		}
	}
	return s
}

// contractFew is Contract for few channels. A channel's sums fill the lanes of two registers.
func (t *Taps) contractFew(c Matrix, x []float32, delta Matrix, accumulate bool, sums *[fewM * wideN]float32) {
	for i := range t.lanes {
		s := &t.lanes[i]
		c := c.Slice(i*2*fewRuns*t.run, i*2*fewRuns*t.run+len(s.places), 0, c.Cols)
		if accumulate {
			for p, lane := range s.places {
				for j, v := range c.Data[p*c.RS:][:c.Cols] {
					sums[j*wideN+lane] = v
				}
			}
		}
		t.blocks(func(r0, r1 int, accumulates bool) {
			contractFew(c.Cols, r1-r0, t.cols, t.jumps[r0:r1], x[r0*t.pitch:], s, delta.Data[r0*t.cols:], delta.RS, sums, accumulate || accumulates)
		})
		for p, lane := range s.places {
			for j := range c.Cols {
				c.Data[p*c.RS+j] = sums[j*wideN+lane]
			}
		}
	}
}
