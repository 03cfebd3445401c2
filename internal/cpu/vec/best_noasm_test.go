//go:build !amd64 || noasm

package vec

func implementations() map[string]kernels { return map[string]kernels{"portable": portable} }
