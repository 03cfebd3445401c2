//go:build !amd64 || noasm

package exact

func implementations() map[string]*kernels { return map[string]*kernels{"portable": portable} }
