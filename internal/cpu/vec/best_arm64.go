//go:build !noasm

package vec

func best() kernels { return neon }

// neon has kernels for what takes longest. Every arm64 processor has NEON.
var neon = func() kernels {
	k := portable
	k.relu, k.reluGrad = reluNEON, reluGradNEON
	k.leakyRelu, k.leakyReluGrad = leakyReluNEON, leakyReluGradNEON
	k.tanhGrad, k.sigmoidGrad = tanhGradNEON, sigmoidGradNEON
	k.addVec, k.axpy, k.scaled = addVecNEON, axpyNEON, scaledNEON
	k.mix, k.mixSquares, k.modulus = mixNEON, mixSquaresNEON, modulusNEON
	k.addExcess, k.adam, k.descend = addExcessNEON, adamNEON, descendNEON
	k.mul, k.mulAdd, k.normalize = mulNEON, mulAddNEON, normalizeNEON
	k.addColumns, k.mixColumns = addColumnsOf, mixColumnsOf
	k.bytes = func(dst []float32, src []uint8, scale, offset float32) {
		whole := len(dst) &^ 15
		if whole > 0 {
			bytesNEON(whole/16, &dst[0], &src[0], scale, offset)
		}
		portable.bytes(dst[whole:], src[whole:], scale, offset)
	}
	k.sum, k.sumSquares, k.dot = sumOf, sumSquaresOf, dotOf
	return k
}()

// Columns are added and mixed row by row, with the bits of one kernel for both.

func addColumnsOf(sum, slope, x, y []float32, rows int) {
	n := len(sum)
	for r := range rows {
		addVecNEON(sum, x[r*n:])
		mulAddNEON(slope[:n], x[r*n:], y[r*n:], slope)
	}
}

func mixColumnsOf(dst, a, b, x, c []float32, rows int) {
	n := len(a)
	var memory [256]float32
	for from := 0; from < n; from += len(memory) {
		t := memory[:min(n-from, len(memory))]
		for r := range rows {
			d := dst[r*n+from:][:len(t)]
			mulAddNEON(t, b[from:], x[r*n+from:], c[from:])
			mulAddNEON(d, a[from:], d, t)
		}
	}
}

// Each adds up whole groups of lanes by its kernel, which is called directly so that the lanes stay off the heap, and the
// elements behind them one by one.

func sumOf(x []float32) float64 {
	var l lanes
	whole := len(x) / len(l) * len(l)
	if whole > 0 {
		sumNEON(whole/len(l), &l[0], &x[0])
	}
	for i, v := range x[whole:] {
		l[i] += float64(v)
	}
	return l.total()
}

func sumSquaresOf(x []float32) float64 {
	var l lanes
	whole := len(x) / len(l) * len(l)
	if whole > 0 {
		sumSquaresNEON(whole/len(l), &l[0], &x[0])
	}
	for i, v := range x[whole:] {
		l[i] += float64(v) * float64(v)
	}
	return l.total()
}

func dotOf(x, y []float32) float64 {
	var l lanes
	whole := len(x) / len(l) * len(l)
	if whole > 0 {
		dotNEON(whole/len(l), &l[0], &x[0], &y[0])
	}
	for i, v := range x[whole:] {
		l[i] += float64(v) * float64(y[whole+i])
	}
	return l.total()
}
