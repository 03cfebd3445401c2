package main

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Interpreted, sums and elements have the bits of their definition in any column of matrices of any width, and nothing beside
// them is read or written.
func TestAVX512Columns(t *testing.T) {
	functions, m := kernelsOf(t, "../vec", "kernels")
	r := rand.New(rand.NewPCG(35, 36))
	for columns := 1; columns < 2*64+2*16; columns++ {
		rows := 1 + r.IntN(3)
		all := rows * columns
		sum, slope, x, y := anything(r, columns), anything(r, columns), anything(r, all), anything(r, all)
		wantSum, wantSlope := slices.Clone(sum), slices.Clone(slope)
		for i, v := range x {
			c := i % columns
			wantSum[c] += v
			wantSlope[c] = fma(v, y[i], wantSlope[c])
		}
		gotSum, gotSlope := floatBytes(sum), floatBytes(slope)
		m.run(t, functions["addColumnsAVX512"], gotSum, gotSlope, floatBytes(x), floatBytes(y), columns, rows)
		check(t, gotSum, wantSum)
		check(t, gotSlope, wantSlope)

		a, b, c, dst := anything(r, columns), anything(r, columns), anything(r, columns), anything(r, all)
		want := slices.Clone(dst)
		for i, v := range dst {
			k := i % columns
			want[i] = fma(a[k], v, fma(b[k], x[i], c[k]))
		}
		got := floatBytes(dst)
		m.run(t, functions["mixColumnsAVX512"], floatBytes(a), floatBytes(b), floatBytes(c), got, floatBytes(x), columns, rows)
		check(t, got, want)
	}
}
