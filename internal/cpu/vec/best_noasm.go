//go:build !amd64 || noasm

package vec

func best() kernels { return portable }
