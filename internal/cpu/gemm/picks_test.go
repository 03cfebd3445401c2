package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// pick gives so many windows of each channel a value, at any of its outputs.
func (g geometry) pick(r *rand.Rand, windows int) (delta []float32, at []int32) {
	outputs := g.rows * g.cols
	for j := range g.out {
		for range windows {
			at = append(at, int32(j*outputs+r.IntN(outputs)))
		}
	}
	return values(r, len(at)), at
}

// A gradient from picks is the product of the columns at the picked outputs, and nothing beside it is written.
func TestPicker(t *testing.T) {
	few := []geometry{{1, 4, 4, 6, 6, 1}, {2, 3, 6, 4, 15, 3}, {3, 5, 7, 6, 6, 2}, {1, 2, 8, 5, 9, 5}, {5, 1, 8, 4, 14, 4}}
	eachImplementation(t, func(t *testing.T) {
		r := newRand(21)
		tried := 0
		for _, g := range slices.Concat(geometries, few) {
			for _, windows := range []int{1, 2, 16, 37} {
				taps := g.taps()
				p := NewPicker(taps, g.out, windows)
				if p == nil {
					continue
				}
				tried++
				t.Run(fmt.Sprintf("%s windows %d", g, windows), func(t *testing.T) {
					x := values(r, max(p.Reach(), g.image(), taps.Reach()))
					for i := g.image(); i < len(x); i++ {
						x[i] = float32(math.NaN())
					}
					delta, at := g.pick(r, windows)
					c := slices.Repeat([]float32{float32(math.NaN())}, g.out*g.k()+group)
					p.Contract(c[:g.out*g.k()], x[:p.Reach()], delta, at)
					for _, v := range c[g.out*g.k():] {
						if v == v {
							t.Fatal("it writes behind the gradient")
						}
					}
					columns := taps.matrix(x)
					picked := RowMajor(make([]float32, g.k()*windows), g.k(), windows)
					for j := range g.out {
						for k, o := range at[j*windows:][:windows] {
							for tap := range g.k() {
								picked.Data[tap*windows+k] = columns.at(tap, int(o)-j*g.rows*g.cols)
							}
						}
						want := RowMajor(make([]float32, g.k()), g.k(), 1)
						Mul(want, picked, RowMajor(delta[j*windows:], windows, 1), false, new(Workspace))
						equalBits(t, c[j*g.k():][:g.k()], want.Data)
					}
				})
			}
		}
		if tried < 30 {
			t.Errorf("only %d shapes have a picker", tried)
		}
	})
}

// Who has one does not depend on the processor: runs of four to eight taps, and windows that are few and leave enough out.
func TestWhoHasAPicker(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, test := range []struct {
			geometry
			windows int
			want    bool
		}{
			{geometry{1, 5, 5, 24, 24, 6}, 144, true}, {geometry{6, 5, 5, 8, 8, 16}, 16, true}, // cnn-mnist
			{geometry{1, 5, 5, 24, 24, 6}, 529, false}, // pooled at a stride of one
			{geometry{1, 5, 5, 32, 32, 6}, 256, true}, {geometry{1, 5, 5, 34, 34, 6}, 289, false},
			{geometry{8, 3, 3, 16, 16, 8}, 64, false}, {geometry{1, 9, 9, 16, 16, 8}, 64, false},
		} {
			if got := NewPicker(test.taps(), test.out, test.windows) != nil; got != test.want {
				t.Errorf("%s with %d windows has a picker: %v, want %v", test.geometry, test.windows, got, test.want)
			}
		}
	})
}
