package vec

import "math"

// Columns is how many examples or coordinates the kernels of exact sums treat at a time: a matrix of so many columns
// lies row by row.
const Columns = 16

// ColumnSums is memory for SquareColumns: four sums for every column.
const ColumnSums = 4 * Columns

// SquareColumns adds (d[c]·x[r,c])² to sum[r%4,c] for every row r of x and every column c, in order of the rows. The
// product is rounded to float32, its square is exact, and the sum is rounded to float64.
func SquareColumns(sum []float64, d, x []float32) {
	fits(ColumnSums, len(sum))
	fits(Columns, len(d))
	if len(x) >= Columns {
		use.squareColumns(sum, d, x)
	}
}

// SquareSums is how many sums of squares GridSum has for a row.
const SquareSums = 8

// GridSum adds k = trunc((d[r]·x[stride·r+c])·scale[r]) to sum[c] for every row r, of which scale has one each, and
// every column c, and k² to one of squares[r,·]. The first product is rounded to float32, the second to float64. Sums
// that are below 2⁵³ in magnitude on the way are exact; a sum of squares that is not stays at 2⁵³ or above.
func GridSum(sum, squares []float64, d, x []float32, stride int, scale []float64) {
	rows := len(scale)
	if rows == 0 {
		return
	}
	fits(Columns, len(sum))
	fits(rows*SquareSums, len(squares))
	fits(rows, len(d))
	fits(0, stride)
	fits((rows-1)*stride+Columns, len(x))
	use.gridSum(sum, squares, d, x, stride, scale)
}

func squareColumns(sum []float64, d, x []float32) {
	for r := range len(x) / Columns {
		s, row := sum[r%4*Columns:][:Columns], x[r*Columns:][:Columns]
		for c, v := range row {
			p := float64(d[c] * v)
			s[c] += float64(p * p)
		}
	}
}

func gridSum(sum, squares []float64, d, x []float32, stride int, scale []float64) {
	for r, by := range scale {
		for c, v := range x[r*stride:][:Columns] {
			k := math.Trunc(float64(d[r]*v) * by)
			sum[c] += k
			squares[r*SquareSums+c%SquareSums] += k * k
		}
	}
}
