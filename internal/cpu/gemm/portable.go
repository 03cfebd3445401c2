package gemm

// tilePortable is tile without assembly. Of b it reads eight columns when n <= 8 and sixteen otherwise.
func tilePortable(tiles, h, kc int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, n int, accumulate bool) {
	for i := range tiles * h {
		panel := a[i/h*lda+i%h:]
		for j := 0; j < n; j += 8 {
			var s0, s1, s2, s3, s4, s5, s6, s7 float32
			for p := range kc {
				x := panel[p*TileM]
				y := (*[8]float32)(b[p*ldb+j:])
				s0 += x * y[0]
				s1 += x * y[1]
				s2 += x * y[2]
				s3 += x * y[3]
				s4 += x * y[4]
				s5 += x * y[5]
				s6 += x * y[6]
				s7 += x * y[7]
			}
			sum := [8]float32{s0, s1, s2, s3, s4, s5, s6, s7}
			row := c[i*ldc+j:][:min(8, n-j)]
			if accumulate {
				for q := range row {
					row[q] += sum[q]
				}
			} else {
				copy(row, sum[:])
			}
		}
	}
}

// correlatePortable is correlate without assembly.
func correlatePortable(h int, a []float32, taps []int32, x []float32, pairs []int32, c []float32, ldc int, accumulate bool, bias []float32, relu bool) {
	for ; len(pairs) > 0; pairs = pairs[pairWords:] {
		for half := range 2 {
			in, out, n := x[pairs[half]/4:], c[pairs[2+half]/4:], int(pairs[4+half])
			if n == 0 {
				continue
			}
			for i := range h {
				var sum [group]float32
				for p, at := range taps {
					w, y := a[p*TileM+i], in[at/4:][:n]
					for q, v := range y {
						sum[q] += w * v
					}
				}
				row := out[i*ldc:][:n]
				for q := range row {
					s := sum[q]
					if accumulate {
						s += row[q]
					}
					if bias != nil {
						s += bias[i]
					}
					if relu && s < 0 {
						s = 0
					}
					row[q] = s
				}
			}
		}
	}
}

// contractPortable is contract without assembly.
func contractPortable(h, inner int, jumps []int32, x []float32, taps []int32, b, c []float32, ldc, n int, accumulate bool) {
	for i := range h {
		var sum [baseN]float32
		at, y := int(taps[i])/4, b
		for _, jump := range jumps {
			for range inner {
				v := x[at]
				for q := range n {
					sum[q] += v * y[q]
				}
				at, y = at+1, y[TileN:]
			}
			at += int(jump) / 4
		}
		row := c[i*ldc:][:n]
		for q := range row {
			if accumulate {
				row[q] += sum[q]
			} else {
				row[q] = sum[q]
			}
		}
	}
}

// readSquaresPortable is readSquares without assembly.
func readSquaresPortable(lanes, channels, rows int, x []float32, plane, pitch int, v []float32, step, stride int) {
	for c := range channels {
		for r := range rows {
			for q := range lanes {
				from, to := x[c*plane+2*r*pitch+2*q:], v[c*step+r*lanes+q:]
				var t [4][4]float32
				for i := range t {
					d := (*[4]float32)(from[i*pitch:])
					t[i] = [4]float32{d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]}
				}
				for j := range 4 {
					to[j*stride] = t[0][j] - t[2][j]
					to[(4+j)*stride] = t[1][j] + t[2][j]
					to[(8+j)*stride] = t[2][j] - t[1][j]
					to[(12+j)*stride] = t[1][j] - t[3][j]
				}
			}
		}
	}
}

// writeSquaresPortable is writeSquares without assembly.
func writeSquaresPortable(lanes, channels, rows, squares int, m []float32, step, stride int, y []float32, ldy, pitch int, accumulate bool, bias []float32, relu bool) {
	for c := range channels {
		for r := range rows {
			for q := range squares {
				from, to := m[c*step+r*lanes+q:], y[c*ldy+2*r*pitch+2*q:]
				var a [2][4]float32
				for j := range 4 {
					m1, m2 := from[(4+j)*stride], from[(8+j)*stride]
					a[0][j], a[1][j] = m1+from[j*stride]+m2, m1-m2-from[(12+j)*stride]
				}
				for i := range a {
					out := [2]float32{a[i][0] + a[i][1] + a[i][2], a[i][1] - a[i][2] - a[i][3]}
					for j, s := range out {
						if accumulate {
							s += to[i*pitch+j]
						}
						if bias != nil {
							s += bias[c]
						}
						if relu && s < 0 {
							s = 0
						}
						to[i*pitch+j] = s
					}
				}
			}
		}
	}
}

// spreadSquaresPortable is spreadSquares without assembly.
func spreadSquaresPortable(rows, inner int, d []float32, pitch int, b []float32, stride int) {
	pair := func(x, y float32) [4]float32 { return [4]float32{x, float32(0.5 * (x + y)), float32(0.5 * (x - y)), y} }
	for r := range rows {
		for s := range inner {
			for q := range TileN {
				from, to := d[2*r*pitch+2*s*TileN+q:], b[(r*inner+s)*TileN+q:]
				upper, lower := pair(from[0], from[TileN]), pair(from[pitch], from[pitch+TileN])
				for j := range 4 {
					for i, y := range pair(upper[j], lower[j]) {
						to[(4*i+j)*stride] = y
					}
				}
			}
		}
	}
}

// contractSquaresPortable is contractSquares without assembly.
func contractSquaresPortable(rows, inner int, v []float32, channel, row, strideV int, b []float32, strideB int, p []float32, more bool, c []float32, ldc, n, skip int, accumulate bool) {
	h := squareRows()
	for part := range SquareParts {
		for i := range h {
			sum := p[(part*h+i)*TileN:][:n]
			if !more {
				clear(sum)
			}
			for r := range rows {
				x, y := v[part*strideV+i*channel+r*row:], b[part*strideB+r*inner*TileN:]
				for s := range inner {
					for q, d := range y[s*TileN:][:n] {
						sum[q] += x[s] * d
					}
				}
			}
		}
	}
	if c == nil {
		return
	}
	three := func(a, b, c, d float32) [3]float32 { return [3]float32{b + c + a, b - c, b + c - d} }
	for i := skip; i < h; i++ {
		for q := range n {
			at := func(i1, j1 int) float32 { return p[((4*i1+j1)*h+i)*TileN+q] }
			var columns [4][3]float32
			for j := range columns {
				columns[j] = three(at(0, j), at(1, j), at(2, j), at(3, j))
			}
			for k := range 3 {
				for j, g := range three(columns[0][k], columns[1][k], columns[2][k], columns[3][k]) {
					to := &c[((i-skip)*Kernel+3*k+j)*ldc+q]
					if accumulate {
						g += *to
					}
					*to = g
				}
			}
		}
	}
}
