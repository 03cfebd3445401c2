//go:build !noasm

package vec

func implementations() map[string]kernels {
	return map[string]kernels{"portable": portable, "neon": neon}
}
