package gemm

import (
	"math"
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/vec"
)

// excessByRows is AddExcess by its definition.
func excessByRows(sums []float32, groups []Matrix, b Matrix, threshold float32) {
	n := b.Cols
	var ws Workspace
	for i, a := range groups {
		products := RowMajor(make([]float32, a.Rows*n), a.Rows, n)
		Mul(products, a, b, false, &ws)
		for row := range a.Rows {
			x := products.Data[row*n:][:n]
			vec.AddExcess(sums[2*i*n:][:n], 1, x, threshold)
			vec.AddExcess(sums[(2*i+1)*n:][:n], -1, x, threshold)
		}
	}
}

// Every implementation has the bits of products whose rows are added one by one. A NaN of a row reaches the sums of its group
// alone, and so does an infinity of B those of its column.
func TestAddExcess(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(47)
		var ws Workspace
		for round := range 300 {
			count, m, n, k := 1+r.IntN(5), 1+r.IntN(40), 1+r.IntN(100), 1+r.IntN(60)
			switch round % 10 {
			case 0:
				k = 300 + r.IntN(400) // several blocks
			case 1:
				n = TileN * (1 + r.IntN(3))
			case 2:
				k = 0
			}
			all, b := dense(r, count*m, k), layouts[r.IntN(2)].build(r, k, n)
			if round%3 == 0 && k > 0 {
				all.Data[r.IntN(len(all.Data))] = float32(math.NaN())
				b.Data[r.IntN(len(b.Data))] = float32(math.Inf(1))
			}
			groups := make([]Matrix, count)
			for i := range groups {
				groups[i] = all.Slice(i*m, (i+1)*m, 0, k)
			}
			threshold := float32(r.NormFloat64())
			got := values(r, 2*n*count+3)
			want := slices.Clone(got)
			excessByRows(want, groups, b, threshold)
			var packed PackedB
			PackB(&packed, b)
			AddExcess(got, groups, &packed, threshold, &ws)
			if !sameFloats(got, want) {
				t.Fatalf("%d groups of %dx%dx%d, threshold %g: other bits", count, m, k, n, threshold)
			}
		}
	})
}

// What is left out of products with a triangular matrix is left out here.
func TestAddExcessUpper(t *testing.T) {
	r := newRand(48)
	const m, size = 9, 700
	a, b := dense(r, m, size), dense(r, size, size)
	for i := range size {
		clear(b.Data[i*size:][:i])
	}
	want := values(r, 2*size)
	got := slices.Clone(want)
	var packed PackedB
	PackUpper(&packed, b)
	excessByRows(want, []Matrix{a}, b, 0.3)
	AddExcess(got, []Matrix{a}, &packed, 0.3, &Workspace{})
	if !slices.Equal(got, want) { // but for the sign of zero
		t.Error("other sums")
	}
}
