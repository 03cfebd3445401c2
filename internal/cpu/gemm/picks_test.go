package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// pick makes so many windows for each channel, at any of its outputs.
func (g geometry) pick(r *rand.Rand, windows int) Picks {
	p := Picks{Windows: windows, Delta: values(r, g.out*windows)}
	outputs := g.rows * g.cols
	for j := range g.out {
		for range windows {
			p.At = append(p.At, int32(j*outputs+r.IntN(outputs)))
		}
	}
	return p
}

// A gradient from picks is the sum over windows, and nothing beside it is touched.
func TestContractPicks(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(21)
		few := []geometry{{1, 4, 4, 3, 3, 1}, {2, 3, 6, 4, 5, 3}, {3, 5, 7, 6, 6, 2}, {1, 2, 8, 5, 9, 5}, {5, 1, 8, 4, 4, 4}}
		for _, g := range slices.Concat(geometries, few) {
			if g.kw < shortestRun {
				continue
			}
			for _, windows := range []int{1, 2, 16, 37} {
				t.Run(fmt.Sprintf("%s windows %d", g, windows), func(t *testing.T) {
					taps := g.taps()
					x := values(r, max(taps.PickReach(), g.image()))
					for i := g.image(); i < len(x); i++ {
						x[i] = float32(math.NaN())
					}
					p := g.pick(r, windows)
					c := make([]float32, g.out*g.k()+group)
					for i := range c {
						c[i] = float32(math.NaN())
					}
					ContractPicks(c[:g.out*g.k()], x, taps, p)
					for _, v := range c[g.out*g.k():] {
						if v == v {
							t.Fatal("it writes behind the gradient")
						}
					}
					columns := taps.matrix(x)
					for j := range g.out {
						// Picks of the channel as a product: columns at the picked outputs times δ.
						picked := RowMajor(make([]float32, g.k()*windows), g.k(), windows)
						for k := range windows {
							at := int(p.At[j*windows+k]) - j*g.rows*g.cols
							for tap := range g.k() {
								picked.Data[tap*windows+k] = columns.Data[tap*columns.RS+at]
							}
						}
						want := RowMajor(make([]float32, g.k()), g.k(), 1)
						Mul(want, picked, RowMajor(p.Delta[j*windows:][:windows], windows, 1), false, new(Workspace))
						equalBits(t, c[j*g.k():][:g.k()], want.Data)
					}
				})
			}
		}
	})
}
