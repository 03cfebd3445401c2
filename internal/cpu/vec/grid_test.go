package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// products have all sizes, and some are 0 or no numbers.
func gradientLike(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * math.Exp(4*r.NormFloat64()))
		switch r.IntN(40) {
		case 0:
			x[i] = 0
		case 1:
			x[i] *= 0x1p-70
		}
	}
	return x
}

// spoil gives one column numbers that are not finite: they stay in it.
func spoil(r *rand.Rand, x []float32) {
	for i := 5; i < len(x); i += Columns {
		x[i] = [3]float32{float32(math.NaN()), float32(math.Inf(1)), 1}[r.IntN(3)]
	}
}

func sameBits(x, y float64) bool {
	return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
}

// Sums are those of the definition, bit by bit, one element after the other.
func TestSquareColumns(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(61)
		for rows := range 30 {
			d, x, sum := gradientLike(r, Columns), gradientLike(r, rows*Columns), make([]float64, ColumnSums)
			spoil(r, x)
			for i := range sum {
				sum[i] = r.Float64()
			}
			want := slices.Clone(sum)
			for k := range rows {
				for c := range Columns {
					p := float64(float32(d[c] * x[k*Columns+c]))
					want[k%4*Columns+c] += float64(p * p)
				}
			}
			SquareColumns(sum, d, x)
			if !slices.EqualFunc(sum, want, sameBits) {
				t.Fatalf("%d rows: %v, want %v", rows, sum, want)
			}
		}
	})
}

// scales have all digits, as those of clipped examples, or one.
func scales(r *rand.Rand, n int) []float64 {
	s := make([]float64, n)
	for i := range s {
		if s[i] = 0x1p12; r.IntN(2) == 0 {
			s[i] *= r.Float64()
		}
	}
	return s
}

func TestGridSquares(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(62)
		for rows := range 30 {
			d, x, scale := gradientLike(r, Columns), gradientLike(r, rows*Columns), scales(r, Columns)
			for c := range d { // k stays below 2²²
				d[c] = min(max(d[c], -8), 8)
			}
			for i := range x {
				x[i] = min(max(x[i], -8), 8)
			}
			want, sum := make([]uint64, Columns), make([]float64, Columns)
			for k := range rows {
				for c := range Columns {
					v := int64(float64(float32(d[c]*x[k*Columns+c])) * scale[c])
					want[c] += uint64(v * v)
				}
			}
			spoil(r, x)
			GridSquares(sum, scale, d, x)
			for c, s := range sum {
				if c != 5 && uint64(s) != want[c] {
					t.Fatalf("%d rows, column %d: %v, want %v", rows, c, s, want[c])
				}
			}
		}
		// What is too large to be exact stays too large.
		sum, d, scale, x := make([]float64, Columns), slices.Repeat([]float32{1}, Columns), slices.Repeat([]float64{1}, Columns), slices.Repeat([]float32{0}, 100*Columns)
		x[0], x[1], x[2] = 0x1p30, 0x1p120, float32(math.NaN())
		GridSquares(sum, scale, d, x)
		if sum[0] != 0x1p60 || sum[1] != 0x1p240 || sum[2] == sum[2] || sum[3] != 0 {
			t.Errorf("sums of large squares are %v", sum[:4])
		}
	})
}

func TestGridSum(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(63)
		for rows := range 30 {
			stride := Columns + r.IntN(20)
			d, x, scale := gradientLike(r, rows), gradientLike(r, max((rows-1)*stride+Columns, 0)), scales(r, rows)
			want, sum := make([]int64, Columns), scales(r, Columns)
			for k, s := range scale {
				for c := range Columns {
					want[c] += int64(float64(float32(d[k]*x[k*stride+c])) * s)
				}
			}
			GridSum(sum, d, x, stride, scale)
			for c, s := range sum {
				if int64(s) != want[c] || s != math.Trunc(s) {
					t.Fatalf("%d rows, column %d: %v, want %v", rows, c, s, want[c])
				}
			}
		}
	})
}
