package gemm

import "github.com/privgrad/privgrad/internal/cpu/squares"

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

// A product of so many squares reads weights seldom, and its operands stay in a second-level cache.
const squaresTogether = 64

// Images are several that lie one behind the other, X floats apart, and their outputs C floats apart.
type Images struct{ N, X, C int }

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
	return &Winograd{channels: channels, out: out, rows: rows / 2, cols: cols / 2, pitch: pitch, plane: plane, slots: squares.Slots(cols / 2)}
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
type WinogradWeights [squares.Parts]PackedA

// WinogradWork is one goroutine's memory. The zero value is ready.
type WinogradWork struct {
	v, m, d  []float32
	b, delta PackedB
	columns  int // of the products, gaps included
}

// Pack transforms and packs weights of out times channels kernels; transformed is memory, or nil.
func (w *WinogradWeights) Pack(weights []float32, out, channels int, transformed []float32) {
	transformed = grow(transformed, squares.Parts*out*channels)
	squares.TransformWeights(transformed, weights, 0, out*channels)
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

// Correlate computes c = A·X, or c += A·X when accumulate is set, of images x, as the function of that name does: output o
// of channel i, at c[i·ldc+o] of each image's outputs. Then bias[i] is added, unless bias is nil, and with relu what is below
// zero becomes zero. How many images there are changes no bit.
func (t *Winograd) Correlate(c []float32, ldc int, weights *WinogradWeights, x []float32, images Images, accumulate bool, bias []float32, relu bool, w *WinogradWork) {
	agree(weights[0].m, t.out)
	agree(weights[0].k, t.channels)
	within(1, images.N, t.Together())
	within((images.N-1)*images.X+t.Reach(), len(x), len(x))
	within(4*t.rows*t.cols, ldc, ldc)
	_ = c[(images.N-1)*images.C+(t.out-1)*ldc+4*t.rows*t.cols-1]
	if bias != nil {
		_ = bias[t.out-1]
	}
	blocks := t.blocks()
	for i := range blocks {
		r0, r1 := t.rows*i/blocks, t.rows*(i+1)/blocks
		columns := (r1 - r0) * t.slots
		w.columns = images.N * columns
		w.v = grow(w.v, squares.Parts*w.stride(t.channels))
		for e := range images.N {
			t.read(w, r0, r1, x[e*images.X:], e*columns, TileN, w.stride(t.channels))
		}
		t.multiply(w, weights)
		for e := range images.N {
			t.write(c[e*images.C:], ldc, w, r0, r1, e*columns, accumulate, bias, relu)
		}
	}
}

// Together is how many images Correlate takes at most: small ones share the reading of weights.
func (t *Winograd) Together() int { return max(squaresTogether/(t.rows*t.slots), 1) }

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
	c.checkResult(squares.Taps*t.channels, 4*t.rows*t.cols, delta.Cols, t.out)
	within(t.Reach(), len(x), len(x))
	f := form()
	h, size := f.Rows(), squares.Parts*f.Rows()*TileN
	within(h, t.channels, t.channels)
	PackB(&w.delta, delta.T())
	tiles, blocks, panels, row := (t.channels+h-1)/h, t.blocks(), w.delta.Panels(), 4*t.cols*TileN // row is δ of one of squares
	if blocks == 1 {
		w.m = grow(w.m, size)
	} else {
		w.m = grow(w.m, size*tiles*panels)
	}
	for i := range blocks {
		r0, r1 := t.rows*i/blocks, t.rows*(i+1)/blocks
		w.columns = (r1 - r0) * t.slots
		strideV, strideD := t.channels*w.columns+gap, (r1-r0)*t.cols*TileN+gap
		w.v, w.d = grow(w.v, squares.Parts*strideV), grow(w.d, squares.Parts*strideD)
		t.read(w, r0, r1, x, 0, w.columns, strideV)
		for j := range panels {
			f.Spread(r1-r0, t.cols, w.delta.panel(j)[r0*row:], w.d, strideD)
			for tile := range tiles {
				first := min(tile*h, t.channels-h) // the last tile reaches back to channels that are done
				sum, to := w.m[:size], []float32(nil)
				if blocks > 1 {
					sum = w.m[(j*tiles+tile)*size:][:size]
				}
				if i == blocks-1 {
					to = c.Data[squares.Taps*tile*h*c.RS+j*TileN:]
				}
				f.Contract(r1-r0, t.cols, w.v[first*w.columns:], w.columns, t.slots, strideV, w.d, strideD, sum, i > 0, to, c.RS, min(TileN, t.out-j*TileN), tile*h-first, accumulate)
			}
		}
	}
}

// gap keeps matrices from lying a power of two apart: they would share few places of a cache.
const gap = 16

// stride is how far matrices of so many channels are apart.
func (w *WinogradWork) stride(channels int) int {
	return channels*((w.columns+TileN-1)/TileN*TileN) + gap
}

// read transforms rows of squares to matrices with a row for each channel, in panels of so many columns, from column at on.
func (t *Winograd) read(w *WinogradWork, r0, r1 int, x []float32, at, panel, stride int) {
	f := form()
	lanes := f.Lanes(t.slots)
	for r := r0; r < r1; {
		rows := 1
		if t.slots == lanes {
			rows = min((panel-at%panel)/lanes, r1-r) // as many as the panel has room for
		}
		for j := 0; j < t.slots; j += lanes {
			f.Read(lanes, t.channels, rows, x[2*r*t.pitch+2*j:], t.plane, t.pitch, w.v[(at+j)/panel*panel*t.channels+(at+j)%panel:], panel, stride)
		}
		r += rows
		at += rows * t.slots
	}
}

// multiply computes the products of what was read.
func (t *Winograd) multiply(w *WinogradWork, weights *WinogradWeights) {
	v, m := w.stride(t.channels), w.stride(t.out)
	w.m = grow(w.m, squares.Parts*m)
	w.b.k, w.b.n = t.channels, w.columns
	for part := range weights {
		w.b.data = w.v[part*v : (part+1)*v]
		MulPacked(Matrix{Data: w.m[part*m : (part+1)*m], Rows: t.out, Cols: w.columns, RS: (m - gap) / t.out, CS: 1}, &weights[part], &w.b, false)
	}
}

// write transforms the products, from column at on, to rows of squares of outputs.
func (t *Winograd) write(c []float32, ldc int, w *WinogradWork, r0, r1, at int, accumulate bool, bias []float32, relu bool) {
	f := form()
	stride, lanes, rows := w.stride(t.out), f.Lanes(t.slots), 1
	if t.slots == lanes {
		rows = r1 - r0
	}
	for r := r0; r < r1; r += rows {
		for j := 0; j < t.cols; j += lanes {
			f.Write(lanes, t.out, rows, min(lanes, t.cols-j), w.m[at+(r-r0)*t.slots+j:], (stride-gap)/t.out, stride, c[4*r*t.cols+2*j:], ldc, 2*t.cols, accumulate, bias, relu)
		}
	}
}
