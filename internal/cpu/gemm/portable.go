package gemm

// tilePortable is the tile without assembly: an h by n tile C (+)= A·B from a[kc][TileM] and b[kc][ldb], of which it
// reads eight columns when n <= 8 and sixteen otherwise.
func tilePortable(h, kc int, a, b []float32, ldb int, c []float32, ldc, n int, accumulate bool) {
	for j := 0; j < n; j += 8 {
		for i := range h {
			var s0, s1, s2, s3, s4, s5, s6, s7 float32
			for p := range kc {
				x := a[p*TileM+i]
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
