//go:build !noasm

package vec

import "golang.org/x/sys/cpu"

func best() kernels {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		return avx2
	}
	return portable
}

var avx2 = kernels{
	tanh:        tanhAVX2,
	sigmoid:     sigmoidAVX2,
	relu:        reluAVX2,
	tanhGrad:    tanhGradAVX2,
	sigmoidGrad: sigmoidGradAVX2,
	reluGrad:    reluGradAVX2,
	addBias:     addBiasAVX2,
	addVec:      addVecAVX2,
	axpy:        axpyAVX2,
	scaled:      scaledAVX2,
	bytes:       bytesAVX2,
	copyRuns:    copyRunsAVX2,
	addRuns:     addRunsAVX2,
	gather2:     gather2AVX2,
	scatter2:    scatter2AVX2,
	maxPool2: func(y []float32, arg []int32, upper, lower []float32, at, width int) {
		if len(y) < 8 {
			portable.maxPool2(y, arg, upper, lower, at, width)
			return
		}
		maxPool2AVX2(y, arg, upper, lower, at, width)
	},
	sum:        sumAVX2,
	sumSquares: sumSquaresAVX2,
	dot:        dotAVX2,
}
