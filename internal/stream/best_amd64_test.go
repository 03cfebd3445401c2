//go:build !noasm

package stream

import "golang.org/x/sys/cpu"

func implementations() map[string]*kernels {
	m := map[string]*kernels{"portable": portable}
	if cpu.X86.HasAVX2 {
		m["avx2"] = avx2
		if cpu.X86.HasAES {
			m["aesni"] = aesni
		}
	}
	if b := best(); b == vaes || b == avx512 {
		m["vaes"], m["best"] = vaes, b
	}
	return m
}
