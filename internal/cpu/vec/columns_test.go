package vec

import (
	"math"
	"slices"
	"testing"
)

// matrixSizes: any width with few rows, and heights that are cut.
func matrixSizes(visit func(rows, columns int)) {
	for columns := range 150 {
		visit(columns%4, columns)
	}
	for _, columns := range []int{1, 24, 64, 640} {
		visit(inCache/columns+9, columns)
	}
}

// Each of n additions, whose product is exact or rounded with it, is off by one rounding of a sum that is no longer than all
// terms together, but for what double rounding of the portable kernels adds.
func TestAddColumns(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(71)
		matrixSizes(func(rows, columns int) {
			x, y, sum, slope := values(r, rows*columns+columns/2), values(r, rows*columns+columns), values(r, columns), values(r, columns)
			gotSum, gotSlope := slices.Clone(sum), slices.Clone(slope)
			AddColumns(gotSum, gotSlope, x, y)
			for c := range columns {
				wantSum, wantSlope := float64(sum[c]), float64(slope[c])
				sizeSum, sizeSlope := math.Abs(wantSum), math.Abs(wantSlope)
				for k := range rows {
					v, w := float64(x[k*columns+c]), float64(y[k*columns+c])
					wantSum, wantSlope = wantSum+v, wantSlope+v*w
					sizeSum, sizeSlope = sizeSum+math.Abs(v), sizeSlope+math.Abs(v*w)
				}
				u := 1.01 * float64(rows) / (1 << 24)
				if !(math.Abs(float64(gotSum[c])-wantSum) <= u*sizeSum) || !(math.Abs(float64(gotSlope[c])-wantSlope) <= u*sizeSlope) {
					t.Fatalf("%d×%d: column %d has the sums %v and %v, want %v and %v", rows, columns, c, gotSum[c], gotSlope[c], wantSum, wantSlope)
				}
			}
		})
	})
}

// A column's sums have the bits of kernels that go row by row, and so do all of a matrix that is cut into two.
func TestAddColumnsIsRowByRow(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(72)
		matrixSizes(func(rows, columns int) {
			x, y, sum, slope := values(r, rows*columns), values(r, rows*columns), values(r, columns), values(r, columns)
			wantSum, wantSlope := slices.Clone(sum), slices.Clone(slope)
			for k := range rows {
				AddVec(wantSum, x[k*columns:])
				MulAdd(wantSlope, x[k*columns:], y[k*columns:], wantSlope)
			}
			cut := r.IntN(rows+1) * columns
			AddColumns(sum, slope, x[:cut], y)
			AddColumns(sum, slope, x[cut:], y[cut:])
			if !slices.Equal(sum, wantSum) || !slices.Equal(slope, wantSlope) {
				t.Fatalf("%d×%d: other bits", rows, columns)
			}
		})
	})
}

func TestMixColumns(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(73)
		matrixSizes(func(rows, columns int) {
			dst, x := values(r, rows*columns+columns/2), values(r, rows*columns+columns)
			a, b, c := values(r, columns), values(r, columns), values(r, columns)
			want, got, over := slices.Clone(dst), slices.Clone(dst), slices.Clone(dst)
			whole := make([]float32, columns)
			for k := range rows {
				MulAdd(whole, b, x[k*columns:], c)
				MulAdd(want[k*columns:][:columns], a, dst[k*columns:], whole)
			}
			MixColumns(got, a, b, x, c)
			if !slices.Equal(got, want) { // what follows the last whole row stays
				t.Fatalf("%d×%d: other bits than of two kernels", rows, columns)
			}
			MixColumns(over, a, b, over, c)
			copy(x, dst)
			if MixColumns(dst, a, b, x, c); !slices.Equal(over, dst) {
				t.Fatalf("%d×%d: over its input it differs", rows, columns)
			}
		})
	})
}
