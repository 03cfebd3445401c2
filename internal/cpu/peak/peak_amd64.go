//go:build !noasm

package peak

import "golang.org/x/sys/cpu"

// Run does a number of rounds with AVX2 and FMA. It reports false, having done nothing, on a processor without them: what
// portable code reaches says nothing about such a processor.
func Run(rounds int) bool {
	if rounds < 1 || !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return false
	}
	var sum [8]float32
	chains(rounds, &sum[0])
	return true
}
