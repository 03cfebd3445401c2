// Package pages has large arrays on large pages, where the system has them: what is read here and there of an array on
// small pages costs a walk of the page tables for every few reads.
//
// An array seldom begins and ends where a large page does. So large pages are asked for around it, and what else lies on
// them gets them, too.
package pages

// least is the fewest bytes of an array that is worth a large page.
const least = 64 << 10

// Make is make([]T, n) on large pages.
func Make[T any](n int) []T {
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
