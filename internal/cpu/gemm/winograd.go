package gemm

// Winograd computes convolutions of 3×3 at stride one with 16 multiplications a channel for a square of 2×2 outputs, where
// a direct convolution takes 36: F(2×2, 3×3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR
// 2016), section 4.1. What a square reads is transformed to sixteen values. For each of these a matrix product sums over
// the channels. The sixteen products are transformed back.
//
// Bits. The transforms are additions and halves in one order, and the products have Mul's bits, so an output follows from
// its image and the weights alone, with the same bits by AVX2 and AVX-512. Beside Mul's roundings of sums over the channels,
// and Contract's of sums over the squares, there are some ten of the transforms. They are of Σ|weights|·(largest magnitude
// that the square reads).
//
// A NaN or an infinity spoils the squares that read it, and in a gradient the weights of its channel.
type Winograd struct {
	channels, out int
	rows, cols    int // of squares
	pitch, plane  int // floats of an image's rows and channels
	slots         int // columns of a product for a row of squares
}

const (
	Kernel      = 9  // weights of a kernel
	SquareParts = 16 // values of a square
	// A product of so many squares reads weights seldom, and its operands stay in a second-level cache.
	squaresTogether = 64
	mostLanes       = 16
)

// NewWinograd plans convolutions of channels to out channels of rows by cols outputs, both even. Images have rows of
// pitch floats and channels of plane; output (i, j) reads rows i to i+2 and columns j to j+2.
func NewWinograd(channels, out, rows, cols, pitch, plane int) *Winograd {
	within(1, channels, channels)
	within(1, out, out)
	agree(rows%2, 0)
	agree(cols%2, 0)
	within(2, rows, rows)
	within(2, cols, pitch-2)
	within((rows+2)*pitch, plane, plane)
	t := &Winograd{channels: channels, out: out, rows: rows / 2, cols: cols / 2, pitch: pitch, plane: plane, slots: 4}
	for t.slots < t.cols {
		t.slots += min(t.slots, mostLanes)
	}
	return t
}

// Reach is how many floats an image needs to have: more than outputs read, as registers are loaded whole.
func (t *Winograd) Reach() int {
	return (t.channels-1)*t.plane + (2*t.rows+1)*t.pitch + 2*t.slots + 2
}

// WorthSquares says whether a convolution of channels to out channels, with rows by cols outputs, takes less time by squares.
// Transforms cost as much as products of some channels, and narrow rows leave registers empty. At 16 to 16 channels and 28
// columns the gain is a twentieth with AVX-512, and more with AVX2; at half as many columns there is none.
func WorthSquares(channels, out, rows, cols int) bool {
	return rows%2+cols%2 == 0 && min(channels, out) >= 16 && cols > 4 && channels*out*cols >= 16*16*28
}

// WinogradWeights are the weights of a convolution, transformed and packed. The zero value is ready to be packed.
type WinogradWeights [SquareParts]PackedA

// WinogradWork is one goroutine's memory. The zero value is ready.
type WinogradWork struct {
	v, m, d  []float32
	b, delta PackedB
	columns  int // of the products, gaps included
}

// TransformWeights writes the sixteen values of kernels first to end, the end excluded: w has 9 weights of each kernel, one
// kernel after the other, and u sixteen matrices with a value of each.
func TransformWeights(u []float32, w []float32, first, end int) {
	size := len(w) / Kernel
	within(first, end, size)
	_ = u[SquareParts*size-1]
	for k := first; k < end; k++ {
		g := (*[Kernel]float32)(w[Kernel*k:])
		var h [3][4]float32
		for i := range h {
			h[i][0], h[i][1], h[i][2], h[i][3] = spreadThree(g[3*i], g[3*i+1], g[3*i+2])
		}
		for j := range 4 {
			a, b, c, d := spreadThree(h[0][j], h[1][j], h[2][j])
			u[j*size+k], u[(4+j)*size+k], u[(8+j)*size+k], u[(12+j)*size+k] = a, b, c, d
		}
	}
}

// spreadThree evaluates a polynomial of three coefficients at 0, 1, −1 and infinity, the middle two halved.
func spreadThree(x, y, z float32) (a, b, c, d float32) {
	ends := x + z
	return x, float32(0.5 * (ends + y)), float32(0.5 * (ends - y)), z
}

// Pack transforms and packs weights of out times channels kernels; transformed is memory for sixteen values of each.
func (w *WinogradWeights) Pack(weights []float32, out, channels int, transformed []float32) {
	TransformWeights(transformed, weights, 0, out*channels)
	for part := range w {
		w.PackPart(part, transformed, out, channels, false)
	}
}

// PackPart packs part number part of transformed weights of out times channels kernels, for Correlate; turned, for the
// convolution that takes gradients back: kernels turned by half a circle, of channels times out.
func (w *WinogradWeights) PackPart(part int, u []float32, out, channels int, turned bool) {
	matrix := func(part int) Matrix { return RowMajor(u[part*out*channels:][:out*channels], out, channels) }
	if !turned {
		PackA(&w[part], matrix(part))
		return
	}
	swap := [4]int{3, 1, 2, 0}
	PackA(&w[part], matrix(4*swap[part/4]+swap[part%4]).T())
}

// Correlate computes c = A·X, or c += A·X when accumulate is set, of an image x, as the function of that name does: output o
// of channel i, at c[i·ldc+o]. Then bias[i] is added, unless bias is nil, and with relu what is below zero becomes zero.
func (t *Winograd) Correlate(c []float32, ldc int, weights *WinogradWeights, x []float32, accumulate bool, bias []float32, relu bool, w *WinogradWork) {
	agree(weights[0].m, t.out)
	agree(weights[0].k, t.channels)
	within(t.Reach(), len(x), len(x))
	within(4*t.rows*t.cols, ldc, ldc)
	_ = c[(t.out-1)*ldc+4*t.rows*t.cols-1]
	if bias != nil {
		_ = bias[t.out-1]
	}
	blocks := t.blocks()
	for i := range blocks {
		r0, r1 := t.rows*i/blocks, t.rows*(i+1)/blocks
		w.columns = (r1 - r0) * t.slots
		t.read(w, r0, r1, x)
		t.multiply(w, weights)
		t.write(c, ldc, w, r0, r1, accumulate, bias, relu)
	}
}

// blocks is in how many the rows of squares are cut.
func (t *Winograd) blocks() int { return min(max(t.rows*t.slots/squaresTogether, 1), t.rows) }

// Contract computes the gradient of the weights, C = X·δᵀ, or C += X·δᵀ when accumulate is set, as the function of that
// name does: c has a row for each of 9 taps of every channel, delta one for every channel of outputs; both CS = 1.
//
// The transforms of F(3×3, 2×2) are those of F(2×2, 3×3) transposed: squares of outputs take the place of kernels.
func (t *Winograd) Contract(c Matrix, x []float32, delta Matrix, accumulate bool, w *WinogradWork) {
	delta.check()
	agree(delta.CS, 1)
	agree(delta.Rows, t.out)
	c.checkResult(Kernel*t.channels, 4*t.rows*t.cols, delta.Cols, t.out)
	within(t.Reach(), len(x), len(x))
	h, size := squareRows(), SquareParts*squareRows()*TileN
	within(h, t.channels, t.channels)
	PackB(&w.delta, delta.T())
	tiles, blocks, panels := (t.channels+h-1)/h, t.blocks(), w.delta.Panels()
	if blocks == 1 {
		w.m = grow(w.m, size)
	} else {
		w.m = grow(w.m, size*tiles*panels)
	}
	for i := range blocks {
		r0, r1 := t.rows*i/blocks, t.rows*(i+1)/blocks
		columns, squares := (r1-r0)*t.slots, (r1-r0)*t.cols
		strideV, strideD := t.channels*columns+gap, squares*TileN+gap
		w.v, w.d = grow(w.v, SquareParts*strideV), grow(w.d, SquareParts*strideD)
		t.readRows(w.v, r0, r1, x, columns, strideV)
		for j := range panels {
			n, pitch := min(TileN, t.out-j*TileN), 2*t.cols*TileN
			spreadSquares(r1-r0, t.cols, w.delta.panel(j)[2*r0*pitch:], pitch, w.d, strideD)
			for tile := range tiles {
				first, skip := min(tile*h, t.channels-h), 0 // the last tile reaches back to channels that are done
				skip = tile*h - first
				sum, to := w.m[:size], []float32(nil)
				if blocks > 1 {
					sum = w.m[(j*tiles+tile)*size:][:size]
				}
				if i == blocks-1 {
					to = c.Data[Kernel*tile*h*c.RS+j*TileN:]
				}
				contractSquares(r1-r0, t.cols, w.v[first*columns:], columns, t.slots, strideV, w.d, strideD, sum, i > 0, to, c.RS, n, skip, accumulate)
			}
		}
	}
}

// readRows transforms rows of squares to matrices with a row for each channel.
func (t *Winograd) readRows(v []float32, r0, r1 int, x []float32, step, stride int) {
	lanes, rows := lanesFor(t.slots), 1
	if t.slots == lanes {
		rows = r1 - r0
	}
	for r := r0; r < r1; r += rows {
		for j := 0; j < t.slots; j += lanes {
			readSquares(lanes, t.channels, rows, x[2*r*t.pitch+2*j:], t.plane, t.pitch, v[(r-r0)*t.slots+j:], step, stride)
		}
	}
}

// gap keeps matrices from lying a power of two apart: they would share few places of a cache.
const gap = 16

// stride is how far matrices of so many channels are apart.
func (w *WinogradWork) stride(channels int) int {
	return channels*((w.columns+TileN-1)/TileN*TileN) + gap
}

// read transforms rows of squares to panels of the products' right operands.
func (t *Winograd) read(w *WinogradWork, r0, r1 int, x []float32) {
	stride, panel, lanes := w.stride(t.channels), t.channels*TileN, lanesFor(t.slots)
	w.v = grow(w.v, SquareParts*stride)
	for r, at := r0, 0; r < r1; {
		rows := 1
		if t.slots == lanes {
			rows = min(TileN/lanes, r1-r) // as many as a panel holds
		}
		for j := 0; j < t.slots; j += lanes {
			readSquares(lanes, t.channels, rows, x[2*r*t.pitch+2*j:], t.plane, t.pitch, w.v[(at+j)/TileN*panel+(at+j)%TileN:], TileN, stride)
		}
		r += rows
		at += rows * t.slots
	}
}

// multiply computes the products of what was read.
func (t *Winograd) multiply(w *WinogradWork, weights *WinogradWeights) {
	v, m := w.stride(t.channels), w.stride(t.out)
	w.m = grow(w.m, SquareParts*m)
	w.b.k, w.b.n = t.channels, w.columns
	for part := range weights {
		w.b.data = w.v[part*v : (part+1)*v]
		MulPacked(Matrix{Data: w.m[part*m : (part+1)*m], Rows: t.out, Cols: w.columns, RS: (m - gap) / t.out, CS: 1}, &weights[part], &w.b, false)
	}
}

// write transforms the products to rows of squares of outputs.
func (t *Winograd) write(c []float32, ldc int, w *WinogradWork, r0, r1 int, accumulate bool, bias []float32, relu bool) {
	stride, lanes, rows := w.stride(t.out), lanesFor(t.slots), 1
	if t.slots == lanes {
		rows = r1 - r0
	}
	for r := r0; r < r1; r += rows {
		for j := 0; j < t.cols; j += lanes {
			writeSquares(lanes, t.out, rows, min(lanes, t.cols-j), w.m[(r-r0)*t.slots+j:], (stride-gap)/t.out, stride, c[4*r*t.cols+2*j:], ldc, 2*t.cols, accumulate, bias, relu)
		}
	}
}
