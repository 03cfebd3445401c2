package vec

// Hadamard replaces every column of a matrix of 8^power rows by its Hadamard transform: row i becomes the sum of all rows j, each with a minus where i and j have an odd number of ones in common. Bits are the same on every processor.
func Hadamard(x []float32, power int) {
	rows := 1 << (3 * power)
	columns := len(x) / rows
	for apart := rows / 8 * columns; apart >= max(columns, 1); apart /= 8 {
		for from := 0; from < rows*columns; from += 8 * apart {
			use.hadamard(x[from:from+8*apart], apart)
		}
	}
}

// hadamard8 does so with eight rows of so many columns, from one on.
func hadamard8(x []float32, columns, from int) {
	for i := from; i < columns; i++ {
		var v [8]float32
		for k := range v {
			v[k] = x[k*columns+i]
		}
		for step := 4; step > 0; step /= 2 {
			for k := range v {
				if k&step == 0 {
					v[k], v[k+step] = v[k]+v[k+step], v[k]-v[k+step]
				}
			}
		}
		for k, s := range v {
			x[k*columns+i] = s
		}
	}
}
