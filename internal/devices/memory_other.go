//go:build !linux

package devices

func machineMemory() int64 { return 0 }
