//go:build !noasm

package gemm

import (
	"slices"
	"testing"
)

// eachImplementation runs a test with the NEON kernels, and with the portable code.
func eachImplementation(t *testing.T, test func(t *testing.T)) {
	for _, with := range []bool{true, false} {
		t.Run(map[bool]string{true: isa, false: "portable"}[with], func(t *testing.T) {
			before := assembly
			assembly = with
			defer func() { assembly = before }()
			test(t)
		})
	}
}

// The kernels give the bits of the portable code: on arm64 the compiler fuses its multiply-adds, too.
func TestBitsOfPortableCode(t *testing.T) {
	r := newRand(41)
	for range 200 {
		m, n, k := 1+r.IntN(30), 1+r.IntN(40), 1+r.IntN(400)
		a, b := RowMajor(values(r, m*k), m, k), RowMajor(values(r, k*n), k, n)
		before := values(r, m*n)
		all := [2][]float32{}
		for i, with := range []bool{true, false} {
			was := assembly
			assembly = with
			all[i] = slices.Clone(before)
			Mul(RowMajor(all[i], m, n), a, b, true, new(Workspace))
			assembly = was
		}
		equalBits(t, all[0], all[1])
	}
}
