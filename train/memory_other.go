//go:build !linux

package train

func machineMemory() int64 { return 0 }
