//go:build linux || darwin

package vec

import (
	"slices"
	"testing"

	"github.com/privgrad/privgrad/internal/cpu/vec/guard"
)

// Every slice lies in turn directly before and after memory that faults.
func TestNothingOutsideIsTouched(t *testing.T) {
	var regions [4]guard.Region
	for i := range regions {
		regions[i] = guard.New(t, 4096)
	}
	eachImplementation(t, func(t *testing.T) {
		r := newRand(5)
		for n := range 140 {
			for _, end := range []bool{false, true} {
				place := func(i int) []float32 { return regions[i].Floats(n, end) }
				dst, x, y := place(0), place(1), place(2)
				for _, f := range elementwise {
					old := values(r, n)
					copy(dst, old)
					copy(x, values(r, n))
					copy(y, values(r, n))
					f.run(old, slices.Clone(x), slices.Clone(y))
					f.run(dst, x, y)
					if !slices.Equal(dst, old) {
						t.Fatalf("%s of %d elements has other bits at another address", f.name, n)
					}
				}
				half := n / 2
				arg := make([]int32, half)
				MaxPool2(dst[:half], arg, x, y, 0, n)
				src := regions[3].Bytes(n, end)
				Bytes(dst, src, a, b)
				Sum(x)
				SumSquares(x)
				Dot(x, y)
			}
		}
	})
}
