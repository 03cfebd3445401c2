//go:build !amd64 || noasm

package exact

func best() *kernels { return portable }
