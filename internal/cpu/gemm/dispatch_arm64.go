//go:build !noasm

package gemm

// The kernels by their columns and their number of rows. They are called directly: a call by way of a variable would put
// what it points to on the heap.

func tileKernel(columns, h int, kc int, a, b *float32, ldb int, c *float32, ldc int, accumulate bool) {
	if columns < baseN {
		switch h {
		case 1:
			tileNarrow1NEON(kc, a, b, ldb, c, ldc, accumulate)
		case 2:
			tileNarrow2NEON(kc, a, b, ldb, c, ldc, accumulate)
		case 3:
			tileNarrow3NEON(kc, a, b, ldb, c, ldc, accumulate)
		case 4:
			tileNarrow4NEON(kc, a, b, ldb, c, ldc, accumulate)
		case 5:
			tileNarrow5NEON(kc, a, b, ldb, c, ldc, accumulate)
		case 6:
			tileNarrow6NEON(kc, a, b, ldb, c, ldc, accumulate)
		}
		return
	}
	switch h {
	case 1:
		tile1NEON(kc, a, b, ldb, c, ldc, accumulate)
	case 2:
		tile2NEON(kc, a, b, ldb, c, ldc, accumulate)
	case 3:
		tile3NEON(kc, a, b, ldb, c, ldc, accumulate)
	case 4:
		tile4NEON(kc, a, b, ldb, c, ldc, accumulate)
	case 5:
		tile5NEON(kc, a, b, ldb, c, ldc, accumulate)
	case 6:
		tile6NEON(kc, a, b, ldb, c, ldc, accumulate)
	}
}

func correlateKernel(h int, kc int, a *float32, taps *int32, x0, x1, c0, c1 *float32, ldc int, accumulate, relu bool, bias *float32) {
	switch h {
	case 1:
		correlate1NEON(kc, a, taps, x0, x1, c0, c1, ldc, accumulate, relu, bias)
	case 2:
		correlate2NEON(kc, a, taps, x0, x1, c0, c1, ldc, accumulate, relu, bias)
	case 3:
		correlate3NEON(kc, a, taps, x0, x1, c0, c1, ldc, accumulate, relu, bias)
	case 4:
		correlate4NEON(kc, a, taps, x0, x1, c0, c1, ldc, accumulate, relu, bias)
	case 5:
		correlate5NEON(kc, a, taps, x0, x1, c0, c1, ldc, accumulate, relu, bias)
	case 6:
		correlate6NEON(kc, a, taps, x0, x1, c0, c1, ldc, accumulate, relu, bias)
	}
}

func contractKernel(columns, h int, rows, inner int, jumps *int32, x *float32, taps *int32, b, c *float32, ldc int, accumulate bool) {
	if columns < baseN {
		switch h {
		case 1:
			contractNarrow1NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
		case 2:
			contractNarrow2NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
		case 3:
			contractNarrow3NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
		case 4:
			contractNarrow4NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
		case 5:
			contractNarrow5NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
		case 6:
			contractNarrow6NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
		case 7:
			contractNarrow7NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
		case 8:
			contractNarrow8NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
		}
		return
	}
	switch h {
	case 1:
		contract1NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
	case 2:
		contract2NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
	case 3:
		contract3NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
	case 4:
		contract4NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
	case 5:
		contract5NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
	case 6:
		contract6NEON(rows, inner, jumps, x, taps, b, c, ldc, accumulate)
	}
}
