//go:build linux || darwin

package exact

import (
	"math/rand/v2"
	"testing"

	pages "github.com/privgrad/privgrad/internal/cpu/vec/guard"
)

// Every slice lies in turn directly before and after memory that faults.
func TestKernelsTouchNothingOutside(t *testing.T) {
	var regions [3]pages.Region
	for i := range regions {
		regions[i] = pages.New(t, 8192)
	}
	f, _ := NewFixed(0x1.2p21)
	r := new(grid)
	r.set(0x1p-20)
	rnd := rand.New(rand.NewPCG(17, 18))
	words := make([]uint64, 80)
	for i := range words {
		words[i] = rnd.Uint64()
	}
	eachImplementation(t, func(t *testing.T) {
		for n := group; n <= len(words); n += group {
			for _, end := range []bool{false, true} {
				raw := regions[2].Bytes(8*n, end)
				copy(raw, bytesOf(words))
				dst, src := regions[0].Floats(n, end), regions[1].Floats(n, end)
				done := use.release(dst, src, raw, f, r)
				integers := make([]int64, n)
				if use.add(integers, raw, f) != done || done != n && use != portable {
					t.Fatalf("%d words: a kernel stops after %d", n, done)
				}
				for i, x := range dst[:done] {
					if want := float32(float64(integers[i]) * 0x1p-20); x != want {
						t.Fatalf("draw %d of %d is %v, want %v", i, n, x, want)
					}
				}
			}
		}
	})
}
