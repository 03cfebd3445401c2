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
	k.addExcess, k.adam = addExcessNEON, adamNEON
	k.bytes = func(dst []float32, src []uint8, scale, offset float32) {
		whole := len(dst) &^ 15
		if whole > 0 {
			bytesNEON(whole/16, &dst[0], &src[0], scale, offset)
		}
		portable.bytes(dst[whole:], src[whole:], scale, offset)
	}
	k.sum = func(x []float32) float64 {
		return sumOf(x, func(groups int, l *lanes) { sumNEON(groups, &l[0], &x[0]) }, func(i int) float64 { return float64(x[i]) })
	}
	k.sumSquares = func(x []float32) float64 {
		return sumOf(x, func(groups int, l *lanes) { sumSquaresNEON(groups, &l[0], &x[0]) }, func(i int) float64 { return float64(x[i]) * float64(x[i]) })
	}
	k.dot = func(x, y []float32) float64 {
		return sumOf(x, func(groups int, l *lanes) { dotNEON(groups, &l[0], &x[0], &y[0]) }, func(i int) float64 { return float64(x[i]) * float64(y[i]) })
	}
	return k
}()

// sumOf adds up whole groups of lanes by a kernel, and the elements behind them one by one.
func sumOf(x []float32, kernel func(groups int, l *lanes), element func(i int) float64) float64 {
	var l lanes
	whole := len(x) / len(l) * len(l)
	if whole > 0 {
		kernel(whole/len(l), &l)
	}
	for i := whole; i < len(x); i++ {
		l[i-whole] += element(i)
	}
	return l.total()
}
