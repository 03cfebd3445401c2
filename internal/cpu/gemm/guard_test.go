//go:build linux || darwin

package gemm

import (
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/vec/guard"
)

// Every operand, the result and every packing buffer lie in turn directly before and after memory that faults.
func TestNothingOutsideIsTouched(t *testing.T) {
	const most = 64 * 700 // with the padding of panels
	var regions [7]guard.Region
	for i := range regions {
		regions[i] = guard.New(t, 4*most)
	}
	r := newRand(8)
	place := func(region int, x []float32) []float32 {
		y := regions[region].Floats(len(x), r.IntN(2) == 0)
		copy(y, x)
		return y
	}
	eachImplementation(t, func(t *testing.T) {
		for round := range 400 {
			m, n, k := 1+r.IntN(50), 1+r.IntN(50), 1+r.IntN(40)
			if round%10 == 0 {
				k = 300 + r.IntN(400)
			}
			var free Workspace
			a, b := layouts[r.IntN(2)].build(r, m, k), layouts[r.IntN(2)].build(r, k, n)
			want := RowMajor(make([]float32, m*n), m, n)
			Mul(want, a, b, false, &free)

			a.Data, b.Data = place(0, a.Data), place(1, b.Data)
			c := RowMajor(place(2, want.Data), m, n)
			clear(c.Data)
			Mul(c, a, b, false, &Workspace{a: place(3, free.a), b: place(4, free.b)})
			if !slices.Equal(c.Data, want.Data) {
				t.Fatalf("%dx%dx%d: Mul gives other bits at other addresses", m, k, n)
			}

			height, panels := split(m).panels, (n+TileN-1)/TileN
			pa := PackedA{data: place(5, make([]float32, height*k*TileM))}
			pb := PackedB{data: place(6, make([]float32, panels*k*TileN))}
			PackA(&pa, a)
			PackB(&pb, b)
			MulPacked(c, &pa, &pb, false)
			if !slices.Equal(c.Data, want.Data) {
				t.Fatalf("%dx%dx%d: MulPacked gives other bits at other addresses", m, k, n)
			}
		}
	})
}
