package exact

import (
	"runtime"
	"slices"

	"golang.org/x/sys/cpu"
)

// fused says whether the processor multiplies and adds with one rounding; in software that takes longer than cells.
var fused = cpu.X86.HasFMA || slices.Contains([]string{"arm64", "ppc64le", "riscv64", "s390x"}, runtime.GOARCH)

// kernels is one implementation of the first path for many draws at once, whole groups of them. Both return how many they
// have done: they stop before an open draw, or a few draws earlier.
type kernels struct {
	add     func(dst []int64, words []byte, f *Fixed) int
	release func(dst, src []float32, words []byte, f *Fixed, r *grid) int
}

// group is a multiple of every kernel's vector.
const group = 8

// portable leaves every draw to Fixed.Draw.
var portable = &kernels{
	add:     func([]int64, []byte, *Fixed) int { return 0 },
	release: func([]float32, []float32, []byte, *Fixed, *grid) int { return 0 },
}

var use = best() // replaced by tests alone
