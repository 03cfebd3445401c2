//go:build !noasm

package vec

import (
	"math"
	"testing"

	"golang.org/x/sys/cpu"
)

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

// With AVX-512 an element has the bits that it has with AVX2.
func TestAVX512HasTheBitsOfAVX2(t *testing.T) {
	if !hasAVX512 {
		t.Skip("no AVX-512")
	}
	defer func(was kernels) { use = was }(use)
	r := newRand(15)
	const n = 1 << 16
	any := func() []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = math.Float32frombits(r.Uint32()) // of any size, NaN and subnormal numbers too
		}
		return x
	}
	for _, f := range elementwise {
		for _, from := range []func() []float32{any, func() []float32 { return values(r, n) }, func() []float32 { return oddOnes(r, n) }} {
			dst, x, y := from(), from(), from()
			var got [2][]float32
			for i, k := range []kernels{avx2, avx512(avx2)} {
				use = k
				got[i] = append([]float32(nil), dst...)
				f.run(got[i], x, y)
			}
			if !sameFloats(got[0], got[1]) {
				t.Errorf("%s has other bits", f.name)
			}
		}
	}
}
