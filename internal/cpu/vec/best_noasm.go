//go:build (!amd64 && !arm64) || noasm

package vec

func best() kernels { return portable }
