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

func TestGridSum(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(62)
		for rows := range 30 {
			stride := Columns + r.IntN(20)
			d, x, scale := gradientLike(r, rows), gradientLike(r, max((rows-1)*stride+Columns, 0)), scales(r, rows)
			for k := range d { // integers stay below 2²²
				d[k] = min(max(d[k], -8), 8)
			}
			for i := range x {
				x[i] = min(max(x[i], -8), 8)
			}
			want, squares := make([]int64, Columns), make([]int64, rows)
			sum, parts := make([]float64, Columns), make([]float64, rows*SquareSums)
			for c := range sum {
				want[c] = r.Int64N(1<<40) - 1<<39
				sum[c] = float64(want[c])
			}
			for k, s := range scale {
				parts[k*SquareSums] = float64(k)
				squares[k] = int64(k)
				for c := range Columns {
					v := int64(float64(float32(d[k]*x[k*stride+c])) * s)
					want[c] += v
					squares[k] += v * v
				}
			}
			GridSum(sum, parts, d, x, stride, scale)
			for c, s := range sum {
				if int64(s) != want[c] || s != math.Trunc(s) {
					t.Fatalf("%d rows, column %d: %v, want %v", rows, c, s, want[c])
				}
			}
			for k, want := range squares {
				if got := total(parts[k*SquareSums:][:SquareSums]); int64(got) != want {
					t.Fatalf("row %d of %d: squares %v, want %v", k, rows, got, want)
				}
			}
		}
	})
}

func total(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// What is too large to be exact stays too large, and what is no number leaves other rows alone.
func TestGridSumOverflows(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		x := make([]float32, 4*Columns)
		x[3], x[Columns+9], x[2*Columns], x[3*Columns] = 0x1p30, 0x1p120, float32(math.NaN()), 5
		sum, squares, ones := make([]float64, Columns), make([]float64, 4*SquareSums), []float64{1, 1, 1, 1}
		for range 3 {
			GridSum(sum, squares, []float32{1, 1, 1, 1}, x, Columns, ones)
		}
		for k, ok := range []func(float64) bool{
			func(s float64) bool { return s >= 0x1p53 },
			func(s float64) bool { return s >= 0x1p53 },
			func(s float64) bool { return s != s },
			func(s float64) bool { return s == 75 },
		} {
			if s := total(squares[k*SquareSums:][:SquareSums]); !ok(s) {
				t.Errorf("row %d has squares %v", k, s)
			}
		}
	})
}
