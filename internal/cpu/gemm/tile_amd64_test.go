//go:build !noasm

package gemm

import "testing"

// use chooses the kernels and gives back those chosen before.
func use(withAssembly, withWide bool) (restore func()) {
	wereAssembly, wereWide := assembly, wide
	assembly, wide = withAssembly, withWide
	TileM, TileN = tileShape()
	return func() {
		assembly, wide = wereAssembly, wereWide
		TileM, TileN = tileShape()
	}
}

// eachImplementation runs a test with the kernels that the processor has, and with the portable code.
func eachImplementation(t *testing.T, test func(t *testing.T)) {
	for _, k := range []struct {
		name                string
		has, assembly, wide bool
	}{{"AVX-512", hasAVX512, true, true}, {"AVX2", hasAVX2, true, false}, {"portable", true, false, false}} {
		if k.has {
			t.Run(k.name, func(t *testing.T) {
				defer use(k.assembly, k.wide)()
				test(t)
			})
		}
	}
}
