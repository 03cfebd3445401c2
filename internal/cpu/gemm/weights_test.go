package gemm

import (
	"math"
	"slices"
	"testing"
)

// packed prepares weights.
func packed(weights Matrix) *Weights {
	var w Weights
	w.Resize(weights.Cols, weights.Rows)
	if n := w.Panels(); n > 0 {
		w.Pack(weights, 0, n)
	}
	return &w
}

// sameFloats: NaN is like NaN, and zeros have signs.
func sameFloats(x, y []float32) bool {
	return slices.EqualFunc(x, y, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y })
}

// Every implementation gives the bits of Mul, then one addition, with weights that have changed since, too.
func TestWeights(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(43)
		var ws Workspace
		var w Weights
		negative := float32(math.Copysign(0, -1))
		for round := range 300 {
			m, n, k := 1+r.IntN(70), 1+r.IntN(40), 1+r.IntN(50)
			if round%10 == 0 {
				m, n, k = 1+r.IntN(300), 1+r.IntN(300), 1+r.IntN(700) // several blocks of K, and of outputs
			}
			x, weights, bias := layouts[r.IntN(2)].build(r, m, k), dense(r, n, k), values(r, n)
			weights.RS, weights.Data = k+3, values(r, n*(k+3))
			if round%3 == 0 { // outputs of zero, whose sign the bias decides
				row := weights.Data[r.IntN(n)*(k+3):][:k]
				for i := range row {
					row[i] = negative
				}
				for i := range bias {
					bias[i] = negative
				}
			}
			want := dense(r, m, n)
			Mul(want, x, weights.T(), false, &ws)
			if round%2 == 0 {
				bias = nil
			}
			for i := 0; i < m && bias != nil; i++ {
				for j, v := range bias {
					want.Data[i*n+j] += v
				}
			}
			wide := Matrix{Data: values(r, m*(n+2)), Rows: m, Cols: n, RS: n + 2, CS: 1}
			beside := wide.Slice(0, m, 0, n)
			beside.Data = slices.Clone(wide.Data)
			w.Resize(k, n)
			if panels := w.Panels(); panels > 0 {
				w.Pack(weights, 0, panels)
			}
			w.Mul(beside, x, weights, bias, &ws)
			for i := range m {
				if !sameFloats(beside.Data[i*(n+2):][:n], want.Data[i*n:][:n]) {
					t.Fatalf("%dx%dx%d: row %d has other bits", m, k, n, i)
				}
				if !sameFloats(beside.Data[i*(n+2)+n:][:2], wide.Data[i*(n+2)+n:][:2]) {
					t.Fatalf("%dx%dx%d: something behind row %d was written", m, k, n, i)
				}
			}
		}
	})
}

// A NaN of a row of X stays in that row, one of a row of weights in that column.
func TestWeightsKeepNonFiniteApart(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(44)
		var ws Workspace
		for range 100 {
			m, n, k := 1+r.IntN(40), 1+r.IntN(120), 1+r.IntN(400)
			x, weights, c := dense(r, m, k), dense(r, n, k), dense(r, m, n)
			row, column := r.IntN(m), r.IntN(n)
			x.Data[row*k+r.IntN(k)], weights.Data[column*k+r.IntN(k)] = float32(math.NaN()), float32(math.Inf(1))
			packed(weights).Mul(c, x, weights, nil, &ws)
			for i := range m {
				for j := range n {
					v := c.at(i, j)
					if finite := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0); finite != (i != row && j != column) {
						t.Fatalf("%dx%dx%d: (%d, %d) is %v", m, k, n, i, j, v)
					}
				}
			}
		}
	})
}

// No inputs give the bias alone.
func TestWeightsWithoutInputs(t *testing.T) {
	c, weights := RowMajor([]float32{1, 2, 3, 4}, 2, 2), RowMajor(nil, 2, 0)
	packed(weights).Mul(c, RowMajor(nil, 2, 0), weights, []float32{5, 6}, new(Workspace))
	if !slices.Equal(c.Data, []float32{5, 6, 5, 6}) {
		t.Errorf("%v", c.Data)
	}
}
