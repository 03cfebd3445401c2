//go:build amd64 && !noasm

package squares

// Read transforms what the outputs of lanes squares of each of rows read, two rows of the image apart, for all channels:
// image x has them plane floats apart and its rows pitch. Sixteen values of a square go to matrices stride floats apart,
// from v on: a channel step further than the one before, a row lanes.
func (f Form) Read(lanes, channels, rows int, x []float32, plane, pitch int, v []float32, step, stride int) {
	if f == Portable {
		readPortable(lanes, channels, rows, x, plane, pitch, v, step, stride)
		return
	}
	_, _ = x[(channels-1)*plane+(2*rows+1)*pitch+2*lanes+1], v[(Parts-1)*stride+(channels-1)*step+rows*lanes-1]
	kernel := read16AVX512
	switch lanes {
	case 4:
		kernel = read4AVX2
	case 8:
		kernel = read8AVX2
	}
	kernel(channels, rows, &x[0], plane, pitch, &v[0], step, stride)
}

// Write makes the outputs of up to lanes squares of each of rows, for all channels, of sixteen matrices stride floats apart,
// from m on, where a row of squares is lanes floats and a channel step further. Outputs y of channels lie ldy apart, their
// rows pitch. With accumulate they are added to what is there. Then a bias, unless nil, is added, and relu cuts off what
// is below zero.
func (f Form) Write(lanes, channels, rows, squares int, m []float32, step, stride int, y []float32, ldy, pitch int, accumulate bool, bias []float32, relu bool) {
	if f == Portable {
		writePortable(lanes, channels, rows, squares, m, step, stride, y, ldy, pitch, accumulate, bias, relu)
		return
	}
	_, _ = m[(Parts-1)*stride+(channels-1)*step+rows*lanes-1], y[(channels-1)*ldy+(2*rows-1)*pitch+2*squares-1]
	var first *float32
	if bias != nil {
		first = &bias[:channels][0]
	}
	kernel := write16AVX512
	switch lanes {
	case 4:
		kernel = write4AVX2
	case 8:
		kernel = write8AVX2
	}
	kernel(channels, rows, squares, &m[0], step, stride, &y[0], ldy, pitch, accumulate, first, relu)
}

// Spread transforms rows times inner squares of the gradients at outputs, of which d has Columns for each position: each
// square's four to sixteen, in matrices stride floats apart from b on.
func (f Form) Spread(rows, inner int, d, b []float32, stride int) {
	if f == Portable {
		spreadPortable(rows, inner, d, b, stride)
		return
	}
	_, _ = d[4*rows*inner*f.Columns()-1], b[(Parts-1)*stride+rows*inner*f.Columns()-1]
	kernel := spreadAVX2
	if f == AVX512 {
		kernel = spreadAVX512
	}
	kernel(rows, inner, &d[0], &b[0], stride)
}

// Contract computes sixteen products of Rows channels with n columns, over rows times inner squares. v are sixteen matrices of
// channels, strideV floats apart: a channel is channel floats behind the one before, a row of squares row floats. b are
// sixteen matrices of Columns values a square, strideB apart. The products go to p, which holds Parts·Rows·Columns; with
// more they are added to those there. Unless c is nil, they become the weights' gradients of each channel but the first
// skip: Taps rows of c, ldc apart, of n columns. With accumulate they are added to what is there.
func (f Form) Contract(rows, inner int, v []float32, channel, row, strideV int, b []float32, strideB int, p []float32, more bool, c []float32, ldc, n, skip int, accumulate bool) {
	if f == Portable {
		contractPortable(rows, inner, v, channel, row, strideV, b, strideB, p, more, c, ldc, n, skip, accumulate)
		return
	}
	_, _ = v[(Parts-1)*strideV+(f.Rows()-1)*channel+(rows-1)*row+inner-1], p[Parts*f.Rows()*f.Columns()-1]
	_ = b[(Parts-1)*strideB+rows*inner*f.Columns()-1]
	var first *float32
	if c != nil {
		_ = c[((f.Rows()-skip)*Taps-1)*ldc+n-1]
		first = &c[0]
	}
	wide := n > f.Columns()/2
	kernel := contract1AVX2
	switch {
	case f == AVX512 && wide:
		kernel = contract2AVX512
	case f == AVX512:
		kernel = contract1AVX512
	case wide:
		kernel = contract2AVX2
	}
	kernel(rows, inner, &v[0], channel, row, strideV, &b[0], strideB, &p[0], more, first, ldc, n, skip, accumulate)
}
