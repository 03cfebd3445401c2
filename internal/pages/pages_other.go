//go:build !linux

package pages

func advise[T any]([]T) {}

func collapse[T any]([]T) {}
