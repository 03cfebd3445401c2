package kernels

import "github.com/privgrad/privgrad/internal/device"

const (
	vectorThreads = 256
	dotBlock      = 4096 // elements
)

// Axpy sets y[i] = fma(a, x[i], y[i]), i < n, float32, a being the run's scalar of a slot.
func Axpy(run Ptr, a device.Slot, n int, x, y Ptr) Launch {
	return line("vectors", "axpy", ceil(n, vectorThreads), vectorThreads, run, I(int(a)), I(n), x, y)
}

// DotParts writes to parts[j], float64, the sum of x[i]·y[i], float32, over block j of n elements: thread t of 256 adds
// the elements that are t modulo 256 in order, and a tree the threads.
func DotParts(n int, x, y, parts Ptr) Launch {
	return line("vectors", "dot_parts", Dots(n), vectorThreads, I(n), x, y, parts)
}

// Dots is how many parts DotParts writes.
func Dots(n int) int { return ceil(n, dotBlock) }

// DotSum writes the sum of n parts to dst, float64, in the order that DotParts adds elements in.
func DotSum(n int, parts, dst Ptr) Launch {
	return line("vectors", "dot_sum", 1, vectorThreads, I(n), parts, dst)
}

// SquareParts writes to parts[j], float64, the sum of the squares of x[i], float64, over block j of n elements, in the order of DotParts.
func SquareParts(n int, x, parts Ptr) Launch {
	return line("vectors", "square_parts", Dots(n), vectorThreads, I(n), x, parts)
}

// AddNorm adds the root of the sum of n parts to dst, float64, in the order of DotSum.
func AddNorm(n int, parts, dst Ptr) Launch {
	return line("vectors", "add_norm", 1, vectorThreads, I(n), parts, dst)
}
