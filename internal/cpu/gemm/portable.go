package gemm

// tilePortable is tile without assembly. Of b it reads eight columns when n <= 8 and sixteen otherwise.
func tilePortable(tiles, h, kc, step int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, n int, accumulate bool) {
	for p := 0; p < kc; p += step {
		blockPortable(tiles, h, min(step, kc-p), a[p*TileM:], lda, b[p*ldb:], ldb, c, ldc, n, accumulate || p > 0)
	}
}

func blockPortable(tiles, h, kc int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, n int, accumulate bool) {
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

// runsPortable is runs without assembly.
func (p *Picker) runsPortable(first, h, channels int, c, x, delta []float32, at []int32) {
	t := p.taps
	for j := range channels {
		for r, start := range t.starts[first : first+h] {
			var sum [group]float32
			for k, d := range delta[j*p.windows:][:p.windows] {
				place := p.places[int(at[j*p.windows+k])-j*t.Outputs()]
				for q, v := range x[(place+start)/4:][:t.run] {
					sum[q] += v * d
				}
			}
			copy(c[j*len(t.offsets)+r*t.run:][:t.run], sum[:])
		}
	}
}
