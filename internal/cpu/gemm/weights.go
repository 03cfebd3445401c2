package gemm

import "github.com/privgrad/privgrad/internal/cpu/vec"

// Weights prepare a matrix of weights that lies row by row, a row for each output, for any number of products with its
// transposed. Kernels that read rows where they lie need no preparation. The others need panels: then Pack is called for all
// of them whenever the weights have changed. The zero value holds no room.
type Weights struct{ packed PackedB }

// Resize makes room for weights of in inputs to out outputs.
func (w *Weights) Resize(in, out int) {
	if !readingRows() {
		w.packed.Resize(in, out)
	}
}

// Panels is the number of panels to pack.
func (w *Weights) Panels() int { return w.packed.Panels() }

// Pack packs panels first to end, the end excluded. Goroutines may share out the panels.
func (w *Weights) Pack(weights Matrix, first, end int) { w.packed.Pack(weights.T(), first, end) }

// Mul computes C = X·weightsᵀ, and adds bias, unless it is nil, to every row. C and the weights must have CS = 1. The bits of
// the product are those of Mul. C shares no memory with the rest.
func (w *Weights) Mul(c, x, weights Matrix, bias []float32, ws *Workspace) {
	c.checkResult(x.Rows, x.Cols, weights.Cols, weights.Rows)
	x.check()
	weights.check()
	agree(weights.CS, 1)
	if bias != nil {
		agree(len(bias), c.Cols)
	}
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	switch {
	case x.Cols == 0:
		c.sumOfNothing(false)
	case readingRows():
		mulRows(c, x, weights, bias, ws)
		return
	default:
		PackA(&ws.Left, x)
		MulPacked(c, &ws.Left, &w.packed, false)
	}
	if bias != nil {
		for i := range c.Rows {
			vec.AddVec(c.Data[i*c.RS:][:c.Cols], bias)
		}
	}
}

// turned is how many outputs are computed before they are turned: these, the weights for them and some columns stay in cache.
const turned = 96

// mulRows computes Cᵀ = weights·Xᵀ, and turns it round: so the weights, usually more than X holds, need no packing.
func mulRows(c, x, weights Matrix, bias []float32, ws *Workspace) {
	m, n, k := c.Cols, c.Rows, x.Cols
	panels, step := (n+TileN-1)/TileN, blockLen(k, blockK)
	ws.b = grow(ws.b, panels*k*TileN)
	packB(ws.b, k*TileN, x.T())
	ld := (panels | 1) * TileN // an odd number of lines of a cache: those of a column share few of its places
	ws.a = grow(ws.a, turned*ld)
	for i := 0; i < m; i += turned {
		rows := min(turned, m-i)
		for p0 := 0; p0 < k; p0 += step {
			kc := min(step, k-p0)
			ahead := weights.Data[i*weights.RS+p0:] // what is read next
			switch {
			case p0+kc < k:
				ahead = ahead[kc:]
			case i+rows < m:
				ahead = weights.Data[(i+rows)*weights.RS:]
			}
			done := 0 // tiles, each of which asks for a row ahead
			for j := range panels {
				narrow, height := n-j*TileN <= TileN/2, splitBy(rows, TileM)
				if narrow {
					height = splitBy(rows, 2*TileM)
				}
				level := func(first, end int) {
					if first == end {
						return
					}
					row, h := height.panel(first)
					mulTiles(narrow, end-first, h, kc, weights.Data[(i+row)*weights.RS+p0:], weights.RS, ws.b[(j*k+p0)*TileN:],
						ws.a[row*ld+j*TileN:], ld, p0 > 0, ahead[min(done*weights.RS, len(ahead)-1):])
					done += end - first
				}
				level(0, height.taller)
				level(height.taller, height.panels)
			}
		}
		var part []float32
		if bias != nil {
			part = bias[i : i+rows]
		}
		turnRound(Matrix{Data: c.Data[i:], Rows: n, Cols: rows, RS: c.RS, CS: 1}, ws.a, ld, part)
	}
}

// turnRound writes the transposed of src, whose rows lie ld apart, and adds bias, unless it is nil, to every row.
func turnRound(c Matrix, src []float32, ld int, bias []float32) {
	rows, cols := c.Rows&^7, c.Cols&^7
	if rows > 0 {
		for j := 0; j < cols; j += 8 {
			turnEight(rows/8, src[j*ld:], ld, bias, j, c.Data[j:], c.RS)
		}
	}
	for i := range c.Rows {
		row, from := c.Data[i*c.RS:][:c.Cols], 0
		if i < rows {
			from = cols
		}
		for j := from; j < c.Cols; j++ {
			row[j] = src[j*ld+i]
			if bias != nil {
				row[j] += bias[j]
			}
		}
	}
}
