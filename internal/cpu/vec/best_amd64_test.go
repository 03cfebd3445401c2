//go:build !noasm

package vec

import "golang.org/x/sys/cpu"

func implementations() map[string]kernels {
	m := map[string]kernels{"portable": portable}
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return m
	}
	k := avx2
	if !cpu.X86.HasF16C {
		k.halves = portable.halves
	}
	m["avx2"] = k
	if hasAVX512 {
		m["avx512"] = best()
	}
	return m
}
