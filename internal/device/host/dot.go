package host

// dot adds halves, so that rounding grows with the logarithm of the width.
func dot[T Float](x, y []T) float64 {
	if half := len(x) / 2; half >= 64 {
		return dot(x[:half], y[:half]) + dot(x[half:], y[half:])
	}
	// Four sums at a time, since one waits for each of its additions.
	var s [4]float64
	y = y[:len(x)]
	for ; len(x) >= 4; x, y = x[4:], y[4:] {
		s[0] += float64(x[0]) * float64(y[0])
		s[1] += float64(x[1]) * float64(y[1])
		s[2] += float64(x[2]) * float64(y[2])
		s[3] += float64(x[3]) * float64(y[3])
	}
	for i, a := range x {
		s[i] += float64(a) * float64(y[i])
	}
	return s[0] + s[1] + (s[2] + s[3])
}
