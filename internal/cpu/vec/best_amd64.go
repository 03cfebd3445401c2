//go:build !noasm

package vec

import "golang.org/x/sys/cpu"

func best() kernels {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return portable
	}
	if hasAVX512 {
		return avx512(avx2)
	}
	k := avx2
	if !cpu.X86.HasF16C {
		k.halves = portable.halves
	}
	return k
}

// avx512 has sixteen lanes where k has eight. Sums over a vector stay: they have as many lanes for every processor.
func avx512(k kernels) kernels {
	k.tanh, k.sigmoid, k.relu = tanhAVX512, sigmoidAVX512, reluAVX512
	k.tanhGrad, k.sigmoidGrad, k.reluGrad = tanhGradAVX512, sigmoidGradAVX512, reluGradAVX512
	k.leakyRelu, k.leakyReluGrad = leakyReluAVX512, leakyReluGradAVX512
	k.gelu, k.geluGrad = geluAVX512, geluGradAVX512
	k.addVec, k.axpy, k.scaled = addVecAVX512, axpyAVX512, scaledAVX512
	k.mix, k.descend, k.mixSquares = mixAVX512, descendAVX512, mixSquaresAVX512
	k.modulus, k.addExcess, k.adam = modulusAVX512, addExcessAVX512, adamAVX512
	k.mul, k.mulAdd, k.normalize = mulAVX512, mulAddAVX512, normalizeAVX512
	k.addColumns = func(sum, slope, x, y []float32, rows int) {
		addColumnsAVX512(&sum[0], &slope[0], &x[0], &y[0], len(sum), rows)
	}
	k.mixColumns = func(dst, a, b, x, c []float32, rows int) {
		mixColumnsAVX512(&a[0], &b[0], &c[0], &dst[0], &x[0], len(a), rows)
	}
	k.bytes, k.halves = bytesAVX512, halvesAVX512
	k.addLines, k.addShortLines = by(addLinesAVX512), by(addShortLinesAVX512)
	wider := k.addUnpool2
	k.addUnpool2 = func(x []float32, arg []int32, y []float32, rows, cols, at int, accumulate bool) {
		if cols > 15 {
			wider(x, arg, y, rows, cols, at, accumulate)
			return
		}
		addUnpool2AVX512(&x[0], &arg[0], &y[0], rows, cols, at, accumulate)
	}
	k.gather2, k.scatter2 = gather2AVX512, scatter2AVX512
	few := k.maxPool2
	k.maxPool2 = func(y []float32, arg []int32, x []float32, rows, cols, width, down, step, at int) {
		kernel := maxPool2Step2AVX512
		switch {
		case cols <= 8:
			few(y, arg, x, rows, cols, width, down, step, at)
			return
		case step == 1:
			kernel = maxPool2Step1AVX512
		}
		kernel(&y[0], &arg[0], &x[0], rows, cols, width, down, at)
	}
	k.squareColumns = func(sum []float64, d, x []float32) {
		squareColumnsAVX512(&sum[0], &d[0], &x[0], len(x)/Columns)
	}
	k.gridSum = func(sum, squares []float64, d, x []float32, stride int, scale []float64) {
		gridSumAVX512(&sum[0], &squares[0], &d[0], &x[0], stride, &scale[0], len(scale))
	}
	return k
}

func by(kernel func(dst, src *float32, list *int32, groups int)) func(dst, src []float32, list []int32, groups int) {
	return func(dst, src []float32, list []int32, groups int) { kernel(&dst[0], &src[0], &list[0], groups) }
}

// What the kernels with AVX-512 need.
var hasAVX512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasBMI2

var avx2 = kernels{
	tanh:          tanhAVX2,
	sigmoid:       sigmoidAVX2,
	relu:          reluAVX2,
	tanhGrad:      tanhGradAVX2,
	sigmoidGrad:   sigmoidGradAVX2,
	reluGrad:      reluGradAVX2,
	leakyRelu:     leakyReluAVX2,
	leakyReluGrad: leakyReluGradAVX2,
	gelu:          geluAVX2,
	geluGrad:      geluGradAVX2,
	addVec:        addVecAVX2,
	axpy:          axpyAVX2,
	scaled:        scaledAVX2,
	mix:           mixAVX2,
	descend:       descendAVX2,
	mixSquares:    mixSquaresAVX2,
	modulus:       modulusAVX2,
	addExcess:     addExcessAVX2,
	adam:          adamAVX2,
	mul:           mulAVX2,
	mulAdd:        mulAddAVX2,
	normalize:     normalizeAVX2,
	gated:         gatedAVX2,
	keep:          keepAVX2,
	bytes:         bytesAVX2,
	prefetch:      prefetch,
	halves:        halvesAVX2,
	copyRuns:      copyRunsAVX2,
	addRuns:       addRunsAVX2,
	addLines:      by(addLinesAVX2),
	addShortLines: by(addLinesAVX2),
	gather2:       gather2AVX2,
	scatter2:      scatter2AVX2,
	maxPool2: func(y []float32, arg []int32, x []float32, rows, cols, width, down, step, at int) {
		kernel := maxPool2By8Step2AVX2
		switch {
		case cols < 4:
			portable.maxPool2(y, arg, x, rows, cols, width, down, step, at)
			return
		case cols < 8 && step == 1:
			kernel = maxPool2By4Step1AVX2
		case cols < 8:
			kernel = maxPool2By4Step2AVX2
		case step == 1:
			kernel = maxPool2By8Step1AVX2
		}
		kernel(&y[0], &arg[0], &x[0], rows, cols, width, down, at)
	},
	maxUnpool2: func(x []float32, arg []int32, y []float32, rows, cols, width, at int) {
		switch {
		case cols < 4:
			portable.maxUnpool2(x, arg, y, rows, cols, width, at)
		case cols < 8:
			maxUnpool2By4AVX2(&x[0], &arg[0], &y[0], rows, cols, width, at)
		default:
			maxUnpool2By8AVX2(&x[0], &arg[0], &y[0], rows, cols, width, at)
		}
	},
	addUnpool2: func(x []float32, arg []int32, y []float32, rows, cols, at int, accumulate bool) {
		addUnpool2AVX2(&x[0], &arg[0], &y[0], rows, cols, at, accumulate)
	},
	sum:        sumAVX2,
	sumSquares: sumSquaresAVX2,
	dot:        dotAVX2,
	addColumns: func(sum, slope, x, y []float32, rows int) {
		addColumnsAVX2(&sum[0], &slope[0], &x[0], &y[0], len(sum), rows)
	},
	mixColumns: func(dst, a, b, x, c []float32, rows int) {
		mixColumnsAVX2(&a[0], &b[0], &c[0], &dst[0], &x[0], len(a), rows)
	},
	hadamard: func(x []float32, columns int) {
		if columns >= 8 {
			hadamardAVX2(&x[0], columns, columns/8)
		}
		hadamard8(x, columns, columns&^7)
	},
	// Half of the columns have their sums in registers.
	squareColumns: func(sum []float64, d, x []float32) {
		const half = Columns / 2
		squareColumnsAVX2(&sum[0], &d[0], &x[0], len(x)/Columns)
		squareColumnsAVX2(&sum[half], &d[half], &x[half], len(x)/Columns)
	},
	gridSum: func(sum, squares []float64, d, x []float32, stride int, scale []float64) {
		gridSumAVX2(&sum[0], &squares[0], &d[0], &x[0], stride, &scale[0], len(scale))
	},
}
