// Package pages has large arrays on large pages, where the system has them: what is read here and there of an array on
// small pages costs a walk of the page tables for every few reads.
package pages

// Make is make([]T, n) on large pages.
func Make[T float32 | float64](n int) []T {
	x := make([]T, n)
	advise(x)
	return x
}

// Enlarge moves an array that was written before to large pages. It takes as long as a copy. x must be memory and not stand
// for a file, which would be read from end to end.
func Enlarge[T any](x []T) {
	advise(x)
	collapse(x)
}
