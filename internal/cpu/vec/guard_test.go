//go:build linux || darwin

package vec

import (
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/vec/guard"
)

// Every slice lies in turn directly before and after memory that faults.
func TestNothingOutsideIsTouched(t *testing.T) {
	var regions [4]guard.Region
	for i := range regions {
		regions[i] = guard.New(t, 1<<16)
	}
	eachImplementation(t, func(t *testing.T) {
		r := newRand(5)
		for n := range 140 {
			for _, end := range []bool{false, true} {
				place := func(i int) []float32 { return regions[i].Floats(n, end) }
				dst, x, y := place(0), place(1), place(2)
				for _, f := range elementwise {
					old := values(r, n)
					copy(dst, old)
					copy(x, values(r, n))
					copy(y, values(r, n))
					f.run(old, slices.Clone(x), slices.Clone(y))
					f.run(dst, x, y)
					if !slices.Equal(dst, old) {
						t.Fatalf("%s of %d elements has other bits at another address", f.name, n)
					}
				}
				Prefetch(x)
				for step := 1; step <= 2; step++ {
					if width := n / 2; width >= 2 { // two rows, and as many windows as they hold
						cols := (width-2)/step + 1
						arg := make([]int32, cols)
						MaxPool2(dst[:cols], arg, x[n-2*width:], 1, cols, width, 0, step, 0)
						MaxUnpool2(y[n-2*width:], arg, dst[:cols], 1, width/2, width, 0)
					}
				}
				for cols := 1; cols < min(40, n/3); cols++ { // of as many rows as there are with a border
					width, arg := cols+1, make([]int32, n)
					rows := (n - width) / width
					MaxPool2(dst[:rows*cols], arg, x[n-(rows+1)*width:], rows, cols, width, width, 1, 0)
					AddUnpool2(y[n-(rows+1)*width:], arg[:rows*cols], dst[:rows*cols], rows, cols, 0, (n+cols)%2 == 0)
				}
				runs, to, from := randomLines(r, 1+n%longestLine)
				runs.Lines(1 + n%longestLine)
				AddRuns(regions[0].Floats(to, end), regions[1].Floats(from, end), &runs)
				var early Runs // lane 0 of its line stands before the source
				early.Add(3, 0, 1)
				early.Lines(4)
				AddRuns(regions[0].Floats(4, end), regions[1].Floats(1, end), &early)
				if n > 0 {
					out, in := Gather(2), Scatter(2)
					out.Add(0, 0, n)
					in.Add(0, 0, n)
					CopyRuns(x, regions[3].Floats(2*n-1, end), &out)
					AddRuns(regions[3].Floats(2*n-1, end), x, &in)
				}
				src := regions[3].Bytes(n, end)
				Bytes(dst, src, a, b)
				Halves(dst, regions[3].Halves(n, end))
				Sum(x)
				SumSquares(x)
				Dot(x, y)
				for columns := range min(n, 80) {
					columns++
					whole := n - n%columns // rows
					at := func(i, n int) []float32 { return regions[i].Floats(n, end) }
					AddColumns(at(0, columns), at(1, columns), at(2, whole), at(3, whole))
					MixColumns(at(3, whole), at(0, columns), at(1, columns), at(2, whole), at(0, columns))
				}
				if rows := n / Columns; rows > 0 {
					ones := make([]float64, ColumnSums)
					SquareColumns(ones, dst[n-Columns:], x[n-rows*Columns:])
					GridSum(ones, make([]float64, rows*SquareSums), dst[n-rows:], x[n-rows*Columns:], Columns, ones[:rows])
				}
			}
		}
	})
}
