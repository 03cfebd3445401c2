//go:build !noasm

package gemm

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// Wider registers change no bit: a run may move between processors with AVX2 and with AVX-512.
func TestAVX512HasTheBitsOfAVX2(t *testing.T) {
	if !hasAVX512 {
		t.Skip("the processor has no AVX-512: internal/cpu/gen interprets the kernels")
	}
	both := func(t *testing.T, compute func() []float32) {
		t.Helper()
		restore := use(true, false)
		want := compute()
		restore()
		defer use(true, true)()
		equalBits(t, compute(), want)
	}
	r := newRand(21)
	for round := range 120 {
		m, n, k := 1+size(r, 80), 1+size(r, 100), 1+size(r, 200)
		if round%8 == 0 {
			k = 300 + r.IntN(400)
		}
		la, lb := layouts[r.IntN(len(layouts))], layouts[r.IntN(len(layouts))]
		a, b, c := la.build(r, m, k), lb.build(r, k, n), dense(r, m, n)
		accumulate, most := r.IntN(2) == 0, 1+r.IntN(blockK)
		t.Run(fmt.Sprintf("%dx%dx%d %s by %s", m, k, n, la.name, lb.name), func(t *testing.T) {
			both(t, func() []float32 {
				var ws Workspace
				var pa PackedA
				var pb PackedB
				x, y, z := RowMajor(slices.Clone(c.Data), m, n), RowMajor(slices.Clone(c.Data), m, n), RowMajor(slices.Clone(c.Data), m, n)
				Mul(x, a, b, accumulate, &ws)
				Sum(y, a, b, most, &ws)
				PackA(&pa, a)
				PackB(&pb, b)
				MulPacked(z, &pa, &pb, accumulate)
				return slices.Concat(x.Data, y.Data, z.Data)
			})
		})
	}
	for _, g := range geometries {
		for _, accumulate := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s accumulate %v", g, accumulate), func(t *testing.T) {
				taps, positions := g.taps(), g.rows*g.cols
				x := g.values(r, taps)
				w, bias, delta := dense(r, g.out, g.k()), values(r, g.out), dense(r, g.out, positions)
				c, dw := dense(r, g.out, positions), dense(r, g.k(), g.out)
				both(t, func() []float32 {
					var a PackedA
					PackA(&a, w)
					c, dw := slices.Clone(c.Data), RowMajor(slices.Clone(dw.Data), g.k(), g.out)
					Correlate(c, positions, &a, x, taps, accumulate, bias, true)
					Contract(dw, x, taps, delta, accumulate, new(PackedB))
					return slices.Concat(c, dw.Data)
				})
			})
		}
	}
}

// What packs for the AVX-512 kernels needs no more than AVX2.
func TestWidePanels(t *testing.T) {
	if !hasAVX2 {
		t.Skip("the processor has no AVX2")
	}
	const sentinel = -77
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = sentinel
		}
		return x
	}
	r := newRand(22)
	for k := 1; k <= 19; k++ {
		for h := 1; h <= wideN; h++ {
			ld := k + r.IntN(3)
			src := values(r, (h-1)*ld+k)
			b := fill(k*wideN + 1)
			transposeColumnsBWide(b, src, k, ld, h)
			read := wideN
			if h <= wideN/2 {
				read = wideN / 2
			}
			for p := range k {
				for j := range read {
					want := float32(0)
					if j < h {
						want = src[j*ld+p]
					}
					if got := b[p*wideN+j]; math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("%d columns of %d: B (%d, %d) is %v, want %v", h, k, p, j, got, want)
					}
				}
			}
			if h > wideM {
				continue
			}
			a := fill(k*wideM + 1)
			transposeRowsAWide(a, src, k, ld, h)
			for p := range k {
				for i := range h {
					if a[p*wideM+i] != src[i*ld+p] {
						t.Fatalf("%d rows of %d: A (%d, %d) is %v, want %v", h, k, p, i, a[p*wideM+i], src[i*ld+p])
					}
				}
			}
			if a[k*wideM] != sentinel || b[k*wideN] != sentinel {
				t.Fatalf("%d rows of %d: written past the end", h, k)
			}
		}
	}
}
