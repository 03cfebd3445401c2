package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// geometry is a convolution at stride one over an image of channels planes.
type geometry struct{ channels, kh, kw, rows, cols, out int }

var geometries = []geometry{
	{1, 5, 5, 24, 24, 6}, {6, 5, 5, 8, 8, 16}, {16, 5, 5, 12, 12, 6}, // cnn-mnist
	{4, 4, 4, 14, 14, 16}, {64, 2, 2, 5, 5, 32}, // mnist-tf, its strides unfolded
	{3, 3, 3, 32, 32, 32}, {40, 3, 3, 16, 16, 13}, {2, 1, 1, 1, 1, 1}, {1, 2, 3, 3, 7, 17}, {5, 3, 1, 2, 9, 40},
	{2, 5, 5, 7, 9, 11}, {3, 3, 3, 10, 6, 8}, {1, 5, 5, 28, 28, 1}, {3, 4, 4, 3, 5, 2}, // runs of taps that fill no tile
}

func (g geometry) String() string {
	return fmt.Sprintf("%dx%dx%d to %dx%dx%d", g.channels, g.kh, g.kw, g.out, g.rows, g.cols)
}

func (g geometry) taps() *Taps {
	h, w := g.rows+g.kh-1, g.cols+g.kw-1
	var offsets []int
	for c := range g.channels {
		for y := range g.kh {
			for x := range g.kw {
				offsets = append(offsets, (c*h+y)*w+x)
			}
		}
	}
	return NewTaps(offsets, g.rows, g.cols, w)
}

func (g geometry) image() int { return g.channels * (g.rows + g.kh - 1) * (g.cols + g.kw - 1) }
func (g geometry) k() int     { return g.channels * g.kh * g.kw }

// matrix is what the taps of every position of an image read, as a matrix (taps) × (positions).
func (t *Taps) matrix(x []float32) Matrix {
	m := RowMajor(make([]float32, len(t.offsets)*t.rows*t.cols), len(t.offsets), t.rows*t.cols)
	for p, o := range t.offsets {
		for i := range t.rows {
			for j := range t.cols {
				m.Data[p*m.RS+i*t.cols+j] = x[i*t.pitch+j+int(o)/4]
			}
		}
	}
	return m
}

// image makes an image that is exactly as long as it must be, NaN where no output reads it.
func (g geometry) values(r *rand.Rand, t *Taps) []float32 {
	x := values(r, max(t.Reach(), g.image()))
	for i := g.image(); i < len(x); i++ {
		x[i] = float32(math.NaN())
	}
	return x
}

func TestCorrelate(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(11)
		for _, g := range geometries {
			for _, accumulate := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s accumulate %v", g, accumulate), func(t *testing.T) {
					taps := g.taps()
					x := g.values(r, taps)
					w := dense(r, g.out, g.k())
					var a PackedA
					PackA(&a, w)
					positions := g.rows * g.cols
					gap := 3 // between channels
					before := values(r, g.out*(positions+gap))
					c := append([]float32(nil), before...)
					Correlate(c, positions+gap, &a, x, taps, accumulate, nil, false)
					view := func(d []float32) Matrix {
						return Matrix{Data: d, Rows: g.out, Cols: positions, RS: positions + gap, CS: 1}
					}
					columns := taps.matrix(x)
					checkProduct(t, view(c), view(before), w, columns, accumulate)
					// The bits of a product.
					same := append([]float32(nil), before...)
					Mul(view(same), w, columns, accumulate, new(Workspace))
					equalBits(t, c, same)

					bias := values(r, g.out)
					d := append([]float32(nil), before...)
					Correlate(d, positions+gap, &a, x, taps, accumulate, bias, true)
					for i := range g.out {
						for j := range positions {
							same[i*(positions+gap)+j] = max(same[i*(positions+gap)+j]+bias[i], 0)
						}
					}
					equalBits(t, d, same)
				})
			}
		}
	})
}

func TestCorrelateKeepsNaN(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		taps := NewTaps([]int{0}, 1, 3, 3)
		x := make([]float32, taps.Reach())
		x[0], x[1], x[2] = float32(math.NaN()), -1, 2
		var a PackedA
		PackA(&a, RowMajor([]float32{1}, 1, 1))
		c := make([]float32, 3)
		Correlate(c, 3, &a, x, taps, false, nil, true)
		if c[0] == c[0] || c[1] != 0 || c[2] != 2 {
			t.Errorf("relu of NaN, -1, 2 is %v", c)
		}
	})
}

func TestContract(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(12)
		for _, g := range geometries {
			for _, accumulate := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, accumulate %v", g, accumulate), func(t *testing.T) {
					taps := g.taps()
					x := g.values(r, taps)
					delta := dense(r, g.out, g.rows*g.cols)
					before := dense(r, g.k(), g.out+2)
					c := before
					c.Data = append([]float32(nil), before.Data...)
					c.Cols, before.Cols = g.out, g.out
					Contract(c, x, taps, delta, accumulate, new(PackedB))
					checkProduct(t, c, before, taps.matrix(x), delta.T(), accumulate)
					for p := range g.k() {
						equalBits(t, c.Data[p*c.RS+g.out:(p+1)*c.RS], before.Data[p*c.RS+g.out:(p+1)*c.RS])
					}
				})
			}
		}
	})
}

func equalBits(t *testing.T, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("value %d is %v, want the bits of %v", i, got[i], want[i])
		}
	}
}

// Columns are the taps of every output, and Terms counts at least the longest chain of roundings in a sum over them.
func TestColumns(t *testing.T) {
	r := newRand(13)
	for _, g := range geometries {
		taps := g.taps()
		x := g.values(r, taps)
		want := taps.matrix(x)
		got := RowMajor(make([]float32, len(want.Data)), want.Cols, want.Rows)
		taps.Columns(got.Data, x)
		for p := range want.Rows {
			for o := range want.Cols {
				if got.at(o, p) != want.at(p, o) {
					t.Fatalf("%s: output %d reads %v at tap %d, want %v", g, o, got.at(o, p), p, want.at(p, o))
				}
			}
		}
	}
}

func TestRunsOfTaps(t *testing.T) {
	for _, test := range []struct {
		offsets []int
		want    int
	}{
		{[]int{0}, 1}, {[]int{0, 1, 2}, 3}, {[]int{0, 2, 4}, 1}, {[]int{0, 1, 2, 7, 8, 9, 100, 101, 102}, 3},
		{[]int{0, 1, 7, 8, 9, 10}, 1}, {[]int{0, 1, 3, 4, 5}, 1}, {[]int{0, 1, 5}, 1}, {[]int{3, 4, 3, 4}, 2}, {[]int{5, 0, 1}, 1},
	} {
		taps := NewTaps(test.offsets, 2, 2, 9)
		if taps.run != test.want || len(taps.starts)*taps.run != len(test.offsets) {
			t.Errorf("%v: runs of %d at %v, want runs of %d", test.offsets, taps.run, taps.starts, test.want)
		}
	}
}

func TestTerms(t *testing.T) {
	for _, test := range []struct{ rows, cols, want int }{{1, 1, 4}, {5, 5, 28}, {16, 16, 256 + 3}, {32, 32, 256 + 6}, {24, 24, 240 + 5}, {3, 300, 305}} {
		if got := NewTaps([]int{0}, test.rows, test.cols, test.cols).Terms(); got != test.want {
			t.Errorf("%d by %d positions: %d roundings, want %d", test.rows, test.cols, got, test.want)
		}
	}
}
