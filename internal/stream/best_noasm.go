//go:build !amd64 || noasm

package stream

func best() *kernels { return portable }
