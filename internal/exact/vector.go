package exact

import (
	_ "embed"
	"encoding/binary"
	"math"
	"sync"
)

// The first path for normals has one table for all deviations, and no branch but on open draws. docs/proofs/exact-noise.md proves
// it; vectortable_test.go makes the table and certifies tableBound.
const (
	rowOctaves = 20
	cellDigits = 7 // 2⁷ cells an octave
	// tableBound bounds how far |Z| as computed is from |Z| of every V that begins with the digits, tableMost how
	// large it is.
	tableBound = 0x1.cap-46
	tableMost  = 4.95
	// maxFast is the largest deviation with a Fixed; at it one draw in 60,000 is open.
	maxFast = 0x1p28
)

// A Row is the polynomial of a cell: c0, c1, c2 and c3 as float64, the lower half of c3 being the upper one of c4, too.
type Row [4]uint64

// Words is the table of normals as other implementations hold it, GPUs too: first 4 words a row, then 12 a cell.
//
// The first row is that of x = 1; 2⁷ follow in every octave of x, and one for x = 2⁶³. Those below x = 2⁴³, and
// the last one, are infinite and leave draws open.
//
// Cells are 2⁵ of each octave [2⁻ᵉ⁻¹, 2⁻ᵉ) of V, in rising order, from e = 0 to 39. Of a cell there are ⌊V₀·2⁶³⌋ of the point V₀ around
// which |Z| is expanded; and as float64 |Z| there, the coefficients of t to t⁸ where t = (V₀ − V)·2⁶³, a bound on the error of |Z|, and a zero.
func Words() (words []uint64) {
	for _, row := range table() {
		words = append(words, row[:]...)
	}
	var all [octaves]*octave
	var wait sync.WaitGroup
	for e := range octaves {
		wait.Go(func() { all[e] = normal.octave(e) })
	}
	wait.Wait()
	for _, o := range all {
		for _, c := range o {
			words = append(words, uint64(c.at), math.Float64bits(c.centre))
			for _, x := range c.c {
				words = append(words, math.Float64bits(x))
			}
			words = append(words, math.Float64bits(c.error), 0)
		}
	}
	return words
}

//go:embed vector.table
var packed []byte

var table = sync.OnceValue(func() []Row {
	t := make([]Row, 63<<cellDigits+1)
	for i := range t {
		t[i][0] = math.Float64bits(math.Inf(1))
	}
	for i := range rowOctaves << cellDigits {
		for j := range t[0] {
			t[(63-rowOctaves)<<cellDigits+i][j] = binary.LittleEndian.Uint64(packed[32*i+8*j:])
		}
	}
	return t
})

// Fixed is the fixed-point arithmetic that decides the draws of a deviation s, the same wherever it is implemented:
// kernels, also those of GPUs, do with Table and these numbers what Draw does.
type Fixed struct {
	Std    float64 // s
	Magic  float64 // 1.5·2^(52-Places) + ½ + β: what is added has its places in the lower bits of the sum
	Open   uint64  // the bits of the sum that are all 0 where a draw is open
	Whole  int64   // what the upper bits of Magic count
	Places uint64  // after the point
}

// NewFixed is the arithmetic of a deviation that New accepts; false above maxFast.
func NewFixed(std float64) (*Fixed, bool) {
	if !(std >= MinStd && std <= maxFast) {
		return nil, false
	}
	_, e := math.Frexp((std*tableBound + math.Ldexp(1, -places(std)-1)) * (1 + 0x1p-40))
	return newFixed(std, -e), true
}

// places is how many digits after the point a sum has for which all draws of a deviation are left before it.
func places(std float64) int {
	_, e := math.Frexp(std*tableMost + 1)
	return 51 - e
}

// newFixed has β = 2^-beta, which must be no less than what a sum may be off by.
func newFixed(std float64, beta int) *Fixed {
	places := places(std)
	base := math.Ldexp(1.5, 52-places)
	return &Fixed{
		Std:    std,
		Magic:  base + 0.5 + math.Ldexp(1, -beta),
		Open:   1<<places - 1<<(places-beta+1),
		Whole:  int64(math.Float64bits(base) >> places),
		Places: uint64(places),
	}
}

// Draw gives the draw of a word; false if its digits leave it open.
func (f *Fixed) Draw(word uint64) (k int64, ok bool) {
	s := math.Float64frombits(math.Float64bits(f.Std) ^ word&(1<<63))
	w := math.Float64bits(math.FMA(magnitude(word), s, f.Magic))
	return int64(w>>f.Places) - f.Whole, w&f.Open != 0
}

// magnitude is |Z| of a word within tableBound, or infinite.
func magnitude(word uint64) float64 {
	x := math.Float64bits(float64(int64(word&math.MaxInt64 | 1)))
	row := &table()[x>>(52-cellDigits)-1023<<cellDigits]
	t := math.Float64frombits(x&(1<<(52-cellDigits)-1)|1023<<52) - (1 + 0x1p-8)
	z := math.Float64frombits(row[3] << 32)
	for i := 3; i >= 0; i-- {
		z = math.FMA(z, t, math.Float64frombits(row[i]))
	}
	return z
}
