// Package pages allocates large arrays where the system may back them with large pages: a matrix whose rows lie pages
// apart otherwise costs a walk of the page tables for every few rows that a product reads.
package pages

// Make is make([]T, n).
func Make[T float32 | float64](n int) []T {
	x := make([]T, n)
	advise(x)
	return x
}
