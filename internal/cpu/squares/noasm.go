//go:build !amd64 || noasm

package squares

// Read and the others are those of the portable form.
func (Form) Read(lanes, channels, rows int, x []float32, plane, pitch int, v []float32, step, stride int) {
	readPortable(lanes, channels, rows, x, plane, pitch, v, step, stride)
}

func (Form) Write(lanes, channels, rows, squares int, m []float32, step, stride int, y []float32, ldy, pitch int, accumulate bool, bias []float32, relu bool) {
	writePortable(lanes, channels, rows, squares, m, step, stride, y, ldy, pitch, accumulate, bias, relu)
}

func (Form) Spread(rows, inner int, d, b []float32, stride int) {
	spreadPortable(rows, inner, d, b, stride)
}

func (Form) Contract(rows, inner int, v []float32, channel, row, strideV int, b []float32, strideB int, p []float32, more bool, c []float32, ldc, n, skip int, accumulate bool) {
	contractPortable(rows, inner, v, channel, row, strideV, b, strideB, p, more, c, ldc, n, skip, accumulate)
}
