package gemm

import "github.com/privgrad/privgrad/internal/cpu/vec"

// AddExcess adds up how far elements of products lie beyond ±threshold. Each group is a matrix that is multiplied by B; all have
// equally many rows. A group has 2n sums, where B has n columns, behind those of the group before: to sum j it adds
// max(x − threshold, 0) of every element x of column j, and to sum n+j max(−x − threshold, 0). The bits are those of Mul, and of
// vec.AddExcess of one row after the other.
func AddExcess(sums []float32, groups []Matrix, b *PackedB, threshold float32, ws *Workspace) {
	within(0, len(groups)*2*b.n, len(sums))
	for _, a := range groups {
		a.check()
		agree(a.Rows, groups[0].Rows)
		agree(a.Cols, b.k)
	}
	switch {
	case len(groups) == 0 || groups[0].Rows == 0 || b.n == 0:
	case summing() && b.n%TileN == 0 && b.k > 0 && b.k <= blockK:
		excessOfTiles(sums, groups, b, threshold, ws)
	default:
		excessOfProducts(sums, groups, b, threshold, ws)
	}
}

// excessOfTiles leaves products in registers: those of one block of K, in whole tiles.
func excessOfTiles(sums []float32, groups []Matrix, b *PackedB, threshold float32, ws *Workspace) {
	height, panel := split(groups[0].Rows), b.k*TileM
	apart := height.panels * panel
	ws.a = grow(ws.a, len(groups)*apart)
	for i, a := range groups {
		packA(ws.a[i*apart:], panel, a, height, 0, height.panels)
	}
	for j := range b.Panels() {
		for q := range height.panels {
			_, h := height.panel(q)
			excess(len(groups), h, b.k, ws.a[q*panel:], apart, b.panel(j), sums[j*TileN:], b.n, 2*b.n, threshold)
		}
	}
}

// excessOfProducts computes the products first.
func excessOfProducts(sums []float32, groups []Matrix, b *PackedB, threshold float32, ws *Workspace) {
	for i, a := range groups {
		ws.b = grow(ws.b, a.Rows*b.n)
		products := RowMajor(ws.b, a.Rows, b.n)
		PackA(&ws.Left, a)
		MulPacked(products, &ws.Left, b, false)
		both := sums[2*i*b.n:][:2*b.n]
		for row := range a.Rows {
			x := products.Data[row*b.n:][:b.n]
			vec.AddExcess(both[:b.n], 1, x, threshold)
			vec.AddExcess(both[b.n:], -1, x, threshold)
		}
	}
}
