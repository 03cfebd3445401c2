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

var (
	avx2   = assembled(addDrawsAVX2, releaseAVX2)
	avx512 = assembled(addDrawsAVX512, releaseAVX512)
)

// assembled proves by slicing that a kernel stays within its slices.
func assembled(
	add func(dst []int64, words *byte, table *[4]uint64, std, magic float64, open, places uint64, whole int64) int,
	release func(dst, src []float32, words *byte, table *[4]uint64, std, magic float64, open, places uint64, perGrid, least, most, less, grid float64) int,
) *kernels {
	rows := func() *[4]uint64 { return (*[4]uint64)(&table()[0]) }
	return &kernels{
		add: func(dst []int64, words []byte, f *Fixed) int {
			words = words[:8*len(dst)]
			return add(dst, &words[0], rows(), f.Std, f.Magic, f.Open, f.Places, f.Whole)
		},
		release: func(dst, src []float32, words []byte, f *Fixed, r *grid) int {
			words, src = words[:8*len(dst)], src[:len(dst)]
			return release(dst, src, &words[0], rows(), f.Std, f.Magic, f.Open, f.Places, r.per, r.least, r.most, middle-float64(f.Whole), r.step)
		},
	}
}

// middle is the middle of the float64 numbers that are the integers: as many lie below it as above.
const middle = 0x1.8p52
