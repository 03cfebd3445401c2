package cpu

import (
	"math"

	"github.com/privgrad/privgrad/internal/cpu/gemm"
	"github.com/privgrad/privgrad/internal/cpu/squares"
	"github.com/privgrad/privgrad/internal/cpu/vec"
	"github.com/privgrad/privgrad/internal/ir"
)

// convolution is how one op's convolution of one example is computed: as correlations at stride one that read an image
// where it lies. One with padding or strides is first spread: every phase of the stride becomes a plane, padded.
type convolution struct {
	op      *ir.Op
	taps    *gemm.Taps     // of the spread image, in the order of the weights
	squares *gemm.Winograd // of the spread image; nil: outputs are correlated tap by tap
	byTaps  bool           // so is the weights' gradient, whose rounding must be known
	picks   *gemm.Picker   // computes it instead from what the max pooling behind picked; nil: all outputs enter
	x       spread         // input to image
	relu    bool           // the next op, computed on the way out
	w       filters        // (out) × (taps)

	// The gradient at the input is correlated from that at the output, one phase of the stride at a time, or, where
	// that would read mostly padding, added up from those of the image's columns.
	dy      spread
	back    []backward
	columns vec.Runs // columns, (taps) × (positions), to image; used where there is no backward
	wT      gemm.PackedA
}

// filters are weights, packed for the one or the other kind of correlation.
type filters struct {
	taps    gemm.PackedA
	squares gemm.WinogradWeights
}

// spread says how an image is laid out for its taps. The zero value leaves it as it is.
type spread struct {
	runs  vec.Runs // rows of one phase; the gaps between them stay zero
	size  int      // floats of the laid-out image; 0: as it is
	reach int      // floats that the taps read
}

// backward computes the elements of the input's gradient that lie in one phase of the stride.
type backward struct {
	taps    *gemm.Taps
	squares *gemm.Winograd
	start   int     // of the first output in the image of the gradient
	weights []int32 // by (input channel, tap), where it stands among the op's weights
	k       int     // taps
	w       filters
	scratch []float32
	runs    vec.Runs // phase to image; none where the phase is all of it
}

// newConvolution plans an op; input says whether its input's gradient is wanted.
func newConvolution(op *ir.Op, input bool) *convolution {
	c := &convolution{op: op}
	win := op.Window
	channels, h, w, oh, ow := op.Shape[0], op.Shape[1], op.Shape[2], op.Out[1], op.Out[2]
	y, x := newAxis(win.StrideH, win.DilationH, win.PadTop, win.H, h, oh), newAxis(win.StrideW, win.DilationW, win.PadLeft, win.W, w, ow)
	pitch, plane := w, h*w
	if !y.plain() || !x.plain() {
		pitch, plane = x.length, y.length*x.length
		c.x = spread{size: channels * y.stride * x.stride * plane, runs: vec.Gather(win.StrideW)}
		for ch := range channels {
			for py := range y.stride {
				for px := range x.stride {
					at := ((ch*y.stride+py)*x.stride + px) * plane
					lo, hi := x.inside(px)
					for i := range y.length {
						if row := i*win.StrideH + py - win.PadTop; row >= 0 && row < h && lo < hi {
							c.x.runs.Add(at+i*pitch+lo, (ch*h+row)*w+lo*win.StrideW+px-win.PadLeft, hi-lo)
						}
					}
				}
			}
		}
	}
	var offsets []int
	for ch := range channels {
		for ky := range win.H {
			for kx := range win.W {
				py, iy := y.tap(ky)
				px, ix := x.tap(kx)
				offsets = append(offsets, ((ch*y.stride+py)*x.stride+px)*plane+iy*pitch+ix)
			}
		}
	}
	c.taps = gemm.NewTaps(offsets, oh, ow, pitch)
	c.x.reach = c.taps.Reach()
	if input {
		c.planBackward(y, x)
		if c.inflated() {
			c.back, c.dy = nil, spread{}
			c.planColumns()
		}
	}
	if BySquares(op, input) {
		c.planSquares()
	}
	return c
}

// BySquares says whether an op's outputs, the gradient at its input and that of its weights are computed by squares of
// outputs; input, whether its input's gradient is wanted. It does not depend on the processor, so bits do not, either.
func BySquares(op *ir.Op, input bool) bool {
	return input && op.Same(3) && gemm.WorthSquares(op.Shape[0], op.Out[0], op.Out[1], op.Out[2])
}

// planSquares has it computed so; the weights' gradient only where the schedule wants no bound of its rounding (byTaps).
func (c *convolution) planSquares() {
	channels, h, w, out := c.op.Shape[0], c.op.Shape[1], c.op.Shape[2], c.op.Out[0]
	pitch := w + 2 // of both images, which have a margin of one
	plane := (h + 2) * pitch
	back := gemm.NewWinograd(out, channels, h, w, pitch, plane)
	c.squares, c.back[0].squares = gemm.NewWinograd(channels, out, h, w, pitch, plane), back
	c.x.reach, c.dy.reach = max(c.x.reach, c.squares.Reach()), max(c.dy.reach, back.Reach())
}

// planPicks has the weights' gradient computed from the next op's picks, if that op is a max pooling and it is worth it. The
// gradient then lies as the weights do. A window of padding alone picks nothing.
func (c *convolution) planPicks(next *ir.Op) {
	if next.Kind != ir.MaxPool || padded(next) || c.byTaps || c.squares != nil {
		return
	}
	c.picks = gemm.NewPicker(c.taps, c.op.Out[0], next.Out[1]*next.Out[2])
	if c.picks != nil {
		c.x.reach = max(c.x.reach, c.picks.Reach())
	}
}

// inflated says whether correlating the gradient back takes far more multiplications than the convolution.
func (c *convolution) inflated() bool {
	out, k, positions := c.op.Columns()
	work := 0
	for i := range c.back {
		work += c.op.Shape[0] * c.back[i].k * c.back[i].taps.Lanes()
	}
	return 2*work > 5*out*k*positions
}

// planColumns notes where every column's elements stand in the image, those on the padding nowhere.
func (c *convolution) planColumns() {
	op, win := c.op, c.op.Window
	_, k, positions := op.Columns()
	h, w, oh, ow := op.Shape[1], op.Shape[2], op.Out[1], op.Out[2]
	c.columns = vec.Scatter(win.StrideW)
	for tap := range k {
		channel, ky, kx := tap/(win.H*win.W), tap/win.W%win.H, tap%win.W
		left := kx*win.DilationW - win.PadLeft
		lo, hi := inside(left, win.StrideW, w, ow)
		for oy := range oh {
			if y := oy*win.StrideH + ky*win.DilationH - win.PadTop; y >= 0 && y < h && lo < hi {
				c.columns.Add((channel*h+y)*w+lo*win.StrideW+left, tap*positions+oy*ow+lo, hi-lo)
			}
		}
	}
	c.columns.Lines(w)
}

// inside gives the outputs o in [0, n) whose input at + o·stride lies in [0, size).
func inside(at, stride, size, n int) (lo, hi int) {
	for lo < n && at+lo*stride < 0 {
		lo++
	}
	for hi = lo; hi < n && at+hi*stride < size; hi++ {
	}
	return lo, hi
}

// planBackward: input row i = stride·u + phase − padding gets W[k]·dy[u − v] for every tap k with k·dilation = stride·v + phase.
func (c *convolution) planBackward(y, x axis) {
	op, win := c.op, c.op.Window
	out, channels, h, w, oh, ow := op.Out[0], op.Shape[0], op.Shape[1], op.Shape[2], op.Out[1], op.Out[2]
	top, bottom := y.margins()
	left, right := x.margins()
	pitch := left + ow + right
	plane := (top + oh + bottom) * pitch
	if plane != oh*ow {
		c.dy.size = out * plane
		for ch := range out {
			for i := range oh {
				c.dy.runs.Add(ch*plane+(top+i)*pitch+left, (ch*oh+i)*ow, ow)
			}
		}
	}
	for py := range y.stride {
		for px := range x.stride {
			u0, rows := y.outputs(py)
			v0, cols := x.outputs(px)
			ky, kx := y.taps(py), x.taps(px)
			if rows == 0 || cols == 0 || len(ky) == 0 || len(kx) == 0 {
				continue // nothing there depends on the input, or there is nothing
			}
			b := backward{k: out * len(ky) * len(kx)}
			// The deepest tap reads first.
			deepY, deepX := ky[len(ky)-1]*win.DilationH/win.StrideH, kx[len(kx)-1]*win.DilationW/win.StrideW
			b.start = (u0-deepY+top)*pitch + v0 - deepX + left
			var offsets []int
			for ch := range channels {
				for o := range out {
					for _, i := range ky {
						for _, j := range kx {
							if ch == 0 {
								offsets = append(offsets, o*plane+(deepY-i*win.DilationH/win.StrideH)*pitch+deepX-j*win.DilationW/win.StrideW)
							}
							b.weights = append(b.weights, int32(((o*channels+ch)*win.H+i)*win.W+j))
						}
					}
				}
			}
			b.taps = gemm.NewTaps(offsets, rows, cols, pitch)
			c.dy.reach = max(c.dy.reach, b.start+b.taps.Reach())
			b.scratch = make([]float32, len(b.weights))
			if b.runs = vec.Scatter(win.StrideW); y.stride*x.stride > 1 {
				for ch := range channels {
					for i := range rows {
						b.runs.Add((ch*h+(u0+i)*win.StrideH+py-win.PadTop)*w+v0*win.StrideW+px-win.PadLeft, (ch*rows+i)*cols, cols)
					}
				}
			}
			c.back = append(c.back, b)
		}
	}
}

// axis is a convolution along one dimension.
type axis struct {
	stride, dilation, padding, kernel int
	in, out                           int
	length                            int // of a phase of the padded input, as far as it is read
}

func newAxis(stride, dilation, padding, kernel, in, out int) axis {
	return axis{stride, dilation, padding, kernel, in, out, out + (kernel-1)*dilation/stride}
}

// plain: the input is read as it is.
func (a axis) plain() bool {
	return a.stride == 1 && a.padding == 0 && a.out+(a.kernel-1)*a.dilation <= a.in
}

// tap gives the phase that tap k reads and where in it.
func (a axis) tap(k int) (phase, at int) { return k * a.dilation % a.stride, k * a.dilation / a.stride }

// inside gives the elements of a phase that are not padding.
func (a axis) inside(phase int) (lo, hi int) {
	return inside(phase-a.padding, a.stride, a.in, a.length)
}

// taps lists those that read a phase, in order.
func (a axis) taps(phase int) []int {
	var list []int
	for k := range a.kernel {
		if p, _ := a.tap(k); p == phase {
			list = append(list, k)
		}
	}
	return list
}

// outputs gives the elements stride·u + phase − padding of the input: the first u and how many.
func (a axis) outputs(phase int) (first, count int) {
	for first*a.stride+phase < a.padding {
		first++
	}
	for (first+count)*a.stride+phase-a.padding < a.in {
		count++
	}
	return first, count
}

// margins is how far beyond its ends the output's gradient is read.
func (a axis) margins() (before, after int) {
	for phase := range a.stride {
		first, count := a.outputs(phase)
		taps := a.taps(phase)
		if count == 0 || len(taps) == 0 {
			continue
		}
		_, deepest := a.tap(taps[len(taps)-1])
		_, nearest := a.tap(taps[0])
		before = max(before, deepest-first)
		after = max(after, first+count-1-nearest-(a.out-1))
	}
	return before, after
}

// lay gives the image that the taps read: the example's own values and what follows them, read and never used, or one
// spread into scratch memory whose gaps are zero.
func (s *spread) lay(own, scratch []float32) []float32 {
	laid, _ := s.layAll(1, own, 0, scratch)
	return laid
}

// layAll does so for images that lie so far apart, and says how far they do then.
func (s *spread) layAll(images int, own []float32, apart int, scratch []float32) ([]float32, int) {
	if s.size == 0 {
		return own[:(images-1)*apart+s.reach], apart
	}
	size := s.scratch()
	for e := range images {
		vec.CopyRuns(scratch[e*size:], own[e*apart:], &s.runs)
	}
	return scratch, size
}

// slack is how many floats a buffer of values needs beyond its end, so that registers can be loaded whole.
const slack = 8

// scratch is the memory that a spread image needs; 0 for none.
func (s *spread) scratch() int {
	if s.size == 0 {
		return 0
	}
	return max(s.size, s.reach)
}

// together is how many examples' outputs, or gradients at the input, are computed together.
func (c *convolution) together() int {
	if c.squares == nil {
		return 1
	}
	return c.squares.Together() // and c.back[0].squares.Together(), of images of the same size
}

// several is a phase of an op's convolutions, of several examples together where that is faster.
func (c *convolution) several(f func(r0, r1 int, w *worker)) phase {
	most := c.together()
	if most == 1 {
		return phase{each: []func(int, *worker){func(b int, w *worker) { f(b, b+1, w) }}}
	}
	return phase{rows: func(r0, r1 int, w *worker) {
		for b := r0; b < r1; b += most {
			f(b, min(b+most, r1), w)
		}
	}}
}

func (n *net) convForward(i int) phase {
	c := n.convs[i]
	in, out := c.op.In[0], ir.Value(i+1)
	return c.several(func(r0, r1 int, w *worker) {
		n.convolve(i, r1-r0, n.valuesFrom(out, r0), n.valuesFrom(in, r0), &c.w, n.param(n.params, c.op.Bias), c.relu, w)
	})
}

// convolve writes outputs y of op i of so many examples, or several of one, one after the other, where the weights are stacked.
func (n *net) convolve(i, examples int, y, x []float32, weights *filters, bias []float32, relu bool, w *worker) {
	c := n.convs[i]
	if c.squares == nil {
		gemm.Correlate(y, c.taps.Outputs(), &weights.taps, c.x.lay(x, w.images[i]), c.taps, false, bias, relu)
		return
	}
	image, apart := c.x.layAll(examples, x, n.width[c.op.In[0]], w.images[i])
	c.squares.Correlate(y, c.taps.Outputs(), &weights.squares, image, gemm.Images{N: examples, X: apart, C: n.width[i+1]}, false, bias, relu, &w.squares)
}

func (n *net) convInputGrad(i int) phase {
	c := n.convs[i]
	if len(c.back) == 0 {
		return phase{each: []func(int, *worker){n.convColumnsGrad(i)}}
	}
	in, out := c.op.In[0], ir.Value(i+1)
	plane := c.op.Shape[1] * c.op.Shape[2]
	if p := &c.back[0]; p.squares != nil {
		return c.several(func(r0, r1 int, w *worker) {
			dy, apart := c.dy.layAll(r1-r0, n.deltasFrom(out, r0), n.width[out], w.gradients[i])
			p.squares.Correlate(n.deltasFrom(in, r0), plane, &p.w.squares, dy[p.start:], gemm.Images{N: r1 - r0, X: apart, C: n.width[in]}, n.shared[in], nil, false, &w.squares)
		})
	}
	whole := len(c.back) == 1 && c.op.Window.StrideH*c.op.Window.StrideW == 1
	return phase{each: []func(int, *worker){func(b int, w *worker) {
		dx := n.delta(in, b)
		dy := c.dy.lay(n.deltasFrom(out, b), w.gradients[i])
		if !whole && !n.shared[in] {
			clear(dx)
		}
		for j := range c.back {
			p := &c.back[j]
			if whole {
				gemm.Correlate(dx, plane, &p.w.taps, dy[p.start:], p.taps, n.shared[in], nil, false)
				continue
			}
			phase := w.scratch(c.op.Shape[0] * p.taps.Outputs())
			gemm.Correlate(phase, p.taps.Outputs(), &p.w.taps, dy[p.start:], p.taps, false, nil, false)
			vec.AddRuns(dx, phase, &p.runs)
		}
	}}}
}

func (n *net) convColumnsGrad(i int) func(int, *worker) {
	c := n.convs[i]
	out, k, positions := c.op.Columns()
	return func(b int, w *worker) {
		columns := w.scratch(k * positions)
		gemm.PackB(&w.b, gemm.RowMajor(n.delta(ir.Value(i+1), b), out, positions))
		gemm.MulPacked(gemm.RowMajor(columns, k, positions), &c.wT, &w.b, false)
		vec.AddRuns(n.fresh(c.op.In[0], b), columns, &c.columns)
	}
}

// convGrad writes, or adds, one example's gradient: the weights' as (taps) × (out), or of picks as (out) × (taps), then the
// bias's.
func (n *net) convGrad(i, b int, g []float32, accumulate bool, w *worker) {
	c := n.convs[i]
	if c.picks != nil {
		n.pickedGrad(i, b, g, accumulate, w)
		return
	}
	out, k, positions := c.op.Columns()
	dy := n.delta(ir.Value(i+1), b)
	x := c.x.lay(n.valuesFrom(c.op.In[0], b), w.images[i])
	weights, delta := gemm.RowMajor(g[:k*out], k, out), gemm.RowMajor(dy, out, positions)
	if c.squares != nil && !c.byTaps {
		c.squares.Contract(weights, x, delta, accumulate, &w.squares)
	} else {
		gemm.Contract(weights, x, c.taps, delta, accumulate, &w.b)
	}
	biasGrad(g[k*out:][:n.biases(i)], dy, positions, accumulate)
}

// pickedGrad is convGrad from the picks of the op behind.
func (n *net) pickedGrad(i, b int, g []float32, accumulate bool, w *worker) {
	c, pool := n.convs[i], i+1
	out, k, _ := c.op.Columns()
	dy := n.delta(ir.Value(pool+1), b)
	x := c.x.lay(n.valuesFrom(c.op.In[0], b), w.images[i])
	sum := g
	if accumulate {
		g = w.scratch(len(g))
	}
	c.picks.Contract(g[:k*out], x, dy, n.picked(pool, b))
	biasGrad(g[k*out:][:n.biases(i)], dy, len(dy)/out, false)
	// As if all outputs entered: 0·∞ is not a number.
	if !(vec.SumSquares(n.value(c.op.In[0], b)) <= math.MaxFloat64) {
		g[0] = float32(math.NaN())
	}
	if accumulate {
		vec.AddVec(sum, g)
	}
}

// biases is how many op i has.
func (n *net) biases(i int) int {
	if q := n.program.Ops[i].Bias; q != ir.None {
		return n.program.Params[q].Size()
	}
	return 0
}

func biasGrad(bias, dy []float32, positions int, accumulate bool) {
	for o := range bias {
		s := float32(vec.Sum(dy[o*positions : (o+1)*positions]))
		if accumulate {
			s += bias[o]
		}
		bias[o] = s
	}
}

// pack prepares weights for the outputs, on a worker where those are computed by squares.
func (c *convolution) pack(f *filters, weights []float32, w *worker) {
	_, k, _ := c.op.Columns()
	if c.squares == nil {
		gemm.PackA(&f.taps, gemm.RowMajor(weights, len(weights)/k, k))
		return
	}
	out, channels := c.op.Out[0], c.op.Shape[0]
	f.squares.Pack(weights, out, channels, w.scratch(squares.Parts*out*channels))
}

// packed is how many floats weights and bias take that are prepared so.
func (c *convolution) packed() int {
	out, k, _ := c.op.Columns()
	if c.squares != nil {
		k = squares.Parts * c.op.Shape[0]
	}
	return out * (k + 1)
}

// packBack prepares what takes gradients back tap by tap.
func (c *convolution) packBack(weights []float32) {
	if len(c.back) == 0 {
		out, k, _ := c.op.Columns()
		gemm.PackA(&c.wT, gemm.RowMajor(weights, out, k).T())
	}
	for j := range c.back {
		p := &c.back[j]
		for i, at := range p.weights {
			p.scratch[i] = weights[at]
		}
		gemm.PackA(&p.w.taps, gemm.RowMajor(p.scratch, c.op.Shape[0], p.k))
	}
}

// transformed is how many floats the weights take that convolutions by squares read, forwards and back.
func (n *net) transformed() (size int) {
	for _, c := range n.convs {
		if c != nil && c.squares != nil {
			size += 2 * squares.Parts * c.op.Out[0] * c.op.Shape[0]
		}
	}
	return size
}

// kernelTile is how many kernels a worker transforms at a time.
const kernelTile = 1024

// packConvs lists the tiles that pack convolutions' weights: those that transform kernels go first.
func (n *net) packConvs() {
	first, second := &n.packing[1], &n.packing[2]
	list := func(tiles *[]func(), tile func()) { *tiles = append(*tiles, tile) }
	for i, c := range n.convs {
		if c == nil {
			continue
		}
		weights := func() []float32 { return n.weight(i) }
		if c.squares == nil {
			list(second, func() { c.pack(&c.w, weights(), nil) })
			if n.deltas[c.op.In[0]] != nil {
				list(second, func() { c.packBack(weights()) })
			}
			continue
		}
		out, channels := c.op.Out[0], c.op.Shape[0]
		kernels := out * channels
		transformed := make([]float32, squares.Parts*kernels)
		for k := 0; k < kernels; k += kernelTile {
			list(first, func() { squares.TransformWeights(transformed, weights(), k, min(k+kernelTile, kernels)) })
		}
		for part := range squares.Parts {
			list(second, func() { c.w.squares.PackPart(part, transformed, out, channels, false) })
			list(second, func() { c.back[0].w.squares.PackPart(part, transformed, out, channels, true) })
		}
	}
}
