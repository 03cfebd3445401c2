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

// PackedB is a right operand packed for any number of products, or written by the caller panel by panel: column j of a
// k by n matrix is column j mod TileN of panel j/TileN, and a panel holds k rows of TileN values. The columns of the
// last panel from n on are padding that reaches no result. The zero value is an empty matrix.
type PackedB struct {
	data []float32
	k, n int
}

// Reset makes p a k by n matrix of unspecified values.
func (p *PackedB) Reset(k, n int) {
	within(0, k, k)
	within(0, n, n)
	p.k, p.n = k, n
	p.data = grow(p.data, p.Panels()*k*TileN)
}

// Panels is the number of panels, n/TileN rounded up.
func (p *PackedB) Panels() int { return (p.n + TileN - 1) / TileN }

// Panel is the k·TileN values of panel j: row i stands at i·TileN.
func (p *PackedB) Panel(j int) []float32 {
	size := p.k * TileN
	return p.data[j*size : (j+1)*size : (j+1)*size]
}

// Values is all panels, one after the other.
func (p *PackedB) Values() []float32 { return p.data[:p.Panels()*p.k*TileN] }

// PackB packs b into dst, whose memory it uses again, with zero padding.
func PackB(dst *PackedB, b Matrix) {
	b.check()
	dst.Reset(b.Rows, b.Cols)
	packB(dst.data, b.Rows*TileN, b)
}

// MulPacked computes C = A·B, or C += A·B when accumulate is set, with the bits of Mul. C must have CS = 1.
// Goroutines may share the operands.
func MulPacked(c Matrix, a *PackedA, b *PackedB, accumulate bool) {
	c.checkResult(a.m, a.k, b.k, b.n)
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	if a.k == 0 {
		c.sumOfNothing(accumulate)
		return
	}
	height, step := split(a.m), blockLen(a.k)
	for p0 := 0; p0 < a.k; p0 += step {
		for i := 0; i < height.panels; i += blockM {
			end := min(i+blockM, height.panels)
			t := tiles{height, i, end, min(step, a.k-p0), a.data[(i*a.k+p0)*TileM:], a.k * TileM, accumulate || p0 > 0}
			t.mul(c, 0, c.Cols, b.data[p0*TileN:], TileN, b.k*TileN)
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
		case a.RS == 1 && h == TileM:
			for p := range a.Cols {
				*(*[TileM]float32)(d[p*TileM:]) = *(*[TileM]float32)(s[p*a.CS:])
			}
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

// packB writes the panels of b stride apart, with zero padding.
func packB(dst []float32, stride int, b Matrix) {
	if b.Rows == 0 || b.Cols == 0 {
		return
	}
	if b.CS == 1 {
		// Row by row: long contiguous reads keep the prefetcher busy.
		for p := range b.Rows {
			row := b.Data[p*b.RS:][:b.Cols]
			at := p * TileN
			for ; len(row) >= TileN; row = row[TileN:] {
				*(*[TileN]float32)(dst[at:]) = *(*[TileN]float32)(row)
				at += stride
			}
			if len(row) > 0 {
				last := dst[at:][:TileN]
				clear(last[copy(last, row):])
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
