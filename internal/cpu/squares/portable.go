package squares

// readPortable is Read without assembly.
func readPortable(lanes, channels, rows int, x []float32, plane, pitch int, v []float32, step, stride int) {
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

// writePortable is Write without assembly.
func writePortable(lanes, channels, rows, squares int, m []float32, step, stride int, y []float32, ldy, pitch int, accumulate bool, bias []float32, relu bool) {
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

// spreadPortable is Spread without assembly.
func spreadPortable(rows, inner int, d, b []float32, stride int) {
	pitch := 2 * inner * narrowColumns
	pair := func(x, y float32) [4]float32 { return [4]float32{x, float32(0.5 * (x + y)), float32(0.5 * (x - y)), y} }
	for r := range rows {
		for s := range inner {
			for q := range narrowColumns {
				from, to := d[2*r*pitch+2*s*narrowColumns+q:], b[(r*inner+s)*narrowColumns+q:]
				upper, lower := pair(from[0], from[narrowColumns]), pair(from[pitch], from[pitch+narrowColumns])
				for j := range 4 {
					for i, y := range pair(upper[j], lower[j]) {
						to[(4*i+j)*stride] = y
					}
				}
			}
		}
	}
}

// contractPortable is Contract without assembly.
func contractPortable(rows, inner int, v []float32, channel, row, strideV int, b []float32, strideB int, p []float32, more bool, c []float32, ldc, n, skip int, accumulate bool) {
	for part := range Parts {
		for i := range narrowRows {
			sum := p[(part*narrowRows+i)*narrowColumns:][:n]
			if !more {
				clear(sum)
			}
			for r := range rows {
				x, y := v[part*strideV+i*channel+r*row:], b[part*strideB+r*inner*narrowColumns:]
				for s := range inner {
					for q, d := range y[s*narrowColumns:][:n] {
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
	for i := skip; i < narrowRows; i++ {
		for q := range n {
			at := func(i1, j1 int) float32 { return p[((4*i1+j1)*narrowRows+i)*narrowColumns+q] }
			var columns [4][3]float32
			for j := range columns {
				columns[j] = three(at(0, j), at(1, j), at(2, j), at(3, j))
			}
			for k := range 3 {
				for j, g := range three(columns[0][k], columns[1][k], columns[2][k], columns[3][k]) {
					to := &c[((i-skip)*Taps+3*k+j)*ldc+q]
					if accumulate {
						g += *to
					}
					*to = g
				}
			}
		}
	}
}
