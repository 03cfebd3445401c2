//go:build (!amd64 && !arm64) || noasm

package vec

func implementations() map[string]kernels { return map[string]kernels{"portable": portable} }
