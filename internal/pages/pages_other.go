//go:build !linux

package pages

func advise[T float32 | float64]([]T) {}
