// Package pages has large arrays on large pages, where the system has them: what is read here and there of an array on
// small pages costs a walk of the page tables for every few reads.
package pages

// Make is make([]T, n) on large pages. Writing to them first takes half as long as to small ones.
func Make[T any](n int) []T {
	x := make([]T, n)
	advise(x)
	return x
}

// Enlarge moves what was written before to large pages: it takes up to a second for 1 GB, and longer where a virtual machine
// gets its memory only then. What Make made is there already. x must be memory and not stand for a file, which would be read
// from end to end.
func Enlarge[T any](x []T) {
	advise(x)
	collapse(x)
}
