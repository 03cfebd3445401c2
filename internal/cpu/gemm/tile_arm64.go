//go:build !noasm

package gemm

import "github.com/privgrad/privgrad/internal/cpu/squares"

// assembly is a variable so that tests can run the portable code as well. Every arm64 processor has NEON.
var assembly = true

const wide = false

func tileShape() (m, n int) { return baseM, baseN }

// isa names the instruction set of the assembly.
const isa = "NEON"

// columnsOf is how many columns the kernels for n of them compute.
func columnsOf(n int) int {
	if n <= baseN/2 {
		return baseN / 2
	}
	return baseN
}

// block holds a tile of which C has only some columns, until they are copied.
type block [narrowM * baseN]float32

// put writes h rows of n columns to c, or adds them.
func (s *block) put(c []float32, ldc, h, n int, accumulate bool) {
	for i := range h {
		row, sum := c[i*ldc:][:n], s[i*baseN:][:n]
		if !accumulate {
			copy(row, sum)
			continue
		}
		for j, v := range sum {
			row[j] += v
		}
	}
}

// tile computes tiles times h rows of n columns, one below the other, from the start of c, in blocks of step of kc that are
// added one after the other; the panels of A are lda apart. The indexing before a kernel proves that it stays within the
// slices.
func tile(tiles, h, kc, step int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, n int, accumulate bool, _ []float32, _, _ int) {
	if !assembly {
		tilePortable(tiles, h, kc, step, a, lda, b, ldb, c, ldc, n, accumulate)
		return
	}
	columns := columnsOf(n)
	_, _, _ = a[(tiles-1)*lda+(kc-1)*TileM+h-1], b[(kc-1)*ldb+columns-1], c[(tiles*h-1)*ldc+n-1]
	var part block
	for i := range tiles {
		rows := c[i*h*ldc:]
		for p := 0; p < kc; p += step {
			long, add := min(step, kc-p), accumulate || p > 0
			if n == columns {
				tileKernel(columns, h, long, &a[i*lda+p*TileM], &b[p*ldb], ldb, &rows[0], ldc, add)
				continue
			}
			tileKernel(columns, h, long, &a[i*lda+p*TileM], &b[p*ldb], ldb, &part[0], baseN, false)
			part.put(rows, ldc, h, n, add)
		}
	}
}

// correlate computes h rows of outputs. Correlate has proved that the kernel stays within x and c.
func correlate(h, kc int, a []float32, taps []int32, x []float32, pairs []int32, c []float32, ldc int, accumulate bool, bias []float32, relu bool) {
	if !assembly {
		correlatePortable(h, a, taps, x, pairs, c, ldc, accumulate, bias, relu)
		return
	}
	_, _ = a[(kc-1)*TileM+h-1], taps[kc-1]
	var first *float32
	if bias != nil {
		first = &bias[:h][0]
	}
	for ; len(pairs) > 0; pairs = pairs[pairWords:] {
		p := (*[pairWords]int32)(pairs)
		x0, x1 := &x[p[0]/4], &x[p[1]/4]
		if p[4] == group && p[5] == group {
			correlateKernel(h, kc, &a[0], &taps[0], x0, x1, &c[p[2]/4], &c[p[3]/4], ldc, accumulate, relu, first)
			continue
		}
		// The kernel writes whole groups. Where there is room for less, they are cut, with what C held in them.
		var part block
		for half := range 2 {
			if n := int(p[4+half]); accumulate && n > 0 {
				for i := range h {
					copy(part[i*baseN+half*group:][:n], c[i*ldc+int(p[2+half]/4):])
				}
			}
		}
		correlateKernel(h, kc, &a[0], &taps[0], x0, x1, &part[0], &part[group], baseN, accumulate, relu, first)
		for half := range 2 {
			if n := int(p[4+half]); n > 0 {
				for i := range h {
					copy(c[i*ldc+int(p[2+half]/4):][:n], part[i*baseN+half*group:])
				}
			}
		}
	}
}

// contract computes h rows of a gradient. Contract has proved that the kernel stays within x.
func contract(h, rows, inner int, jumps []int32, x []float32, taps []int32, b, c []float32, ldc, n int, accumulate bool) {
	if !assembly {
		contractPortable(h, inner, jumps, x, taps, b, c, ldc, n, accumulate)
		return
	}
	_, _, _, _ = jumps[rows-1], taps[h-1], b[rows*inner*TileN-1], c[(h-1)*ldc+n-1]
	columns := columnsOf(n)
	if n == columns {
		contractKernel(columns, h, rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &c[0], ldc, accumulate)
		return
	}
	var part block
	contractKernel(columns, h, rows, inner, &jumps[0], &x[0], &taps[0], &b[0], &part[0], baseN, false)
	part.put(c, ldc, h, n, accumulate)
}

// transposeRowsA packs h rows of k values, ld apart, as a panel of A if there is a kernel for it.
func transposeRowsA(dst, src []float32, k, ld, h int) bool {
	if !assembly {
		return false
	}
	turn(dst, src, k, ld, h, TileM)
	return true
}

// transposeColumnsB packs n columns of k contiguous values, ld apart, as a panel of B if there is a kernel for it. What
// kernels read beyond n is zero.
func transposeColumnsB(dst, src []float32, k, ld, n int) bool {
	if !assembly {
		return false
	}
	turn(dst, src, k, ld, n, TileN)
	if padded := columnsOf(n); n < padded {
		for p := range k {
			clear(dst[p*TileN+n : p*TileN+padded])
		}
	}
	return true
}

// turn turns n rows of k values, ld apart, into the first n columns of dst, whose rows are stride apart.
func turn(dst, src []float32, k, ld, n, stride int) {
	_, _ = dst[(k-1)*stride+n-1], src[(n-1)*ld+k-1]
	groups, i := k/4, 0
	if groups > 0 {
		for ; i+4 <= n; i += 4 {
			transpose4NEON(groups, &src[i*ld], ld, &dst[i], stride)
		}
		if i+2 <= n {
			transpose2NEON(groups, &src[i*ld], ld, &dst[i], stride)
			i += 2
		}
	}
	for row := range n {
		first := 4 * groups
		if row >= i {
			first = 0
		}
		for p, v := range src[row*ld:][first:k] {
			dst[(first+p)*stride+row] = v
		}
	}
}

// copyColumnsA packs k columns of h contiguous values, ld apart, as a panel of A if there is a fast way.
func copyColumnsA(dst, src []float32, k, ld, h int) bool {
	if !assembly || h != baseM {
		return false
	}
	for p := range k {
		*(*[baseM]float32)(dst[p*baseM:]) = [baseM]float32(src[p*ld:])
	}
	return true
}

// copyRowsB packs rows of whole groups of TileN values, ld apart, as panels of B stride apart if there is a fast way.
func copyRowsB(dst, src []float32, rows, groups, ld, stride int) bool {
	if !assembly {
		return false
	}
	for p := range rows {
		for g := range groups {
			*(*[baseN]float32)(dst[g*stride+p*baseN:]) = [baseN]float32(src[p*ld+g*baseN:])
		}
	}
	return true
}

func form() squares.Form { return squares.Portable }
