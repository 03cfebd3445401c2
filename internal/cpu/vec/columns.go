package vec

// A matrix lies row by row, with a value in each row for every column.

// inCache is how many values of a matrix kernels go through at a time: they go down a few columns and then down the next, and
// find what one line of the cache holds of both.
const inCache = 1 << 12

// AddColumns adds the rows r of x and y, of len(sum) values each, to sums of each column c: x[r,c] to sum[c] and x[r,c]·y[r,c] to
// slope[c]. Each addition, the second with its product, is rounded once, in order of the rows.
func AddColumns(sum, slope, x, y []float32) {
	n := len(sum)
	fits(n, len(slope))
	fits(len(x), len(y))
	eachRows(n, len(x), func(from, to int) {
		use.addColumns(sum, slope, x[from:to], y[from:to], (to-from)/n)
	})
}

// MixColumns sets dst[r,c] = a[c]·dst[r,c] + (b[c]·x[r,c] + c[c]) for the rows r of dst, of len(a) values each. What is in
// parentheses is rounded, and then all.
func MixColumns(dst, a, b, x, c []float32) {
	n := len(a)
	fits(n, min(len(b), len(c)))
	fits(len(dst), len(x))
	eachRows(n, len(dst), func(from, to int) {
		use.mixColumns(dst[from:to], a, b, x[from:to], c, (to-from)/n)
	})
}

// eachRows visits whole rows of n values of so many in all, some at a time.
func eachRows(n, all int, visit func(from, to int)) {
	if n == 0 {
		return
	}
	step := max(inCache/n, 8) * n
	for from, end := 0, all-all%n; from < end; from += step {
		visit(from, min(from+step, end))
	}
}

func addColumns(sum, slope, x, y []float32, rows int) {
	n := len(sum)
	for r := range rows {
		xs, ys := x[r*n:][:n], y[r*n:][:n]
		for c, v := range xs {
			sum[c] += v
			slope[c] = fma(v, ys[c], slope[c])
		}
	}
}

func mixColumns(dst, a, b, x, c []float32, rows int) {
	n := len(a)
	for r := range rows {
		xs, d := x[r*n:][:n], dst[r*n:][:n]
		for k, v := range d {
			d[k] = fma(a[k], v, fma(b[k], xs[k], c[k]))
		}
	}
}
