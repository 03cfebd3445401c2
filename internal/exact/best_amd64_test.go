//go:build !noasm

package exact

func implementations() map[string]*kernels {
	m := map[string]*kernels{"portable": portable}
	if b := best(); b != portable {
		m["avx2"] = avx2
		m["best"] = b
	}
	return m
}
