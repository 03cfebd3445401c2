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

// GridSquares adds trunc((d[c]·x[r,c])·scale[c])² to sum[c] for every row r of x and every column c. The first product
// is rounded to float32, the second to float64. A sum that is below 2⁵³ is exact. Any other is no less than that.
func GridSquares(sum, scale []float64, d, x []float32) {
	fits(Columns, min(len(sum), len(scale), len(d)))
	if len(x) >= Columns {
		use.gridSquares(sum, scale, d, x)
	}
}

// GridSum sets sum[c] to Σ trunc((d[r]·x[stride·r+c])·scale[r]) over the length of scale, for every column c. The
// products are rounded as in GridSquares. The sum is exact if those of magnitudes are below 2⁵³.
func GridSum(sum []float64, d, x []float32, stride int, scale []float64) {
	rows := len(scale)
	fits(Columns, len(sum))
	fits(rows, len(d))
	if rows == 0 {
		clear(sum[:Columns])
		return
	}
	fits((rows-1)*stride+Columns, len(x))
	fits(0, stride)
	use.gridSum(sum, d, x, stride, scale)
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

func gridSquares(sum, scale []float64, d, x []float32) {
	for r := range len(x) / Columns {
		for c, v := range x[r*Columns:][:Columns] {
			k := math.Trunc(float64(d[c]*v) * scale[c])
			sum[c] += k * k
		}
	}
}

func gridSum(sum []float64, d, x []float32, stride int, scale []float64) {
	clear(sum[:Columns])
	for r, by := range scale {
		for c, v := range x[r*stride:][:Columns] {
			sum[c] += math.Trunc(float64(d[r]*v) * by)
		}
	}
}
