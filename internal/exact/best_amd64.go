//go:build !noasm

package exact

import "golang.org/x/sys/cpu"

func best() *kernels {
	switch {
	case !cpu.X86.HasAVX2 || !cpu.X86.HasFMA:
		return portable
	case !cpu.X86.HasAVX512F || !cpu.X86.HasAVX512DQ:
		return avx2
	}
	return avx512
}

var avx2 = &kernels{
	add: func(dst []int64, words []byte, f *Fixed) int {
		_ = words[:8*len(dst)]
		return addDrawsAVX2(dst, &words[0], rows(), f.Std, f.Magic, f.Open, f.Places, f.Whole)
	},
	release: func(dst, src []float32, words []byte, f *Fixed, r *grid) int {
		_, _ = words[:8*len(dst)], src[:len(dst)]
		return releaseAVX2(dst, src, &words[0], rows(), f.Std, f.Magic, f.Open, f.Places, r.per, r.least, r.most, middle-float64(f.Whole), r.step)
	},
}

var avx512 = &kernels{
	add: func(dst []int64, words []byte, f *Fixed) int {
		_ = words[:8*len(dst)]
		return addDrawsAVX512(dst, &words[0], rows(), f.Std, f.Magic, f.Open, f.Places, f.Whole)
	},
	release: func(dst, src []float32, words []byte, f *Fixed, r *grid) int {
		_, _ = words[:8*len(dst)], src[:len(dst)]
		return releaseAVX512(dst, src, &words[0], rows(), f.Std, f.Magic, f.Open, f.Places, r.per, r.least, r.most, middle-float64(f.Whole), r.step)
	},
}
