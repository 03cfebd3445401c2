//go:build !amd64 || noasm

package stream

func implementations() map[string]*kernels { return map[string]*kernels{"portable": portable} }
