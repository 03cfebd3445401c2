//go:build !noasm

package peak

import "golang.org/x/sys/cpu"

// loops are those that the processor can run, the widest last.
func loops() []loop {
	var l []loop
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		l = append(l, loop{"AVX2+FMA", 8, chains})
		if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ {
			l = append(l, loop{"AVX-512", 16, chainsAVX512})
		}
	}
	return l
}

var widest = func() loop {
	l := append([]loop{{}}, loops()...)
	return l[len(l)-1]
}()
