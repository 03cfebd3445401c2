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

// Every implementation has the bits of products whose rows are added one by one, for groups of any layout, also if they overlap.
func TestAddExcess(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(47)
		var ws Workspace
		for round := range 400 {
			count, m, n, k := 1+r.IntN(5), 1+r.IntN(40), 1+r.IntN(100), 1+r.IntN(60)
			if round%2 == 0 {
				n = TileN * (1 + r.IntN(4)) // whole tiles
			}
			switch round / 2 % 5 {
			case 0:
				k = blockK - 2 + r.IntN(5) // one block, or two
			case 1:
				k = r.IntN(2)
			}
			apart := r.IntN(m + 1) // rows from the beginning of a group to the next
			all, b := layouts[r.IntN(len(layouts))].build(r, (count-1)*apart+m, k), layouts[r.IntN(len(layouts))].build(r, k, n)
			groups := make([]Matrix, count)
			for i := range groups {
				groups[i] = all.Slice(i*apart, i*apart+m, 0, k)
			}
			threshold := float32(r.NormFloat64())
			if k > 0 {
				switch round / 10 % 4 {
				case 0: // an element that is ±threshold, or zero where that is below zero
					threshold = abs(all.at(0, 0) * b.at(0, 0))
					for p := 1; p < k; p++ {
						b.Data[p*b.RS] = 0
					}
				case 1:
					all.Data[r.IntN((count-1)*apart+m)*all.RS] = float32(math.NaN())
				case 2:
					b.Data[r.IntN(n)*b.CS] = float32(math.Inf(1))
				}
			}
			got := values(r, 2*n*count+3)
			want := slices.Clone(got)
			excessByRows(want, groups, b, threshold)
			var packed PackedB
			PackB(&packed, b)
			AddExcess(got, groups, &packed, threshold, &ws)
			if !sameFloats(got, want) {
				t.Fatalf("round %d: %d groups of %dx%dx%d, threshold %g: other bits", round, count, m, k, n, threshold)
			}
		}
	})
}

func abs(x float32) float32 { return float32(math.Abs(float64(x))) }

// What is left out of products with a triangular matrix changes no sum: with one block of K nothing is, with several what is zero.
func TestAddExcessUpper(t *testing.T) {
	r := newRand(48)
	const m = 9
	for _, size := range []int{96, 704} {
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
			t.Errorf("%d columns: other sums", size)
		}
	}
}
