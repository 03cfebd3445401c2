package gemm

// PackedA is a left operand packed for any number of products. The zero value is an empty matrix.
type PackedA struct {
	data []float32
	m, k int
}

// PackA packs a into dst, whose memory it uses again.
func PackA(dst *PackedA, a Matrix) {
	a.check()
	dst.m, dst.k = a.Rows, a.Cols
	if a.Rows == 0 || a.Cols == 0 {
		return
	}
	height := split(a.Rows)
	dst.data = grow(dst.data, height.panels*a.Cols*TileM)
	packA(dst.data, a.Cols*TileM, a, height, 0, height.panels)
}

// PackedB is a right operand packed for any number of products: column j of a k by n matrix is column j mod TileN of
// panel j/TileN, and a panel holds k rows of TileN values. Columns from n on are padding that reaches no result. The
// zero value is an empty matrix.
type PackedB struct {
	data  []float32
	k, n  int
	upper bool // what is below the diagonal is zero, and left out of products where a whole block of K is
}

// Panels is the number of panels.
func (p *PackedB) Panels() int { return (p.n + TileN - 1) / TileN }

// panel is the k·TileN values of panel j: row i stands at i·TileN.
func (p *PackedB) panel(j int) []float32 {
	size := p.k * TileN
	return p.data[j*size : (j+1)*size : (j+1)*size]
}

// PackB packs b into dst, whose memory it uses again.
func PackB(dst *PackedB, b Matrix) {
	dst.Resize(b.Rows, b.Cols)
	dst.Pack(b, 0, dst.Panels())
}

// PackUpper is PackB of a matrix that is zero below its diagonal, which it does not check. Products then skip most of these zeros, so a NaN or an
// infinity of A need not reach all columns. Other results have the bits of Mul, but perhaps for the sign of zero.
func PackUpper(dst *PackedB, b Matrix) {
	PackB(dst, b)
	dst.upper = true
}

// Resize makes room for a k by n matrix, of unspecified values.
func (p *PackedB) Resize(k, n int) {
	within(0, k, k)
	within(0, n, n)
	p.k, p.n, p.upper = k, n, false
	p.data = grow(p.data, p.Panels()*k*TileN)
}

// Pack packs panels first to end, the end excluded, of b. Goroutines may share out the panels.
func (p *PackedB) Pack(b Matrix, first, end int) {
	b.check()
	agree(p.k, b.Rows)
	agree(p.n, b.Cols)
	within(first, end, p.Panels())
	if first == end {
		return
	}
	packB(p.data[first*p.k*TileN:], p.k*TileN, b.Slice(0, p.k, first*TileN, min(end*TileN, p.n)))
}

// PackRows packs b as the rows from row on, in all panels.
func (p *PackedB) PackRows(row int, b Matrix) {
	b.check()
	agree(p.n, b.Cols)
	within(row, row+b.Rows, p.k)
	if b.Rows > 0 && b.Cols > 0 {
		packB(p.data[row*TileN:], p.k*TileN, b)
	}
}

// MulPacked is Mul of packed operands, with its bits. Goroutines may share them.
func MulPacked(c Matrix, a *PackedA, b *PackedB, accumulate bool) {
	c.checkResult(a.m, a.k, b.k, b.n)
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	if a.k == 0 {
		c.sumOfNothing(accumulate)
		return
	}
	height, step := split(a.m), blockLen(a.k, blockK)
	for p0 := 0; p0 < a.k; p0 += step {
		first := 0 // panel that may hold more than zeros
		if b.upper {
			first = p0 / TileN
		}
		if first >= b.Panels() {
			break
		}
		for i := 0; i < height.panels; i += blockM / TileM {
			end := min(i+blockM/TileM, height.panels)
			t := tiles{height: height, first: i, end: end, kc: min(step, a.k-p0), step: step, a: a.data[(i*a.k+p0)*TileM:], strideA: a.k * TileM, accumulate: accumulate || p0 > 0}
			t.mul(c, first*TileN, c.Cols, b.data[(first*b.k+p0)*TileN:], TileN, b.k*TileN)
		}
	}
}

// packA writes panels first to end, the end excluded, of a partition of a's rows, stride apart: a.Cols columns of TileM
// values, of which a panel of fewer rows leaves the last unspecified.
func packA(dst []float32, stride int, a Matrix, height partition, first, end int) {
	for i := first; i < end; i++ {
		row, h := height.panel(i)
		d, s := dst[(i-first)*stride:][:a.Cols*TileM], a.Data[row*a.RS:]
		switch {
		case a.CS == 1 && transposeRowsA(d, s, a.Cols, a.RS, h):
		case a.RS == 1 && copyColumnsA(d, s, a.Cols, a.CS, h):
		default:
			for p := range a.Cols {
				column := d[p*TileM:][:h]
				for i := range column {
					column[i] = s[i*a.RS+p*a.CS]
				}
			}
		}
	}
}

// packB writes the panels of b stride apart; what kernels read beyond its columns is zero.
func packB(dst []float32, stride int, b Matrix) {
	if b.Rows == 0 || b.Cols == 0 {
		return
	}
	if b.CS == 1 {
		// Row by row: long contiguous reads keep the prefetcher busy.
		whole := b.Cols / TileN
		if whole > 0 && !copyRowsB(dst, b.Data, b.Rows, whole, b.RS, stride) {
			for p := range b.Rows {
				for j := range whole {
					copy(dst[j*stride+p*TileN:][:TileN], b.Data[p*b.RS+j*TileN:])
				}
			}
		}
		if rest := b.Cols % TileN; rest > 0 {
			for p := range b.Rows {
				last := dst[whole*stride+p*TileN:][:TileN]
				clear(last[copy(last, b.Data[p*b.RS+whole*TileN:][:rest]):])
			}
		}
		return
	}
	for j := 0; j < b.Cols; j += TileN {
		n := min(TileN, b.Cols-j)
		d, s := dst[j/TileN*stride:][:b.Rows*TileN], b.Data[j*b.CS:]
		if b.RS == 1 && transposeColumnsB(d, s, b.Rows, b.CS, n) {
			continue
		}
		for p := range b.Rows {
			row := d[p*TileN:][:TileN]
			for j := range n {
				row[j] = s[p*b.RS+j*b.CS]
			}
			clear(row[n:])
		}
	}
}
