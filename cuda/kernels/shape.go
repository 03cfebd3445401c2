package kernels

// line is a one-dimensional grid or block.
func line(n int) [3]int { return [3]int{n, 1, 1} }

// blocks is how many blocks of a size cover n.
func blocks(n, size int) int { return (n + size - 1) / size }

// flag is a bool as an argument.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
