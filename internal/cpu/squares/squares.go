// Package squares transforms 3×3 convolutions by squares of 2×2 outputs: F(2×2, 3×3), and F(3×3, 2×2) for the weights'
// gradients, of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016), section 4.1. Package gemm
// multiplies what they leave.
//
// The order of additions is one on every processor. Beside what a slice's length proves, arguments are the caller's care.
package squares

const (
	Parts = 16 // values of a square, and of a kernel
	Taps  = 9  // weights of a kernel
)

// A Form is the registers that transforms use. All give the same bits, but for sums of products without fused
// multiply-adds.
type Form int

const (
	Portable Form = iota
	AVX2          // and FMA
	AVX512        // F, DQ, VL and BMI2
)

const (
	narrowColumns = 16
	wideColumns   = 32
	narrowRows    = 6
	wideRows      = 8
	mostLanes     = 16
)

// Columns is how many columns of outputs a panel of gradients has.
func (f Form) Columns() int {
	if f == AVX512 {
		return wideColumns
	}
	return narrowColumns
}

// Rows is how many channels Contract takes at a time.
func (f Form) Rows() int {
	if f == AVX512 {
		return wideRows
	}
	return narrowRows
}

// Slots is the room for a row of so many squares: as many as registers hold.
func Slots(squares int) int {
	n := 4
	for n < squares {
		n += min(n, mostLanes)
	}
	return n
}

// Lanes is how many squares of a row of so many slots go into a register.
func (f Form) Lanes(slots int) int {
	if f == AVX2 {
		return min(slots, mostLanes/2)
	}
	return min(slots, mostLanes)
}

// TransformWeights writes the sixteen values of kernels first to end, the end excluded: w has 9 weights of each kernel, one
// kernel after the other, and u sixteen matrices with a value of each.
func TransformWeights(u []float32, w []float32, first, end int) {
	size := len(w) / Taps
	_ = w[Taps*first : Taps*end]
	_ = u[:Parts*size]
	for k := first; k < end; k++ {
		g := (*[Taps]float32)(w[Taps*k:])
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
